"""Results as a DataTree: making, reading, joining and judging them."""

from pathfold.results.checkpointed import open_checkpoint
from pathfold.results.combine import combine
from pathfold.results.shrinkage import shrinkage
from pathfold.results.summary import summary

__all__ = ["combine", "open_checkpoint", "shrinkage", "summary"]
