"""What pictures show, by the artists in them."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pathfold.results.plots import COLOUR, plot_paths

LENGTHS = (3, 5)


def panel_tree() -> xr.DataTree:
    """Two series of different lengths with two components, the first the logarithm of what is observed."""
    rng = np.random.default_rng(1)
    times, series = np.concatenate([np.arange(1.0, n + 1) for n in LENGTHS]), np.repeat([0, 1], LENGTHS)
    state = rng.normal(size=(2, 6, sum(LENGTHS), 2))
    along = {"time": ("node", times), "node_series": ("node", series)}
    posterior = xr.Dataset({"state": (["chain", "draw", "node", "component"], state)}, along)
    observed = xr.Dataset({"y": (["node", "observation"], np.exp(state[0, 0, :, :1]))}, along)
    return xr.DataTree.from_dict({"/posterior": posterior, "/observed_data": observed})


def test_a_panel_has_a_column_for_each_series():
    tree = panel_tree()
    state, y = tree.posterior["state"].values, tree.observed_data["y"].values[:, 0]
    figure = plot_paths(tree, observed={0: 0}, natural=np.exp)
    axes = np.array(figure.axes).reshape(2, 2)
    starts = np.cumsum([0, *LENGTHS])
    for (k, j), ax in np.ndenumerate(axes):
        mine = slice(starts[j], starts[j + 1])
        (median,) = [line for line in ax.lines if line.get_color() == COLOUR]
        assert np.array_equal(median.get_xdata(), np.arange(1, LENGTHS[j] + 1))
        np.testing.assert_allclose(median.get_ydata(), np.median(np.exp(state[:, :, mine, k]), axis=(0, 1)))
        points = [line for line in ax.lines if line.get_marker() == "o"]
        assert [line.get_ydata().tolist() for line in points] == ([y[mine].tolist()] if k == 0 else [])
