"""Simulation-based calibration (Talts, Betancourt, Simpson, Vehtari and Gelman 2018): is the sampler right for a model?

Parameters and initial states are drawn from the prior, data are simulated from them with the model's scheme, and the
posterior is sampled. The rank of the truth among draws of the posterior is uniform if these are what they should be;
where it is not, the shape tells how they are wrong.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import chdtrc

from pathfold.data import Observations, TimeGrid
from pathfold.data.checks import choice, cores, whole
from pathfold.data.data import are_data, panel_of, without_values
from pathfold.data.real_arrays import real_array
from pathfold.errors import DataError, InitialisationError, SettingsError, told
from pathfold.inference.fit import fit
from pathfold.model import DiffusionModel, Parameters, simulate
from pathfold.model.check_data import check_panel
from pathfold.model.diffusion_model import check_model
from pathfold.model.ensemble import Ensemble
from pathfold.model.identity import digest, identity
from pathfold.results.convergence import convergence
from pathfold.sampling import Sampler, Settings, run_chains
from pathfold.sampling.checkpoint import claim_folder, make_folder, sole_use
from pathfold.sampling.selection import Selection

RANKS = 100  # values that a rank can take, 0, ..., 99
BINS = (20, 10, 5, 4, 2)  # each has the same number of the values that a rank can take
LEVEL = 0.01
FEWEST = 10 * BINS[-1]  # runs that can tell anything: about ten in each of two bins
WARMUP = 250
# Warnings of single runs: the ranks judge all fits, of the model with the steps that it is given.
OF_ONE_RUN = ("this fit should not be relied on", "at t = .* one fine step changes")
Method = Literal["sample", "fit"]
EFFECTIVE = 0.5  # of the draws that ranks are among; if fewer are, ranks at the ends are too many


@dataclass(frozen=True)
class Calibration:
    """The outcome of `pf.calibrate`: the rank of the truth among 99 draws for each run (row) and quantity (column).

    Parameters
    ----------
    ranks
        The ranks, a row for each run.
    table
        By quantity, the p-value of uniform ranks, `adjusted` for the number of quantities, the mean of rank / 99,
        which is 1/2, and its `spread` relative to that of a uniform distribution, which is 1.
    failed
        How many runs found no start, simulated a path that exploded, or have draws that are not finite.
    verdict
        The conclusion, in words.
    """

    ranks: pd.DataFrame
    table: pd.DataFrame
    failed: int
    verdict: str

    @property
    def passed(self) -> bool:
        """Whether there were enough runs to tell, none failed, and ranks are uniform as far as they tell."""
        return len(self.ranks) >= FEWEST and bool((self.table["adjusted"] >= LEVEL).all()) and self.failed == 0

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.table.to_string(float_format=lambda x: f'{x:.3g}')}"

    __repr__ = __str__


def calibrate(
    model: DiffusionModel,
    times: Any,
    *,
    runs: int = 200,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    warmup: int | None = None,
    draws: int = 495,
    seed: int = 0,
    initial_time: float = 0.0,
    as_seen: Callable[[Observations], Observations] | None = None,
    method: Method = "sample",
    sampler: Sampler | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    threads: int | None = None,
) -> Calibration:
    """Rank parameters and initial states drawn from the prior among their posterior draws, in many runs.

    Parameters
    ----------
    model
        A `pf.DiffusionModel`.
    times
        Of the observations that are simulated; a list of arrays of times makes a panel. Or the data that are to be
        analysed, as `pf.sample` takes them: their times, inputs, events and missing entries are taken over.
    runs
        How many data sets; a few hundred see errors of a fifth of a standard deviation.
    steps_per_interval
        The number of fine steps between neighbouring observations, as of `pf.sample`; or give `max_step`.
    max_step
        The greatest length of a fine step.
    warmup
        Iterations that adapt the sampler, of the one chain of each run: 250 by default. `pf.fit` has none.
    draws
        Draws of that chain, or of the fit, of which 99 are taken, as far apart as they allow.
    seed
        A whole number: the same gives the same ranks.
    initial_time
        When series begin that are given by their times alone.
    as_seen
        A function of a simulated series that returns what would be known of it: values below a limit censored, say.
    method
        What is tried: "sample", the draws of `pf.sample`, or "fit", those of `pf.fit`, whatever its verdicts are.
    sampler
        The sampler to be tried, as of `pf.sample`.
    checkpoint
        A folder; the same call goes on where the last one ended, and more `runs` make it longer.
    executor
        A `concurrent.futures.Executor` that runs the chains.
    threads
        How many runs are made at once; one per core by default.

    Returns
    -------
    Calibration
        Ranks, a table and a verdict.
    """
    check_model(model)
    runs, draws = whole("runs", runs, least=1), whole("draws", draws, least=RANKS - 1)
    method = cast(Method, choice("method", method, get_args(Method)))
    if method == "fit":
        _refuse_chains(warmup=warmup, sampler=sampler, executor=executor)
    settings = Settings.checked(
        chains=1,
        warmup=WARMUP if warmup is None else warmup,
        draws=draws,
        seed=seed,
        sampler=sampler,
        keep=Selection.of(model),
        progress=False,
        executor=executor,
    )
    fine = {"steps_per_interval": steps_per_interval, "max_step": max_step}
    plan = Plan(model, _designs(model, times, initial_time), as_seen, fine, settings, method)
    records = RunRecords.open(checkpoint, plan)
    todo = [i for i in range(runs) if i not in records.found]
    with warnings.catch_warnings():  # around all threads: they share the filters
        for of_one_run in OF_ONE_RUN:
            warnings.filterwarnings("ignore", message=of_one_run)
        if todo:
            records.add(todo[0], plan.run(todo[0]))  # by itself, since it compiles the model
        with ThreadPoolExecutor(cores(threads)) as pool:
            futures = {pool.submit(plan.run, i): i for i in todo[1:]}
            try:
                for future in as_completed(futures):
                    records.add(futures[future], future.result())
            finally:
                for future in futures:
                    future.cancel()
    return calibration_of([records.found[i] for i in range(runs)])


def _refuse_chains(**given: Any) -> None:
    """Raise SettingsError if a setting of chains is given, since a fit runs none."""
    if named := [(name, value) for name, value in given.items() if value is not None]:
        name, value = named[0]
        raise SettingsError(f"pf.fit runs no chains: leave {name}={told(value)} out, or take method='sample'")


def _designs(model: DiffusionModel, times: Any, initial_time: Any) -> tuple[Observations, ...]:
    """Return the series to be simulated; only the pattern of missing values matters in them."""
    if are_data(times):
        check_panel(model, times)
        return tuple(panel_of(times).values())
    several = isinstance(times, list) and times and np.ndim(times[0])
    arrays = [real_array("times", each) for each in (times if several else [times])]
    return tuple(without_values(each, model.observation_dim, initial_time) for each in arrays)


@dataclass(frozen=True)
class Plan:
    """The plan of all runs; one run depends on this and on its number alone."""

    model: DiffusionModel
    designs: tuple[Observations, ...]
    as_seen: Callable[[Observations], Observations] | None
    fine: dict[str, Any]
    settings: Settings
    method: Method = "sample"

    def run(self, number: int) -> dict[str, Any]:
        """Return ranks and effective draws by quantity; an empty dict if no start was found or something exploded."""
        rng = np.random.default_rng([self.settings.seed, number])
        ensemble = Ensemble.build(self.model, {}, 1, [design.covariates for design in self.designs], rng)
        starts = ensemble.draw_starts(rng)
        seeds = rng.integers(2**31, size=1 + len(self.designs)).tolist()
        try:
            data = [self._series(ensemble, starts[0, k], k, seeds[k]) for k in range(len(self.designs))]
            columns = self._fitted(data, seeds[-1]) if self.method == "fit" else self._sampled(data, seeds[-1])
        except (InitialisationError, DataError):
            return {}
        augmented = ensemble.augmented(starts, np.arange(len(self.designs)))
        truth = np.concatenate([ensemble.z[0], augmented.ravel()])
        return _ranked(dict(zip(self._labels(), columns.T, strict=True)), truth)

    def _sampled(self, data: list[Observations], seed: int) -> np.ndarray:
        """Return draws (draw, quantity) of one chain."""
        grid, settings = TimeGrid.build(data, **self.fine), replace(self.settings, seed=seed, threads=1)
        (chain,) = run_chains(self.model, data, grid, settings).chains
        z, x0 = chain.z[settings.warmup :], chain.x0[settings.warmup :]
        return np.concatenate([z, x0.reshape(len(z), -1)], axis=1)

    def _fitted(self, data: list[Observations], seed: int) -> np.ndarray:
        """Return draws (draw, quantity) of a fit."""
        tree = fit(
            self.model, data, **self.fine, draws=self.settings.draws, keep_path="none", seed=seed, threads=1,
            progress=False, max_seconds=None,
        )  # fmt: skip
        shared, varying = list(self.model.parameters.names), list(self.model.varying.names)
        several = len(data) > 1
        own = [_of_each(tree.posterior[name], several) for name in ("initial_state", *varying)]
        columns = [_of_each(tree.posterior[name], False)[:, 0] for name in shared]
        return np.concatenate([*columns, *(each[:, k] for k in range(len(data)) for each in own)], axis=1)

    def _series(self, ensemble: Ensemble, state: np.ndarray, k: int, seed: int) -> Observations:
        """Simulate a series with the parameters and the initial state that were drawn for it."""
        design, network = self.designs[k], self.model.network
        shared = {name: value[0] for name, value in ensemble.shared.items()}
        own = {name: value[0, k] for name, value in ensemble.own.items()}
        made = simulate(
            self.model, shared | own, design.times, initial_state=state if network is None else network.amounts(state),
            initial_time=design.initial_time, inputs=design.inputs, events=design.events,
            covariates=design.covariates, seed=seed, **self.fine,
        )  # fmt: skip
        made.values[np.isnan(design.values)] = np.nan
        seen = made if self.as_seen is None else self.as_seen(made)
        if not isinstance(seen, Observations) or not np.array_equal(seen.times, design.times):
            raise SettingsError(f"as_seen must return pf.Observations at the times it was given, not {told(seen)}")
        return seen

    def _labels(self) -> list[str]:
        several, labels = len(self.designs) > 1, _scalars(self.model.parameters, "")
        for k in range(len(self.designs)):
            of_series = f"[{k}]" if several else ""
            labels += [f"initial_state{of_series}[{i}]" for i in range(self.model.state_dim)]
            labels += _scalars(self.model.varying, of_series)
        return labels

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Return what must be the same for ranks to be joined: model, designs, how they are seen, settings."""
        designs = [
            (each.times, each.initial_time, np.isnan(each.values), each.events, each.inputs, each.covariates)
            for each in self.designs
        ]
        asked = {
            name: value for name, value in self.settings.recorded.items() if name not in ("chains", "keep", "keep_path")
        }
        return {
            **identity(self.model),
            "data": digest(designs),
            "as_seen": digest(self.as_seen),
            "method": self.method,
            "integrate": str(getattr(self.settings.sampler, "integrate", None)),
            **self.fine,
            **asked,
        }


