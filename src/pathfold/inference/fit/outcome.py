"""What a fit has to say: the mode, the parameters explored about it, draws, a verdict and its reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
import xarray as xr

from pathfold.data import TimeGrid
from pathfold.inference.fit.correction import Corrected, corrected, resample
from pathfold.inference.fit.exploration import Explored, explore
from pathfold.inference.fit.identifiability import sentences
from pathfold.inference.fit.posterior_mode import (
    SECOND_DIFFERENCE,
    Information,
    Mode,
    curvature,
    information,
)
from pathfold.inference.fit.verdict import SPENT, Signs
from pathfold.model import DiffusionModel
from pathfold.results.fitted import FittedDraws, fitted_tree, normal_labels
from pathfold.sampling.differences import Origin
from pathfold.sampling.held_noise import gathered
from pathfold.sampling.marginal import MOST_PROBABLE, Marginal, Pair

CHAINS = 4  # parts that the draws come in, so that pf.sample(start=fit) has a start for every chain
HELD = 4  # draws of each whose noise is kept
FLAT = 4.5  # standard error along a direction, in prior standard deviations, beyond which it says nothing
HEAVY = 5e8  # multiplications of a pass, times points (some 30 s of a core): a useless first round is the last
USELESS = 2.5, 0.3  # spread of the logs of the pairs' weights, and share of the pairs that fail, beyond what is bad
FINE = "no sign of a poor approximation"


@dataclass
class Fitted:
    """A mode, and what becomes of it."""

    marginal: Marginal
    mode: Mode
    others: list[Origin]
    seed: int

    @property
    def model(self) -> DiffusionModel:
        return self.marginal.engine.model

    @property
    def grid(self) -> TimeGrid:
        return self.marginal.engine.grid

    @property
    def _fine(self) -> str:
        return f"{self.paths} are integrated out exactly, and there is {FINE}" if self.marginal.exact else FINE

    @cached_property
    def paths(self) -> str:
        """What is integrated out."""
        return "paths" if self.marginal.has_paths else "effects" if self.model.varying.size else "initial states"

    @cached_property
    def slopes(self) -> np.ndarray:
        """dz/du at the mode."""
        return self.marginal.slopes(self.mode.origin.u)

    def tree(self, settings: dict[str, Any], points: int, pairs: bool) -> xr.DataTree:
        fine = settings["keep_path"] == "all"

        def draw(u: np.ndarray, first: int) -> list[Pair]:
            return self.marginal.pairs(u, self.mode.origin, self.seed, first, drawn=pairs, fine=fine)

        def useless(explored: Explored) -> bool:
            result, (spread, failed) = corrected(explored), USELESS
            heavy = self.marginal.engine.work * points > HEAVY
            return heavy and pairs and (result.spread > spread or result.failed > failed)

        explored = explore(self.mode, points, self.seed, self.marginal.stages, draw, useless)
        result = corrected(explored)
        signs = self._signs(explored, result, pairs)
        if pairs and not any(np.isfinite(pair.log_weights).any() for pair in result.pairs):
            pairs = False  # no path was reached: what is left are the most probable ones
            result = corrected(replace(explored, pairs=draw(explored.u, 0)))
        hessian = self.mode.hessian
        known = information(hessian, np.zeros_like(hessian), self.mode.covariance)
        laplace = self._dataset(known) | self._explored(explored, result, signs)
        tree = fitted_tree(
            self.model, self.grid, settings, xr.Dataset(laplace), self._draws(explored, result, settings, pairs)
        )
        tree.attrs |= {"verdict": signs.verdict, "reasons": signs.reasons() or [self._fine]}
        tree.attrs["identifiability"] = self._identifiability()
        return tree

    def likelihood(self, settings: dict[str, Any]) -> xr.DataTree:
        """Return the maximum of the likelihood, its standard errors, and information criteria."""
        size, rows = len(self.labels), int(self.grid.mask.sum())
        best = self.mode.origin.log_density
        criteria = {"log_likelihood": best, "aic": 2.0 * size - 2.0 * best, "bic": size * np.log(rows) - 2.0 * best}
        at_mode, spent = (self.mode.density, self.mode.origin, self.mode.covariance), self.marginal.stages.spent
        whole, half = (
            self.mode.hessian if spent else curvature(*at_mode, step=step)
            for step in (SECOND_DIFFERENCE, 0.5 * SECOND_DIFFERENCE)
        )
        at_once = half + (half - whole) / 3.0  # of steps of no length
        known = information(*(self._of_free(each) for each in (at_once, whole - half, self.mode.covariance)))
        dataset = xr.Dataset(self._dataset(known) | {name: ((), value) for name, value in criteria.items()})
        tree = fitted_tree(self.model, self.grid, settings, dataset, None)
        reasons = list(_flat_directions(known, self.labels))
        if spent:
            reasons.insert(0, SPENT)
        elif not self.mode.converged:
            reasons.insert(0, "the climb to the maximum came to no end: the likelihood has an edge or a ridge there")
        tree.attrs |= {
            "verdict": "sample" if spent else "rough" if reasons else "good",
            "reasons": reasons or [self._fine],
        }
        tree.attrs["identifiability"] = self._identifiability()
        if self.model.parameters.latent:
            tree.attrs["integrated"] = [*self.model.parameters.latent]
        return tree

    def _identifiability(self) -> list[str]:
        free, hessian = self.mode.density.free, self._of_free(self.mode.hessian)
        hessian = hessian if self.marginal.prior else hessian + np.eye(len(hessian))
        return sentences(self.marginal, self.mode.origin.u, self.slopes, free, hessian, self.labels)

    @property
    def labels(self) -> list[str]:
        """A label for each of the normals that the density at the mode depends on."""
        return [*compress(normal_labels(self.model), self.mode.density.free)]

    def _of_free(self, matrix: np.ndarray) -> np.ndarray:
        """Return the rows and columns of these normals."""
        free = self.mode.density.free
        return matrix[np.ix_(free, free)]

    def _signs(self, explored: Explored, result: Corrected, pairs: bool) -> Signs:
        before = np.exp(explored.log_weights[result.numbers])
        before, u = before / before.sum(), explored.u[result.numbers]
        mean = before @ u
        spread = np.sqrt(before @ (u - mean) ** 2)
        shifts = np.abs(result.weights @ u - mean) / np.maximum(spread, 1e-300)
        worst = int(np.argmax(shifts)) if shifts.size else 0
        return Signs(
            converged=self.mode.converged,
            pareto_k=explored.pareto_k if self.marginal.size else 0.0,
            effective_share=explored.effective_share,
            points_failed=explored.failed,
            pairs_failed=result.failed if pairs else None,
            pair_spread=result.spread,
            shift=float(shifts[worst]) if shifts.size else 0.0,
            shifted=self.labels[worst] if shifts.size else "",
            modes=1 + len(self.others),
            paths=self.paths,
            exact=self.marginal.exact,
            done=explored.done,
        )

    def _dataset(self, known: Information) -> dict[str, Any]:
        """Return what is known at the mode: normals, curvature, and every parameter with its standard error."""
        free, labels, hessian = self.mode.density.free, self.labels, self._of_free(self.mode.hessian)
        values, vectors = np.linalg.eigh(hessian)
        z, slope = self.marginal.parameters(self.mode.origin.u), self.slopes
        errors = known.standard_errors(slope[:, free])
        names = ("parameter_normal", "parameter_normal_2")
        dataset: dict[str, Any] = {
            "mode": ("parameter_normal", self.mode.origin.u[free]),
            "hessian": (names, hessian),
            "eigenvalue": ("direction", values),
            "eigenvector": (("parameter_normal", "direction"), vectors),
            "log_density": ((), self.mode.origin.log_density),
            "parameter_normal": labels,
            "parameter_normal_2": labels,
            "statistic": ["mode", "standard_error"],
        }
        begin = 0
        for name, shape in self.model.parameters.shapes.items():
            end = begin + int(np.prod(shape, dtype=int))
            if not slope[begin:end, ~free].any():  # it was not integrated out, nor follows from what was
                both = np.stack([z[begin:end].reshape(shape), errors[begin:end].reshape(shape)])
                dataset[f"{name}_at_mode"] = (("statistic", *self.model.dims(name)), both)
            begin = end
        return dataset

    def _explored(self, explored: Explored, result: Corrected, signs: Signs) -> dict[str, Any]:
        numbers = {
            "log_evidence": result.log_evidence,
            "pareto_k": signs.pareto_k,
            "effective_share": signs.effective_share,
            "points_failed": signs.points_failed,
            "pairs_failed": np.nan if signs.pairs_failed is None else signs.pairs_failed,
            "pair_spread": signs.pair_spread,
            "shift": signs.shift,
            "modes": signs.modes,
        }
        log_weight = np.full(len(explored.u), -np.inf)
        log_weight[result.numbers] = np.log(np.maximum(result.weights, 1e-300))
        return {name: ((), value) for name, value in numbers.items()} | {
            "explored": (("point", "parameter_normal"), explored.u),
            "explored_log_density": ("point", explored.log_density),
            "explored_log_weight": ("point", log_weight),
            "correction_slope": ("parameter_normal", result.slope),
        }

    def _draws(self, explored: Explored, result: Corrected, settings: dict[str, Any], pairs: bool) -> FittedDraws:
        """Draw points by weight, and of each one of its two paths, by their weights."""
        shape = CHAINS, settings["draws"]
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(6,)))
        places = resample(result.weights, shape[0] * shape[1], rng)
        logs = np.array([pair.log_weights for pair in result.pairs])
        with np.errstate(invalid="ignore"):  # of points without a path, which are not drawn
            first = 1.0 / (1.0 + np.exp(np.clip(logs[:, 1] - logs[:, 0], -700.0, 700.0)))
        signs = (rng.random(places.size) > first[places]).astype(int)
        z = np.array([pair.z for pair in result.pairs])
        starts = np.array([result.pairs[i].starts[k] for i, k in zip(places, signs, strict=True)])
        states = np.array([result.pairs[i].states[k] for i, k in zip(places, signs, strict=True)])
        statistics = {
            "lp": explored.log_density[result.numbers][places] + result.log_correction[places],
            "log_correction": result.log_correction[places],
            "point": result.numbers[places].astype(float),
        }
        signs = signs if pairs else np.full(places.size, MOST_PROBABLE)
        held = np.unique(np.linspace(0, shape[1] - 1, HELD).astype(np.int64))
        chosen = [
            [self._noise(explored, result, z, places, signs, k * shape[1] + i) for i in held] for k in range(CHAINS)
        ]

        def by_chain(array: np.ndarray) -> np.ndarray:
            return array.reshape(*shape, *array.shape[1:])

        return FittedDraws(
            by_chain(z[places]),
            by_chain(starts),
            by_chain(states),
            {name: by_chain(values) for name, values in statistics.items()},
            gathered(self.model, held, chosen),
        )

    def _noise(self, explored: Explored, result: Corrected, z, places, signs, i: int) -> tuple[np.ndarray, ...]:
        place = int(places[i])
        number = int(result.numbers[place])
        u = explored.u[number]
        v0, w, v, x0, nodes = self.marginal.noise(u, self.mode.origin, (self.seed, number), int(signs[i]))
        return u, v0, w, v, z[place], x0, nodes[:, : self.model.state_dim]


def _flat_directions(known: Information, labels: list[str]) -> Iterator[str]:
    """Say which combinations of parameters the likelihood leaves open."""

    def names(chosen: np.ndarray) -> str:
        return " and ".join(labels[i] for i in np.flatnonzero(chosen))

    for chosen in known.open(np.eye(len(labels))).T:
        yield f"the data do not determine {names(chosen)}" + (
            " separately: their standard errors are infinite"
            if chosen.sum() > 1
            else ": its standard error is infinite"
        )
    for direction in known.known.T:
        if (length := np.linalg.norm(direction)) > FLAT:
            flat = names(np.abs(direction) > 0.3 * length)
            yield f"the likelihood is flat along {flat}: their standard errors say nothing"
