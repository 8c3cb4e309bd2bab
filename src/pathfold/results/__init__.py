"""Draws as a DataTree: made, read, joined and judged."""

from pathfold.results.checkpointed import open_checkpoint
from pathfold.results.combine import combine

__all__ = ["combine", "open_checkpoint"]
