"""How draws are made: the choice of sampler and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pathfold.model.settings import choice, positive, whole
from pathfold.sampling.parameter_metric import Metric, checked_metric

Reference = Literal["path", "endpoint"]
UnconstrainedMetric = Literal["adapted", "identity"]


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
        Of the standard normals that the parameters are made of, the mass that they have besides what moves with them
        (method.md, section 7): "identity", which is right for linear models; "adapted" in the first part of warm-up; or
        a positive definite matrix, its diagonal, or a dict of that by parameter.
    """

    integration_time: float | None = None
    target_acceptance: float = 0.95
    metric: Metric = "identity"

    def __post_init__(self) -> None:
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
        As that of `pf.StaticHMC`.
    """

    target_acceptance: float = 0.8
    metric: Metric = "identity"

    def __post_init__(self) -> None:
        _check_target(self)
        object.__setattr__(self, "metric", checked_metric(self.metric))


@dataclass(frozen=True)
class UnconstrainedHMC:
    """The paper's baseline for additive Gaussian noise: dynamic trajectories on the density of (u, v0, v).

    The steps that a small noise allows are as small as the noise: a comparison, not a recommendation.

    Parameters
    ----------
    target_acceptance
        The acceptance rate that warm-up tunes the step size for, between 0 and 1.
    metric
        "adapted": diagonal, from the variances in growing windows of warm-up, which should have 500 iterations or more;
        or "identity".
    """

    target_acceptance: float = 0.8
    metric: UnconstrainedMetric = "adapted"

    def __post_init__(self) -> None:
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
    """

    reference: Reference = "path"
    thin: int = 10

    def __post_init__(self) -> None:
        choice("reference", self.reference, get_args(Reference))
        object.__setattr__(self, "thin", whole("thin", self.thin, least=1))


Sampler = StaticHMC | DynamicHMC | UnconstrainedHMC | GuidedProposals


def _check_target(sampler: StaticHMC | DynamicHMC | UnconstrainedHMC) -> None:
    target = positive("target_acceptance", sampler.target_acceptance, below=1.0)
    object.__setattr__(sampler, "target_acceptance", target)


def kind_of(sampler: Sampler) -> str:
    """Which of the native samplers it is made of (`engine/installation.py`)."""
    if isinstance(sampler, GuidedProposals):
        return "guided"
    return "static" if isinstance(sampler, StaticHMC) else "dynamic"
