"""The errors that pathfold raises on purpose, each with a sentence naming the remedy; warnings, and lines to read."""

import sys
import warnings
from pathlib import Path
from typing import Any

LONGEST = 80  # the most characters of a value in a sentence


class PathfoldError(Exception):
    """Base class of every error pathfold raises on purpose."""


class ModelError(PathfoldError):
    """The model is not one pathfold can use: a wrong shape, an unknown parameter, a scheme that does not apply."""


class DataError(PathfoldError):
    """The observations cannot be used: times out of order, a wrong width, an infinite value."""


class SettingsError(PathfoldError):
    """A setting of pf.sample, pf.simulate or a sampler cannot be used: a wrong type, a number out of range."""


class InitialisationError(PathfoldError):
    """No starting point consistent with the data was found.

    `nearest` has where the search that came nearest ended, if any path was finite: `parameters` by name, and
    `residuals` at `times`, the largest gap or misfit at each, in units of their sizes.
    """

    def __init__(self, message: str, nearest: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.nearest = nearest

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.nearest)


class DrawsWarning(UserWarning):
    """A problem with the draws of a run; the warning says which, and what to do about it."""


def warn(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's that called, whatever it called."""
    warnings.warn(sentence, category, skip_file_prefixes=(str(Path(__file__).parent),))


def say(sentence: str, *, show: bool) -> bool:
    """Print a line for whoever waits, if it is to be shown; return whether the next one should be."""
    if not show or sys.stderr is None:
        return False
    try:
        print(f"pathfold: {sentence}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a terminal or pipe that is gone must not end a run
        return False
    return True


def told(value: Any) -> str:
    """Write a value for a sentence: its repr on one line, cut short."""
    return shorter(repr(value))


def shorter(text: str) -> str:
    """Write a text on one line, cut short."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
