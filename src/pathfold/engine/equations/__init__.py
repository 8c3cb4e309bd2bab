"""The equations of the method: kernels, as JAX functions of small named arrays."""