def _of_each(draws: xr.DataArray, several: bool) -> np.ndarray:
    """Return draws (draw, series, entry); there is one series unless there are several."""
    values = draws.transpose("chain", "draw", *(("series",) if several else ()), ...).values
    count = values.shape[0] * values.shape[1]
    return values.reshape(count, values.shape[2] if several else 1, -1)


def _scalars(parameters: Parameters, of_series: str) -> list[str]:
    sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in parameters.shapes.items()}
    return [f"{name}{of_series}" + (f"[{i}]" if size > 1 else "") for name, size in sizes.items() for i in range(size)]


def _ranked(draws: dict[str, np.ndarray], truth: np.ndarray) -> dict[str, Any]:
    """Return for each quantity that is not fixed the rank of the truth among draws far apart, and how many of them are
    effective; an empty dict if draws are not finite."""
    found: dict[str, Any] = {}
    if not all(np.isfinite(x).all() for x in draws.values()):
        return found
    for (label, x), value in zip(draws.items(), truth, strict=True):
        apart = x[:: len(x) // (RANKS - 1)][: RANKS - 1]
        if np.ptp(apart) > 0.0:
            found[label] = [int(np.sum(apart < value)), round(min(convergence(apart[None]).bulk, RANKS - 1.0), 1)]
    return found


@dataclass
class RunRecords:
    """A record of the runs by number, each a line of a file if there is a folder; a line cut short does not count."""

    found: dict[int, dict[str, Any]]
    file: Path | None

    @classmethod
    def open(cls, folder: Any, plan: Plan) -> RunRecords:
        if folder is None:
            return cls({}, None)
        path = Path(folder)
        make_folder(path)
        with sole_use(path / "lock"):
            claim_folder(path, plan.fingerprint)
        found, file = {}, path / "runs.jsonl"
        for line in file.read_text().splitlines() if file.exists() else []:
            try:
                record = json.loads(line)
                found[int(record["run"])] = record["found"]
            except (ValueError, KeyError, TypeError):
                continue
        return cls(found, file)

    def add(self, number: int, found: dict[str, Any]) -> None:
        self.found[number] = found
        if self.file is not None:
            with self.file.open("a") as stream:
                stream.write("\n" * (stream.tell() > 0) + json.dumps({"run": number, "found": found}))


def bins_for(runs: int) -> int:
    """Return the number of equally likely bins for the ranks of so many runs, with about ten or more in each."""
    return next((bins for bins in BINS if runs >= 10 * bins), BINS[-1])


def calibration_of(found: Sequence[dict[str, Any]]) -> Calibration:
    """Test the uniformity of the ranks by chi-squared, with Bonferroni's bound over quantities, and put it in words."""
    good = [each for each in found if each]
    failed = len(found) - len(good)
    if not good:
        raise SettingsError(
            f"none of the {len(found)} runs found a starting point: narrow the priors, or take more steps"
        )
    ranks, effective = (pd.DataFrame([{k: v[i] for k, v in each.items()} for each in good]) for i in (0, 1))
    rows = {}
    for label in ranks:
        values = ranks[label].dropna().to_numpy()
        bins = bins_for(len(values))
        counts = np.bincount((values * bins // RANKS).astype(int), minlength=bins)
        p = float(chdtrc(bins - 1, np.sum((counts - counts.mean()) ** 2) / counts.mean()))
        rows[label] = {
            "p_value": p,
            "adjusted": min(1.0, p * ranks.shape[1]),
            "mean": values.mean() / (RANKS - 1),
            "spread": (values / (RANKS - 1)).std() * np.sqrt(12.0),
            "effective": effective[label].to_numpy().mean(),
        }
    table = pd.DataFrame(rows).T
    return Calibration(ranks, table, failed, _verdict(table, len(good), failed))


def _verdict(table: pd.DataFrame, runs: int, failed: int) -> str:
    worst = str(table["adjusted"].idxmin())
    row = table.loc[worst]
    lost = f" {failed} of the runs found no starting point, or exploded, and do not count." if failed else ""
    if runs < FEWEST:
        counted = "1 run is" if runs == 1 else f"{runs} runs are"
        return (
            f"{counted} too few to tell whether ranks are uniform: take {FEWEST} or more, a few hundred to see errors "
            f"of a fifth of a standard deviation.{lost}"
        )
    if row["adjusted"] >= LEVEL:
        smallest = f"smallest adjusted p-value {row['adjusted']:.2g}"
        return f"ranks of {runs} runs are uniform as far as these tell ({smallest}).{lost}"
    if row["effective"] < EFFECTIVE * (RANKS - 1):
        how = "its draws depend on each other too much to tell: take more draws"
    elif abs(row["mean"] - 0.5) > 3.0 / np.sqrt(12.0 * runs):
        how = f"the posterior lies too {'low' if row['mean'] > 0.5 else 'high'}"
    else:
        how = f"the posterior is too {'narrow' if row['spread'] > 1.0 else 'wide'}"
    return f"ranks of {worst} are not uniform (adjusted p-value {row['adjusted']:.2g}, {runs} runs): {how}.{lost}"
