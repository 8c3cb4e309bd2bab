"""Data as people have them, tables, dates, events, inputs and covariates, and the grid of times that they become."""

from pathfold.data.data import Data, Observations, panel_of
from pathfold.data.inputs import Input
from pathfold.data.nonmem import read_nonmem
from pathfold.data.seen import Seen
from pathfold.data.time_grid import TimeGrid, clocks

__all__ = ["Data", "Input", "Observations", "Seen", "TimeGrid", "clocks", "panel_of", "read_nonmem"]
