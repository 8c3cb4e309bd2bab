"""What one run of chains is made with: model, data, sampler and sizes, by the paper's letters."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, get_args

import numpy as np

import pathfold as pf
from pathfold.example_models import fitzhugh_nagumo, sir
from pathfold.paper.guided_sampler import Reference

GUIDED = {f"guided-{reference}": reference for reference in get_args(Reference)}
BASELINE = {
    "unconstrained": pf.UnconstrainedHMC(),
    "unconstrained-identity": pf.UnconstrainedHMC(metric="identity"),
}
HAMILTONIAN = {"dynamic": pf.DynamicHMC(), **BASELINE}
SLOW = {*BASELINE, "guided-endpoint"}  # which have a budget
NO_SPLITTING = "none"  # of samplers without a Hamiltonian


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that draws depend on; `seed` is that of simulated data and of the chains.

    Settings that differ in their budget alone are the same: with a larger one a run goes on.
    """

    model: str  # "fitzhugh_nagumo" or "sir"
    sampler: str  # "static", or of HAMILTONIAN or GUIDED
    splitting: str
    S: int  # fine steps per interval
    T: int  # observations
    R: int | None = None  # observations per block; None: no blocks
    thin: int | None = None  # iterations per draw, of guided proposals
    sigma_y: float | None = None  # scale of the observation noise; None: exact (FitzHugh-Nagumo), unknown (SIR)
    chains: int
    warmup: int
    draws: int
    seed: int
    budget: float | None = field(default=None, compare=False)  # seconds of its core that a chain may take

    @property
    def order(self) -> tuple[bool, int, int, str]:
        """Sorts settings: what every seed is asked for comes first, then by seed and by size."""
        return max(self.S, self.T) > 100, self.seed, self.S * self.T, str(self)

    @property
    def longest_first(self) -> tuple[bool, int, str]:
        """Sorts settings for several runs at once: those that will spend a budget, then by fine steps to be drawn."""
        return self.budget is None, -self.S * self.T * (self.warmup + self.draws), str(self)

    def __str__(self) -> str:
        return "  ".join(f"{name} {value}" for name, value in asdict(self).items() if value is not None)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large the experiments are made."""

    seeds: tuple[int, ...]
    chains: int
    warmup: int
    draws: int
    R: tuple[int, ...]
    S: tuple[int, ...]
    T: tuple[int, ...]
    base: tuple[int, int, int]  # the R, S and T that stay where another varies
    noise_S: int  # of FitzHugh-Nagumo with observation noise
    noise_variances: tuple[float, ...]
    noise_warmup: int
    noise_draws: int
    guided_warmup: int  # of guided proposals, in draws
    guided: dict[str, int]  # and the iterations of each draw, by their reference
    sir_S: int
    sir_draws: int
    sir_noise: tuple[float, ...]
    budget: float  # seconds of its core for each chain of what is slow by nature


FULL = Scale(
    seeds=(1, 2, 3),
    chains=4,
    warmup=250,
    draws=1000,
    R=(2, 5, 10, 20, 50, 100),
    S=(25, 50, 100, 200, 400),
    T=(25, 50, 100, 200, 400),
    base=(5, 25, 100),
    noise_S=40,
    noise_variances=(1e-4, 1e-3, 1e-2, 1e-1),
    noise_warmup=500,
    noise_draws=1000,
    guided_warmup=200,
    guided={"guided-path": 50, "guided-endpoint": 250},  # the latter is the paper's: 50,000 + 250,000
    sir_S=20,
    sir_draws=2500,
    sir_noise=(0.3, 1.0, 3.0, 5.0, 10.0),
    budget=300.0,
)
QUICK = Scale(
    seeds=(1, 2),
    chains=2,
    warmup=40,
    draws=40,
    R=(2, 5),
    S=(4, 8),
    T=(5, 10),
    base=(5, 4, 10),
    noise_S=4,
    noise_variances=(1e-1,),
    noise_warmup=40,
    noise_draws=40,
    guided_warmup=40,
    guided={"guided-path": 5, "guided-endpoint": 5},
    sir_S=5,
    sir_draws=40,
    sir_noise=(10.0,),
    budget=0.1,
)


def with_and_without_constraints(
    *, R: int | None = None, splittings: tuple[str, ...] = ("stormer-verlet",), **common: Any
) -> list[Setting]:
    """The paper's constrained chains (R observations per block), our default, and its baseline with either metric."""
    return [
        *(Setting(sampler="dynamic", splitting=splitting, R=R, **common) for splitting in splittings),
        Setting(sampler="static", splitting="gaussian", **common),
        *(Setting(sampler=name, splitting="stormer-verlet", **common) for name in BASELINE),
    ]


def with_budgets(settings: list[Setting], scale: Scale) -> list[Setting]:
    """Those that are slow by nature have a budget."""
    return [replace(s, budget=scale.budget) if s.sampler in SLOW else s for s in settings]


def guided_proposals(scale: Scale, **common: Any) -> list[Setting]:
    """The paper's second comparator, with its own reference and with ours."""
    settled = {**common, "warmup": scale.guided_warmup}
    return [Setting(sampler=name, splitting=NO_SPLITTING, thin=thin, **settled) for name, thin in scale.guided.items()]


def problem(setting: Setting) -> tuple[pf.DiffusionModel, pf.Observations]:
    """Model and data. Path and noise of the data of FitzHugh-Nagumo are the same at every noise level, as in the paper.

    Where the paper's text and its code differ we follow the code in the initial state of FitzHugh-Nagumo, of mean
    [0; -beta], and in the first observation of SIR, a day after the initial state; and the text in the priors of SIR,
    which are independent.
    """
    model = _model(setting.model, setting.sigma_y)
    if setting.model == "sir":
        return model, sir.data()
    exact = _exact_data(setting.T, setting.seed)
    if setting.sigma_y is None:
        return model, exact
    noise = np.random.default_rng([setting.seed, 1]).standard_normal(exact.values.shape)
    return model, pf.Observations(exact.times, exact.values + setting.sigma_y * noise)


@cache
def _model(name: str, sigma_y: float | None) -> pf.DiffusionModel:
    """The same object for the same model, so that it is traced once."""
    if name == "sir":
        return sir.noisy(sigma_y=sigma_y)
    return fitzhugh_nagumo.noiseless() if sigma_y is None else fitzhugh_nagumo.noisy(sigma_y)


@cache
def _exact_data(T: int, seed: int) -> pf.Observations:
    return fitzhugh_nagumo.data(_model("fitzhugh_nagumo", None), T, seed)


def _sampler(setting: Setting) -> Any:
    if setting.thin is not None:
        return pf.GuidedProposals(GUIDED[setting.sampler], setting.thin)
    blocks = {} if setting.R is None else {"observations_per_block": setting.R}
    if setting.sampler == "static":
        return pf.StaticHMC()
    return replace(HAMILTONIAN[setting.sampler], splitting=setting.splitting, **blocks)


def arguments(setting: Setting) -> dict[str, Any]:
    """Of pf.sample."""
    return {
        "steps_per_interval": setting.S,
        "sampler": _sampler(setting),
        "chains": setting.chains,
        "warmup": setting.warmup,
        "draws": setting.draws,
        "seed": setting.seed,
        "max_seconds": setting.budget,
    }
