"""Forecasts and scenarios: pf.predict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import xarray as xr

from pathfold.analysis.asked_times import coordinates_of, read_times, series_of_rows
from pathfold.analysis.chosen import Chosen
from pathfold.analysis.continuation import Continuation, along_paths, from_the_last, from_the_start
from pathfold.analysis.individual import Filtering
from pathfold.analysis.log_likelihood import PARTICLES
from pathfold.analysis.set_values import known_values, told_changes
from pathfold.data import Input, Observations, TimeGrid
from pathfold.data.checks import cores, selected, truth, whole
from pathfold.data.covariates import Label, read_covariates
from pathfold.data.data import without_values
from pathfold.data.dates import Calendar, as_dates, check_one_unit, counted, told_time
from pathfold.data.events import Events, merged, read_events
from pathfold.data.inputs import check_inputs, known_inputs
from pathfold.data.names import dimensions
from pathfold.data.real_arrays import real_number
from pathfold.errors import DataError, SettingsError, told, warn
from pathfold.model import DiffusionModel
from pathfold.model.ensemble import Ensemble
from pathfold.model.functions import listed
from pathfold.results.grid import grid_of
from pathfold.results.in_order import results_of
from pathfold.results.overview import extended
from pathfold.results.posterior import observed_dataset
from pathfold.results.reading import NEW, SEEN, calendars_of, series_names
from pathfold.sampling.selection import component_labels

FAR = 30.0  # lengths of the data: a forecast that begins later was hardly meant


def predict(
    model: DiffusionModel,
    posterior: xr.DataTree,
    times: Any,
    *,
    inputs: Mapping[str, Input] | None = None,
    events: Mapping[str, tuple[Any, Any]] | None = None,
    set: Mapping[str, Any] | None = None,
    series: Sequence[str | int] | str | int | None = None,
    new_series: bool | Observations = False,
    covariates: Mapping[str, Any] | None = None,
    initial_time: Any = None,
    draws: int | None = None,
    particles: int = PARTICLES,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> xr.DataTree:
    """Carry every draw of a posterior forward in time, with fresh noise, and observe it.

    A draw goes on from its own path: from its state at the last node at or before a time, a node being a time at which
    the results have its states (with `keep_path="nodes"` those of the data and of events). After the data that is a
    forecast. At a node it is the draw's own state. Between two nodes it is what could have come after the first of
    them: only through that state does it know what was observed at the second. The path given both is that of
    `pf.paths`. A warning says if half steps would change what is predicted, as one of a run does.

    Parameters
    ----------
    model
        The `pf.DiffusionModel` that was sampled.
    posterior
        Results of `pf.sample`, with `keep_path="nodes"` or `"all"`.
    times
        Increasing times (T,), in the unit of the data, not before the series begin; or dates (also as text), where the
        data have dates. Accumulators begin anew after each of them, as after a time of the data.
    inputs
        A dict of name -> `pf.Input`, in the place of those of the model or of a series from where they begin: before
        that, those of the data go on, if they are of the same kind and known until then. A forecast needs those whose
        values in the data end where the data do.
    events
        A dict of name -> (times, amounts): what happens after the node that a draw goes on from. What the data have of
        events is in the draws.
    set
        A dict of name -> value of parameters that are other than in the posterior: a value for all draws, or one for
        every chain and draw, such as `1.2 * posterior.posterior["beta"]`, whose dimensions go by their names. What
        follows from them follows.
    series
        Series of a panel, by name or number; all by default.
    new_series
        Whether to predict a series that was not observed: with a new initial state, and new values of what varies
        between series (`pf.Varying`). Or `pf.Observations` of a series that the posterior does not know: what varies,
        and the state at its last time, are drawn given these data and the posterior, and draws go on from there. The
        population is not sampled again: its draws are weighted by how well they explain the new data.
    covariates
        A dict of the covariates of a new series by name, besides those that its observations have. A level None is a
        group that the posterior does not know: what varies by it is drawn anew.
    initial_time
        When a new series begins: at time 0 by default.
    draws
        So many draws of each chain, evenly spread; all by default.
    particles
        Of the filter that a new series with observations is put through, for each draw, if the model is not linear.
    steps_per_interval
        The number of fine steps between neighbouring times. By default fine steps are no longer than those of the
        posterior (their median).
    max_step
        The greatest length of a fine step.
    seed
        A whole number: the same gives the same predictions.
    threads
        How many threads run the filter; one per core by default.

    Returns
    -------
    xarray.DataTree
        The results with two groups more: `predictions`, with `state` (chain, draw, time, component) and `y` (chain,
        draw, time, observation), and of a new series the values of what varies; and `predictions_constant_data`, with
        the time that draws go on from and the fine step. Draws of a new series with observations are not those of the
        posterior with the same number: all their parameters stand in `predictions`, whose attribute `effective_draws`
        is the number of draws of the posterior that they are worth. The observations stand in
        `predictions_constant_data`, as `y` (time_seen, observation). A panel has a dimension `node`, with
        coordinates `time` and `node_series`, in the place of `time`. Where the data have dates, a coordinate `date`
        has those of the times.

    Examples
    --------
    >>> from pathfold.example_models import EXAMPLES
    >>> example = EXAMPLES["ornstein_uhlenbeck"]
    >>> model, data = example.model(), example.data()
    >>> posterior = pf.sample(model, data, steps_per_interval=5, chains=2, progress=False)
    >>> forecast = pf.predict(model, posterior, data.times[-1] + [1.0, 2.0, 3.0])
    >>> dict(forecast.predictions["y"].sizes)
    {'chain': 2, 'draw': 1000, 'time': 3, 'observation': 1}
    """
    tree, rng = results_of(posterior, model=model), np.random.default_rng(whole("seed", seed, least=0))
    chosen, changes = Chosen.of(tree, draws), {} if set is None else set
    inputs = check_inputs({} if inputs is None else inputs)
    fine = _fine_steps(tree, steps_per_interval, max_step)
    asking = _Asking(model, chosen, times, inputs, events, changes, rng)
    is_new = isinstance(new_series, Observations) or truth("new_series", new_series)
    if is_new and series is not None:
        raise SettingsError("series selects among those that were observed, which new_series is not; give one of both")
    if not is_new and (initial_time is not None or covariates is not None):
        what = "covariates are of a new series" if initial_time is None else "initial_time is when a new series begins"
        raise SettingsError(f"{what}: give new_series=True too, or leave it out")
    if isinstance(new_series, Observations):
        if changes or initial_time is not None:
            raise SettingsError(
                "the observations of a new series say when it begins, and what its parameters are; leave initial_time "
                "and set out"
            )
        count, threads = whole("particles", particles, least=1), cores(threads)
        outset = asking.about_observed(new_series, covariates, Filtering(fine, count, int(seed), threads))
    elif is_new:
        outset = asking.about_new(covariates, initial_time)
    else:
        outset = asking.about_known(selected("series", series, series_names(tree)))
    ensemble, asked, ahead = outset.ensemble, outset.asked, outset.ahead
    ahead.carry(ensemble, fine, rng)
    y = ensemble.observe(ahead.states, _clocks(model, asked), series_of_rows(asked), rng)

    dim, coordinates = coordinates_of(tree, outset.names, asked)
    variables = {
        **{name: (dimensions(name, v.ndim - 1), v) for name, v in outset.shown.items()},
        "state": ([dim, "component"], ahead.states),
        "y": ([dim, "observation"], y),
    }
    labels = {"component": component_labels(model), "observation": tree.observed_data["observation"].values}
    attributes = {"seed": int(seed), "set": json.dumps(told_changes(changes)), "new_series": int(is_new)}
    predictions = chosen.dataset(variables, coordinates | labels, **attributes, **outset.attributes)
    constant = {"start_time": (dim, ahead.start_times), "fine_step": (dim, ahead.fine_steps)}
    groups = {"predictions": predictions, "predictions_constant_data": xr.Dataset(constant, coordinates)}
    if isinstance(new_series, Observations):
        observed = observed_dataset(model, TimeGrid.build(new_series, steps_per_interval=1))
        groups["predictions_constant_data"] = groups["predictions_constant_data"].merge(
            observed.drop_vars("date", errors="ignore").rename(time=SEEN)
        )
    return extended(tree, groups)


@dataclass(frozen=True)
class _Outset:
    """What predictions begin with: of each series its name and what is asked of it; draws of all parameters, and where
    draws go on from; values (D, ...) of parameters to be shown, and attributes."""

    names: list[Any]
    asked: list[Observations]
    ensemble: Ensemble
    ahead: Continuation
    shown: dict[str, np.ndarray] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Asking:
    """What is asked of predictions, whichever series they are of."""

    model: DiffusionModel
    chosen: Chosen
    times: Any
    inputs: dict[str, Input]
    events: Any
    changes: Any
    rng: np.random.Generator

    def about_known(self, numbers: list[int]) -> _Outset:
        """Go on along the paths of series of the posterior."""
        model, tree = self.model, self.chosen.tree
        grid, asked = grid_of(tree), []
        for k in numbers:
            begin, own, calendar = float(grid.starts[grid.first[k]]), grid.covariates[k], grid.calendars[k]
            asked.append(self._asked(begin, grid.inputs[k], read_events(self.events, calendar), own, calendar))
        _check_far_forecast(tree, asked, self.times)
        covariates = [grid.covariates[k] for k in numbers]
        ensemble = self._ensemble(known_values(self.chosen, model, self.changes, numbers), covariates)
        names = tree.constant_data["series"].values[numbers].tolist()
        return _Outset(names, asked, ensemble, along_paths(model, self.chosen, grid, numbers, asked))

    def about_new(self, covariates: Any, initial_time: Any) -> _Outset:
        """Begin a series that was not observed."""
        model, calendar = self.model, calendars_of(self.chosen.tree)[0]
        labels, known = self._of_new_series(covariates, {})
        ensemble = self._ensemble(known, [labels])
        begin = 0.0 if initial_time is None else counted("initial_time", initial_time, calendar)
        begin = real_number("initial_time", begin)
        asked = self._asked(begin, {}, read_events(self.events, calendar), labels, calendar)
        ahead = from_the_start(asked, ensemble.draw_starts(self.rng)[:, 0])
        shown = {name: v for name, v in _of_first(ensemble).items() if name in {*model.varying.names, *model.groups}}
        return _Outset([NEW], [asked], ensemble, ahead, shown)

    def about_observed(self, data: Observations, covariates: Any, filtering: Filtering) -> _Outset:
        """Go on from the last observation of a series that the posterior does not know."""
        of_posterior, of_new = calendars_of(self.chosen.tree)[0], data.calendar
        check_one_unit({"the posterior": of_posterior and of_posterior.unit, "new_series": of_new and of_new.unit})
        labels, known = self._of_new_series(covariates, data.covariates)
        data = data.with_covariates(labels)
        happens = merged(data.events, read_events(self.events, data.calendar))
        asked = self._asked(data.initial_time, data.inputs, happens, labels, data.calendar)
        ensemble, states, effective = filtering(self._ensemble(known, [labels]), data, asked)
        shown = {name: v for name, v in _of_first(ensemble).items() if name in self.model.priors}
        told_of = {"effective_draws": effective}
        ahead = from_the_last(data, asked, states)
        return _Outset([NEW], [asked], ensemble, ahead, shown, told_of)

    def _of_new_series(self, covariates: Any, own: Mapping[str, Label]) -> tuple[dict[str, Label], dict[str, Any]]:
        """Return the covariates of a new series, and the parameters of the draws without those of groups not known.

        In the place of such a group stands the first level, of which all draws then have new values.
        """
        given = {} if covariates is None else covariates
        levels = {name: each.levels for name, each in self.model.covariates.items()}
        new = [name for name in given if given[name] is None and levels.get(name)] if isinstance(given, Mapping) else []
        named = {name: levels[name][0] if name in new else value for name, value in given.items()} if new else given
        if unknown := [name for name in read_covariates(named) if name not in levels]:
            raise DataError(
                f"covariates have {told(unknown[0])}, which the model does not use; it has {listed(levels)}"
            )
        known = known_values(self.chosen, self.model, self.changes, None)
        labels = {name: value for name, value in ({**own} | read_covariates(named)).items() if name in levels}
        if missing := [name for name in levels if name not in labels]:
            raise DataError(
                f"the new series has no covariate {missing[0]!r}, which the model uses: give "
                f"pf.predict(..., covariates={{{missing[0]!r}: ...}})"
            )
        for name, value in labels.items():
            _check_level(self.model, name, value, name in new)
        return labels, {name: v for name, v in known.items() if self.model.groups.get(name) not in new}

    def _ensemble(self, known: dict[str, np.ndarray], covariates: list[dict[str, Label]]) -> Ensemble:
        return Ensemble.build(self.model, known, self.chosen.count, covariates, self.rng)

    def _asked(
        self,
        begin: float,
        inputs: dict[str, Input],
        events: Events,
        covariates: dict[str, Label],
        calendar: Calendar | None,
    ) -> Observations:
        """Return the times to predict a series at, and what happens meanwhile, as observations without values."""
        times = read_times(self.times, calendar)
        known: dict[str, Any] = {"events": events, "covariates": covariates, "unit": calendar}
        data = self.model.inputs | inputs
        given = {name: each.counted(name, calendar).after(data.get(name)) for name, each in self.inputs.items()}
        return without_values(times, self.model.observation_dim, begin, inputs | given, **known)


def _check_far_forecast(tree: xr.DataTree, asked: Sequence[Observations], times: Any) -> None:
    """Warn if all times asked for are so far from the data, as 1921 is from years 0 to 20, that they are mistaken.

    Numbers in the place of dates are refused then.
    """
    constant, calendar = tree.constant_data, asked[0].calendar
    begin, end = float(constant["interval_start"].min()), float(constant["interval_end"].max())
    first = min(observations.times[0] for observations in asked)
    if first - end > FAR * (end - begin):
        sentence = (
            f"predictions begin at {first:g}, and the data run from {begin:g} to {end:g}: the model runs unseen for "
            f"more than {FAR:g} times as long; "
        )
        if calendar and calendar.origin is not None and as_dates("times", times) is None:
            raise DataError(f"{sentence}give dates, such as {told_time(end, calendar)}, where the data have them")
        warn(f"{sentence}count times as those of the data are counted")


def _check_level(model: DiffusionModel, name: str, value: Label, new: bool) -> None:
    """Raise DataError if a new series is of a group that the posterior does not know, and does not say so."""
    levels, grouped = model.covariates[name].levels, name in model.groups.values()
    if new and not grouped:
        raise DataError(
            f"covariates[{name!r}] of the new series is None, but no parameter varies by {name!r}: give one of "
            f"{told(list(levels))}"
        )
    if levels and value not in levels:
        unknown = f", or covariates={{{name!r}: None}} for a group that it does not know" if grouped else ""
        raise DataError(
            f"the new series has {told(value)} as its covariate {name!r}, which the posterior does not know: give one "
            f"of {told(list(levels))}{unknown}"
        )


def _of_first(ensemble: Ensemble) -> dict[str, np.ndarray]:
    """Return all that functions find in z for the first series of an ensemble, by name, (D, ...)."""
    return ensemble.named(np.zeros(1, dtype=int))


def _fine_steps(tree: xr.DataTree, steps_per_interval: Any, max_step: Any) -> dict[str, Any]:
    """Return the fine steps asked for; by default they are no longer than the posterior's usual ones."""
    if steps_per_interval is None and max_step is None:
        lengths = tree.constant_data["fine_step"].values
        max_step = float(np.median(lengths[lengths > 0.0]))
    return {"steps_per_interval": steps_per_interval, "max_step": max_step}


def _clocks(model: DiffusionModel, asked: Sequence[Observations]) -> Any:
    """Return what the model's functions take as the times of all series, one after the other."""
    values = np.zeros((sum(series.times.size for series in asked), model.known_dim))
    begin = 0
    for series in asked:
        rows = slice(begin, begin := begin + series.times.size)
        known = known_inputs(model.inputs, series.inputs, series.times[0], series.times[-1], series.calendar)
        for i, given in enumerate(known.values()):
            values[rows, i] = given.at(series.times)
        values[rows, len(model.inputs) :] = [*model.numbers(series.covariates).values()]
    with jax.enable_x64(True):
        return model.node_clock(np.concatenate([series.times for series in asked]), values)
