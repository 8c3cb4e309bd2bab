"""The control flow of the paper's comparators, compiled by Numba as that of `engine/native` is."""
