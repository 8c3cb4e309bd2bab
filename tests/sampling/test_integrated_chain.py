"""Runs with paths integrated out: what is refused, and that posteriors are those of the manifold."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine, IntegratedEngine
from pathfold.engine.native.trajectory import STATISTICS
from pathfold.sampling import execution, integrated_modes
from pathfold.sampling.integrated_modes import find_modes
from tests.plain import plain_native
from tests.sampling.comparing import threshold

FALSE_ALARMS = 1e-4


def model(*, bend: float = 0.0) -> pf.DiffusionModel:
    """Two states of which one has noise, an effect of each series, an input, a step of what is observed exactly."""
    return pf.DiffusionModel(
        drift=lambda x, z, t, inputs: (
            jnp.stack([x[1], -z["k"] * x[0] - 0.7 * x[1] + z["own"] + inputs["push"]]) + bend * x**3
        ),
        diffusion=lambda x, z: jnp.array([[0.0], [1.0]]) * z["sigma"],
        parameters={
            "k": dist.LogNormal(0.3, 0.4),
            "sigma": dist.LogNormal(-0.7, 0.4),
            "tau": dist.LogNormal(-1.5, 0.4),
            "own": pf.Varying(dist.Normal(0.2, 0.5)),
        },
        initial_state=[dist.Normal(0.0, 0.5), 0.1],
        observation=pf.GaussianNoise(lambda x, z: x[:1], "tau"),
        scheme=pf.StrongOrder1p5(),
        inputs={"push": pf.Input([0.0, 1.0, 9.0], [0.0, 1.0, 0.5], kind="hold")},
    )


@cache
def data(*, censored: bool = False) -> tuple[pf.Observations, ...]:
    rng, series = np.random.default_rng(4), []
    for k in range(4):
        times = np.cumsum(rng.uniform(0.2, 0.8, size=9))
        values = 0.4 * np.sin(times + k) + 0.2 * rng.normal(size=9)
        values[rng.integers(9)] = np.nan
        marks = (np.arange(9) == 3).astype(int) if censored else None
        series.append(pf.Observations(times, values, censored=marks))
    return tuple(series)


def run(given: pf.DiffusionModel, of: tuple[pf.Observations, ...], *, seed: int = 3, **settings: Any) -> xr.DataTree:
    return pf.sample(given, of, steps_per_interval=3, seed=seed, progress=False, **settings)


def test_what_cannot_be_integrated_is_refused_with_the_reason():
    sentence = "integrate=True: paths cannot be integrated out, since a step is not linear in state and noise"
    with pytest.raises(pf.SettingsError, match=sentence):
        run(model(bend=-0.1), data(), draws=5, sampler=pf.StaticHMC(integrate=True))
    with pytest.raises(pf.SettingsError, match="integrate must be"):
        pf.StaticHMC(integrate="yes")  # pyright: ignore[reportArgumentType]


def test_censored_values_are_no_part_of_a_linear_model(monkeypatch):
    monkeypatch.setattr(execution, "_compiled", None)  # refused before that
    with pytest.raises(pf.SettingsError, match="since some observed values are censored"):
        run(model(), data(censored=True), draws=5, sampler=pf.StaticHMC(integrate=True))


SHORT: dict[str, Any] = {"draws": 20, "warmup": 20, "chains": 2}
too_short = pytest.mark.filterwarnings("ignore::pathfold.errors.DrawsWarning")


@too_short
@pytest.mark.parametrize(("choice", "shown"), [(False, "StaticHMC, integrate=False"), (None, "StaticHMC\n")])
def test_a_report_says_what_was_asked_for(tmp_path, choice, shown):
    tree = run(model(), data(), sampler=pf.StaticHMC(integrate=choice), **SHORT)
    assert f"sampler: {shown}" in pf.report(tree, tmp_path / "report.html").read_text(encoding="utf-8")


@too_short
def test_chains_of_both_methods_say_so_when_they_are_joined():
    joined = pf.combine(
        [run(model(), data(), seed=i, sampler=pf.StaticHMC(integrate=i > 0), **SHORT) for i in range(2)]
    )
    assert joined.attrs["method"] == "manifold and integrated"
    assert pf.combine([joined]).attrs["method"] == "manifold and integrated"


@too_short
@pytest.mark.filterwarnings("ignore:max_seconds were spent")
def test_the_search_for_the_mode_counts_as_time_of_the_chain(tmp_path):
    cut = run(model(), data(), max_seconds=1e-9, checkpoint=tmp_path, **SHORT)
    assert cut.attrs["iterations"] == [0, 0]
    whole = run(model(), data(), max_seconds=1000.0, checkpoint=tmp_path, **SHORT)
    assert np.array_equal(whole.posterior["tau"], run(model(), data(), **SHORT).posterior["tau"])


def test_the_search_for_the_mode_can_be_stopped(monkeypatch):
    """Ctrl-C sets what the chain looks at before every gradient."""
    calls, gradient = [], integrated_modes.integrate_with_gradient

    def stopping(machine, point):
        calls.append(0)
        chain.stop[0] = len(calls) == 3
        return gradient(machine, point)

    tasks = []
    monkeypatch.setattr(execution, "execute", lambda given, *_: tasks.extend(given) or 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run(model(), data(), draws=20, chains=1)
    monkeypatch.setattr(integrated_modes, "integrate_with_gradient", stopping)
    chain = tasks[0].sampler.chain(tasks[0])
    chain.stop = np.zeros(1, dtype=np.int64)
    chain.initialise()
    assert len(calls) == 3


@too_short
def test_only_the_engine_that_chains_run_on_is_made(monkeypatch):
    made, init = [], Engine.__init__

    def counted(self, *given, **options):
        made.append(type(self))
        init(self, *given, **options)

    monkeypatch.setattr(Engine, "__init__", counted)
    monkeypatch.setattr(execution, "half_step_shift", lambda *_: None)  # for which there is one on the manifold
    starts = run(model(), data(), **SHORT)["starts"].to_dataset()
    assert made == [IntegratedEngine]
    assert set(starts["way"].values) == {"parameters"}


def of_either_sign(rate: Callable = lambda z: 1.0) -> tuple[pf.DiffusionModel, pf.Observations]:
    """A process that is seen through a gain, of which the data do not tell the sign."""
    given = pf.DiffusionModel(
        drift=lambda x, z: -rate(z) * x,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={"gain": dist.Normal(0.0, 2.0)},
        initial_state=[dist.Normal(0.0, 1.0)],
        observation=pf.GaussianNoise(lambda x, z: z["gain"] * x, 0.1),
    )
    return given, pf.Observations(np.arange(1.0, 7.0), [2.1, -1.4, 2.5, 0.3, -2.2, 1.9])


@pytest.mark.filterwarnings("ignore::pathfold.errors.DrawsWarning")
@pytest.mark.filterwarnings("ignore:.*modes")
def test_modes_of_the_parameters_are_found_and_shared_out():
    given, of = of_either_sign()
    found = pf.sample(given, of, steps_per_interval=2, draws=20, warmup=20, chains=4, seed=1, progress=False)[
        "starts"
    ].to_dataset()
    gains, masses = found["gain"].values, found["log_mass"].values
    assert np.abs(gains) == pytest.approx(np.full(gains.size, np.abs(gains[0])), rel=1e-2)
    assert set(np.sign(gains[found["began_with"]])) == {-1.0, 1.0}
    assert masses == pytest.approx(np.zeros(gains.size), abs=1e-2)
    engine = IntegratedEngine(given, TimeGrid.build(of, steps_per_interval=2))
    machine, point, native = engine.machine(), engine.block("point"), plain_native()
    at = [_energy(native.integrated_paths, machine, point, 0.5 * gains[0] * step) for step in (0.97, 1.0, 1.03)]
    assert at[1] < min(at[0], at[2]), "half a gain is its normal"


def test_data_without_density_end_in_a_sentence():
    given, of = of_either_sign(lambda z: jnp.log(-1.0 - z["gain"] ** 2))
    with pytest.raises(pf.InitialisationError, match="no start was found in 12 searches: the data have no density"):
        find_modes(
            IntegratedEngine(given, TimeGrid.build(of, steps_per_interval=2)),
            [0],
            seed=1,
            threads=1,
            guesses={},
            again=False,
        )


@too_short
@pytest.mark.parametrize("integrate", [False, True])
def test_a_run_begins_where_an_earlier_one_ended(integrate):
    """Whatever the method of that was; each chain at the mode next to its parameters."""
    earlier = run(model(), data(), sampler=pf.StaticHMC(integrate=integrate), **SHORT)
    later = run(model(), data(), start=earlier, **SHORT)["starts"].to_dataset()
    assert later["way"].values.tolist() == ["guess", "guess"]
    assert later["began_with"].values.tolist() == [0, 1]
    found = run(model(), data(), **SHORT)["starts"].to_dataset()
    best = found["tau"].values[int(found["log_mass"].values.argmax())]
    assert later["tau"].values == pytest.approx([best, best], rel=1e-2)


@pytest.mark.filterwarnings("ignore:.*half steps|.*depends on the time step")
def test_posteriors_agree_with_those_on_the_manifold():
    """A panel with effects, inputs, gaps, and a state that noise reaches through another: means and squares of all."""
    found = [
        run(model(), data(), draws=1500, sampler=pf.StaticHMC(integrate=choice)).posterior.to_dataset()
        for choice in (None, False)
    ]
    scores = []
    for name in ("k", "sigma", "tau", "own", "initial_state", "state"):
        a, b = (each[name].values.reshape(4, 1500, -1) for each in found)
        for power in (1, 2):
            means, errors = zip(*(_mean_and_error((x - b.mean((0, 1))) ** power) for x in (a, b)), strict=True)
            variance = errors[0] + errors[1]
            scores.append((means[0] - means[1])[variance > 1e-20] / np.sqrt(variance[variance > 1e-20]))
    z = np.concatenate(scores)
    assert z.size > 100
    assert np.abs(z).max() < threshold(z.size, FALSE_ALARMS)


def one_parameter() -> pf.DiffusionModel:
    """A random walk seen a few times: its noise has a skewed posterior."""
    return pf.DiffusionModel(
        drift=lambda x, z: 0.0 * x,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={"tau": dist.LogNormal(0.0, 1.0)},
        initial_state=[dist.Normal(0.0, 1.0)],
        observation=pf.GaussianNoise(lambda x, z: x, "tau"),
    )


def scores(native, *, kernels: tuple[bool, ...], count: int = 3000) -> np.ndarray:
    """How far ranks of draws by kernels in turn are from uniform, by quadrature: three powers, in standard errors."""
    paths, times = native.integrated_paths, np.arange(1.0, 7.0)
    grid = TimeGrid.build(pf.Observations(times, [0.2, 1.1, 0.4, 1.5, 0.6, -0.3]), steps_per_interval=1)
    engine, rng = IntegratedEngine(one_parameter(), grid), np.random.default_rng(5)
    for name, value in (("centre", -0.4), ("factor", 1.1), ("skew", -0.5)):
        engine.set("problem", engine.problem, "coordinates", name, value)
    machine, point, room = engine.machine(), engine.block("point"), np.zeros((paths.ROWS, paths.COLUMNS))
    places, row = np.linspace(-10.0, 10.0, 801), np.zeros(STATISTICS)
    density = np.exp([-_energy(paths, machine, point, q) for q in places])
    ranks = np.cumsum(density) / np.sum(density)
    room[paths.NUMBERS, paths.VALUE] = _energy(paths, machine, point, 0.0)
    found = np.zeros(count)
    for i in range(count):
        paths.transition(machine, point, room, 1.2, 1.8, kernels[i % len(kernels)], rng, row)
        found[i] = np.interp(point[0], places, ranks)
    powers = np.stack([found**k - 1.0 / (k + 1.0) for k in (1, 2, 3)]).reshape(3, 30, -1).mean(axis=2)
    return powers.mean(axis=1) / (powers.std(axis=1, ddof=1) / np.sqrt(30))


def _energy(paths, machine, point, q: float) -> float:
    point[0] = q
    return paths.integrate(machine, point) + 0.5 * q * q


@pytest.mark.parametrize("kernels", [(False,), (True,), (False, True)])
def test_kernels_leave_the_posterior_as_it_is(kernels):
    """Trajectories, proposals, and both in turn."""
    assert np.abs(scores(plain_native(), kernels=kernels)).max() < threshold(3, FALSE_ALARMS)


def with_friction(q, p, t):
    """A turn that does not preserve volume."""
    q[:], p[:] = np.cos(t) * q + np.sin(t) * p, 0.3 * (np.cos(t) * p - np.sin(t) * q)


FAULTS = {
    "no density of proposals": (True, "log_weight", lambda value, q: -value - 0.5 * q @ q),
    "friction": (False, "turn", with_friction),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_kernel_with_a_fault_is_found(monkeypatch, fault):
    independent, name, wrong = FAULTS[fault]
    native = plain_native()
    monkeypatch.setattr(native.integrated_paths, name, wrong)
    assert np.abs(scores(native, kernels=(independent,))).max() > threshold(3, FALSE_ALARMS)


def _mean_and_error(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means over chains and draws and their squared standard errors, from the means of 40 batches."""
    batches = x.reshape(40, -1, x.shape[-1]).mean(axis=1)
    return batches.mean(axis=0), batches.var(axis=0, ddof=1) / 40
