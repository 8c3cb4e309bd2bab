"""The native engine: control flow around the kernels, as plain Python that Numba compiles.

These files are not run from here. For each model they are copied into a package of their own, beside the generated
modules `kernels` (the scalar programs) and `sizes` (dimensions and offsets as compile-time constants).
"""
