"""The figures that pathfold makes."""

from io import BytesIO

from matplotlib.figure import Figure

RESOLUTION = 120  # dots an inch in a notebook: sharp, and a small file


class Picture(Figure):
    """A figure that no window shows by itself, and that a notebook shows where it is the value of a cell."""

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png", dpi=RESOLUTION)
        return file.getvalue()
