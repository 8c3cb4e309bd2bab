"""The figures that pathfold makes."""

from io import BytesIO

import numpy as np
from matplotlib.dates import AutoDateLocator, date2num, num2date
from matplotlib.figure import Figure
from matplotlib.ticker import Locator

from pathfold.data.dates import UNITS, Calendar

RESOLUTION = 120  # dots an inch in a notebook: sharp, and a small file


class Picture(Figure):
    """A figure that no window shows by itself, and that a notebook shows where it is the value of a cell."""

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png", dpi=RESOLUTION)
        return file.getvalue()


class DateTicks(Locator):
    """Puts ticks of an axis of counted times at whole days, hours, ..., of their dates."""

    def __init__(self, calendar: Calendar, most: int):
        self.first, self.unit = date2num(calendar.origin), UNITS[calendar.unit]
        self.of_dates = AutoDateLocator(minticks=min(3, most), maxticks=most)

    def __call__(self) -> list[float]:
        assert self.axis is not None
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        dates = num2date(self.first + self.unit / UNITS["days"] * np.array([vmin, vmax]))
        seconds = UNITS["days"] * (np.asarray(self.of_dates.tick_values(*dates)) - self.first)
        return (np.round(seconds, 3) / self.unit).tolist()
