"""Models that tests share: what was made, traced and compiled for one is there for the next."""

from collections.abc import Callable
from functools import cache, wraps


def once[**Given, T](make: Callable[Given, T]) -> Callable[Given, T]:
    """Return the same object for the same arguments; `inspect.unwrap(make)` makes another.

    Arguments that cannot be hashed, such as arrays, are never the same.
    """
    kept = cache(make)

    @wraps(make)
    def found(*args: Given.args, **options: Given.kwargs) -> T:
        try:
            return kept(*args, **options)  # pyright: ignore[reportArgumentType]
        except TypeError as error:
            if "unhashable" not in str(error):
                raise
            return make(*args, **options)

    return found
