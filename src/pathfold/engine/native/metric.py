"""The metric is the identity: with it the prior is the same in every direction (paper, section 4.3)."""

from __future__ import annotations

from .jit import compiled

METRIC_ROWS = 0  # of the table of momenta


@compiled
def adapt_metric(layout, problem, points, momenta, iteration, warmup):
    """Whether the metric was changed."""
    return False
