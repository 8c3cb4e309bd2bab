"""The native sampler: control flow around a model's kernels, as plain Python that Numba compiles.

It is compiled once for an installation, on first use, and kept in Numba's cache; nothing in it depends on the model.
What does, sizes, places and the addresses of the kernels, stands in the layout table (`engine/table.py`), the first
argument of nearly every function. Below `run_static` nothing is allocated and nothing raised: failures are status
codes. With NUMBA_DISABLE_JIT=1 in the environment the same functions run as plain Python.
"""
