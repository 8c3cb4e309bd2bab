"""A new series that was observed a little, given the posterior of a population: its effects, and where it is now.

The draws of the population are weighted by the density of the new data, or estimates of it, and a state drawn by the
same filter goes with each (method.md, section 19).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pathfold.analysis.innovations import filter_of
from pathfold.data import Observations, TimeGrid
from pathfold.data.events import close
from pathfold.errors import DataError, SettingsError, warn
from pathfold.inference.fit.correction import resample
from pathfold.model.check_data import check_panel
from pathfold.model.ensemble import Ensemble

FEW = 50  # effective draws, below which predictions are rough


@dataclass(frozen=True)
class Filtering:
    """A filter of a new series for every draw: fine steps as `TimeGrid.build` takes them, particles, seed, threads."""

    fine: dict[str, Any]
    particles: int
    seed: int
    threads: int

    def __call__(
        self, ensemble: Ensemble, data: Observations, asked: Observations
    ) -> tuple[Ensemble, np.ndarray, float]:
        """Return the ensemble given the data too, states (D, X) at the last of them, and effective draws.

        Draws are taken as often as their weights say, so that all of them count alike.
        """
        _check(ensemble, data, asked)
        model, rng = ensemble.model, np.random.default_rng([self.seed, 1])
        score = filter_of(model, TimeGrid.build(data, **self.fine), self.particles)
        log_weights, states = score.final(ensemble.z, self.seed, threads=self.threads)
        if not (log_weights > -np.inf).any():
            raise SettingsError(
                f"no draw of the posterior explains the new series; check its values and covariates, or {score.remedy}"
            )
        weights = self._normalised(log_weights)
        effective, count = float(1.0 / np.sum(weights**2)), len(weights)
        if effective < min(FEW, 0.5 * count):
            warn(
                f"few draws of the posterior explain the new series: {effective:.0f} of {count} are effective; "
                f"{score.if_few}, and if it is unlike the others, sample it with them",
            )
        taken = resample(weights, count, rng)
        shared = {name: value[taken] for name, value in ensemble.shared.items()}
        ensemble = replace(ensemble, shared=shared, own=model.own_of(states[taken, None]))
        return ensemble, states[taken, : model.state_dim], effective

    def _normalised(self, log_weights: np.ndarray) -> np.ndarray:
        weights = np.exp(log_weights - log_weights.max())
        return weights / weights.sum()


def _check(ensemble: Ensemble, data: Observations, asked: Observations) -> None:
    """Raise DataError unless the model can have made the data, which end with a value, and times are after them."""
    check_panel(ensemble.model, data)
    begin = float(data.times[-1])
    if not np.isfinite(data.values[-1]).any():
        raise DataError(f"the new series has no value at its last time, {begin:g}; leave that row out")
    if (early := asked.times < begin - close(begin)).any():
        raise DataError(
            f"times have {asked.times[early][0]:g}, before the last observation of the new series, at {begin:g}, which "
            "draws go on from; give times from there on"
        )
