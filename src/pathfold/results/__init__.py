"""Draws as a DataTree; diagnostics; plots."""

from pathfold.results.sample import sample

__all__ = ["sample"]
