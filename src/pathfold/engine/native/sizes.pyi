COMPILED: bool
KERNELS: tuple[str, ...]

def __getattr__(name: str) -> int: ...
