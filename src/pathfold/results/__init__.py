"""Draws as a DataTree; diagnostics; checks of the model; plots."""

from pathfold.results.check import Check, check
from pathfold.results.sample import sample

__all__ = ["Check", "check", "sample"]
