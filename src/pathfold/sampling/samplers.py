"""The samplers to choose from, with their settings."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, get_args

from pathfold.engine.engine import Solver, Splitting
from pathfold.engine.native.thresholds import MOST_RUNGS
from pathfold.errors import SettingsError, told
from pathfold.model.checks import choice, positive, whole
from pathfold.sampling.heuristics import Heuristic
from pathfold.sampling.ladder import FEWEST
from pathfold.sampling.parameter_metric import Metric, checked_metric

Reference = Literal["path", "endpoint"]
UnconstrainedMetric = Literal["adapted", "identity"]
InitialStates = Literal["descent"] | Heuristic
INITIAL_STATES = ("descent", *get_args(Heuristic))
SOLVER = Solver()


@dataclass(frozen=True)
class StaticHMC:
    """Trajectories of a random length about an integration time, accepted or rejected as a whole.

    Parameters
    ----------
    integration_time
        How long trajectories are on average. With the Gaussian splitting, directions that the data leave alone turn
        with period 2 pi, and a quarter of a turn makes them almost independent. By default warm-up chooses between a
        quarter and three quarters of a turn.
    target_acceptance
        The acceptance rate that warm-up tunes the step size for, between 0 and 1.
    metric
        The mass of the standard normals that the parameters are made of, besides the mass of what moves with them
        (method.md, section 7): "identity", which is right for linear models; "adapted" in the first part of warm-up; or
        a positive definite matrix, its diagonal, or a dict of that by parameter.
    splitting
        How the Hamiltonian is split: "gaussian", whose step size does not depend on the number of fine steps, or
        "stormer-verlet".
    solver
        `pf.Solver(...)`: when the projection of a step onto the manifold has converged.
    observations_per_block
        Condition on the full state every so many observations, as the paper does. The posterior is the same; here it
        saves nothing.
    initial_states
        How a first point that meets the data is sought: by "descent" to the modes of the posterior, or with one of the
        paper's heuristics, "interpolation", "adam" and "adam-states".
    """

    integration_time: float | None = None
    target_acceptance: float = 0.95
    metric: Metric = "identity"
    _: KW_ONLY
    splitting: Splitting = "gaussian"
    solver: Solver = SOLVER
    observations_per_block: int | None = None
    initial_states: InitialStates = "descent"

    def __post_init__(self) -> None:
        _check(self)
        _check_target(self)
        object.__setattr__(self, "metric", checked_metric(self.metric))
        if self.integration_time is not None:
            object.__setattr__(self, "integration_time", positive("integration_time", self.integration_time))


@dataclass(frozen=True)
class DynamicHMC:
    """Trajectories doubled until they turn back (at most 1023 steps), states drawn by weight: the paper's choice.

    A few trajectories have shorter steps, by up to a factor of 256, so that a chain comes into corners where the usual
    ones fail.

    Parameters
    ----------
    target_acceptance
        The acceptance rate that warm-up tunes the step size for, between 0 and 1.
    metric
        The metric, as for `pf.StaticHMC`.
    splitting
        As that of `pf.StaticHMC`; the paper's experiments have both.
    solver
        As that of `pf.StaticHMC`.
    observations_per_block
        As that of `pf.StaticHMC`.
    initial_states
        As those of `pf.StaticHMC`.
    """

    target_acceptance: float = 0.8
    metric: Metric = "identity"
    _: KW_ONLY
    splitting: Splitting = "gaussian"
    solver: Solver = SOLVER
    observations_per_block: int | None = None
    initial_states: InitialStates = "descent"

    def __post_init__(self) -> None:
        _check(self)
        _check_target(self)
        object.__setattr__(self, "metric", checked_metric(self.metric))


@dataclass(frozen=True)
class UnconstrainedHMC:
    """The paper's baseline for additive Gaussian noise: dynamic trajectories on the density of (u, v0, v).

    Steps must be as small as the observation noise: it is meant for comparison and not recommended.

    Parameters
    ----------
    target_acceptance
        The acceptance rate that warm-up tunes the step size for, between 0 and 1.
    metric
        "adapted": diagonal, from the variances in growing windows of warm-up, which should have 500 iterations or more;
        or "identity".
    splitting
        How the Hamiltonian is split, "stormer-verlet" or "gaussian".
    initial_states
        As those of `pf.StaticHMC`; a chain begins with a point that meets the data, without its observation noise.
    """

    target_acceptance: float = 0.8
    metric: UnconstrainedMetric = "adapted"
    _: KW_ONLY
    splitting: Splitting = "stormer-verlet"
    initial_states: InitialStates = "descent"
    solver: ClassVar[Solver] = SOLVER  # that the start is found with
    observations_per_block: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check(self)
        _check_target(self)
        choice("metric", self.metric, get_args(UnconstrainedMetric))


@dataclass(frozen=True)
class GuidedProposals:
    """Guided proposals with random-walk Metropolis moves: the paper's other comparator, for noise with a density.

    Paths follow a guide to the data, a Gaussian one from the model linearised along a reference path. Metropolis moves
    change the noise that the guide makes them of, all at once, then the parameters and the initial states one by one.
    The posterior is that of the other samplers. It needs no gradients, and thousands of iterations.

    Parameters
    ----------
    reference
        The path that the model is linearised along: "path", the mean of the paths drawn in the first half of warm-up;
        or "endpoint", over every interval the state at its end, as far as it is observed, which is what the paper does
        and is slower by far.
    thin
        Iterations for each draw, of warm-up too.
    initial_states
        As those of `pf.UnconstrainedHMC`.
    """

    reference: Reference = "path"
    thin: int = 10
    _: KW_ONLY
    initial_states: InitialStates = "descent"
    splitting: ClassVar[Splitting] = "gaussian"  # of the start, which no step depends on
    solver: ClassVar[Solver] = SOLVER
    observations_per_block: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check(self)
        choice("reference", self.reference, get_args(Reference))
        object.__setattr__(self, "thin", whole("thin", self.thin, least=1))


@dataclass(frozen=True)
class ReplicaExchange:
    """Replicas of the posterior with its likelihood to powers from 1 to 0, which exchange their places.

    For posteriors with several modes, each of which gets its share of the draws. On the rung of power 0, the prior,
    draws are independent; exchanges between neighbouring rungs bring them down to the posterior, which keeps its draws
    exact. Every rung is sampled as by `pf.StaticHMC`, so that a draw costs about as much as one of that times the
    number of rungs. All that is observed must have noise.

    Parameters
    ----------
    rungs
        How many powers there are, 1 and 0 included, from 3 to 48. By default warm-up finds out how many it takes for
        every second exchange to be accepted. Where they are, it finds out in any case.
    integration_time
        As that of `pf.StaticHMC`, on all rungs. By default warm-up finds it for the posterior, and on other rungs it is
        a quarter of a turn, or four pairs of steps if that is less.
    target_acceptance
        As that of `pf.StaticHMC`.
    solver
        As that of `pf.StaticHMC`.
    initial_states
        As those of `pf.StaticHMC`.
    """

    rungs: int | None = None
    _: KW_ONLY
    integration_time: float | None = None
    target_acceptance: float = 0.95
    solver: Solver = SOLVER
    initial_states: InitialStates = "descent"
    metric: ClassVar[Metric] = "identity"
    splitting: ClassVar[Splitting] = "gaussian"
    observations_per_block: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check(self)
        _check_target(self)
        if self.rungs is not None:
            object.__setattr__(self, "rungs", whole("rungs", self.rungs, least=FEWEST))
            if self.rungs > MOST_RUNGS:
                raise SettingsError(f"rungs must be at most {MOST_RUNGS}, not {self.rungs}")
        if self.integration_time is not None:
            object.__setattr__(self, "integration_time", positive("integration_time", self.integration_time))


Sampler = StaticHMC | DynamicHMC | UnconstrainedHMC | GuidedProposals | ReplicaExchange


def _check(sampler: Sampler) -> None:
    """Check what a run of every sampler depends on, whether it can be set there or not."""
    choice("splitting", sampler.splitting, get_args(Splitting))
    choice("initial_states", sampler.initial_states, INITIAL_STATES)
    _check_solver(sampler.solver)
    if sampler.observations_per_block is not None:
        block = whole("observations_per_block", sampler.observations_per_block, least=2)
        object.__setattr__(sampler, "observations_per_block", block)


def _check_solver(given: Any) -> None:
    if not isinstance(given, Solver):
        raise SettingsError(f"solver must be pf.Solver(), with other tolerances or limits, not {told(given)}")


def _check_target(sampler: StaticHMC | DynamicHMC | UnconstrainedHMC | ReplicaExchange) -> None:
    target = positive("target_acceptance", sampler.target_acceptance, below=1.0)
    object.__setattr__(sampler, "target_acceptance", target)


def kind_of(sampler: Sampler) -> str:
    """Which of the native samplers it is made of (`engine/installation.py`)."""
    if isinstance(sampler, GuidedProposals):
        return "guided"
    if isinstance(sampler, ReplicaExchange):
        return "replicas"
    return "static" if isinstance(sampler, StaticHMC) else "dynamic"
