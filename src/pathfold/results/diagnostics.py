"""One warning if a run should not be trusted yet: what is wrong, the worst first, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pathfold.engine.status import MEANING
from pathfold.errors import DrawsWarning, warn
from pathfold.model.reactions import ENDS, NEAR_ZERO, Reactions
from pathfold.model.transform import BOUNDED
from pathfold.results.convergence import Convergence, apart, judged, labels, scalars
from pathfold.results.reading import is_fit, reasons_of, series_names
from pathfold.results.variables import in_blocks
from pathfold.sampling.contradictions import by_name, contradiction
from pathfold.sampling.draws import Draws, spared

RHAT = 1.01
ESS_A_CHAIN = 100
FAILURES = 0.03
WALLS = 0.5  # of the trajectories turned back somewhere
STANDSTILL = 0.02
SHORT = 0.1  # steps, where likelihoods enter as plain factors
SHIFT = 0.3  # with half steps, in standard deviations
SHORTER = "take more steps_per_interval (a smaller max_step)"
FINER = f"{SHORTER} or a scheme of higher order; pf.ExactLinearDrift() where the drift is linear in the state"
STEPS_APART = 5.0  # chains in different modes have steps of other lengths, which are told if the factor is this
NAMED = 3  # parameters of a chain that was left out, those that are furthest apart

Read = Callable[[Sequence[Draws], int, int], xr.Dataset]  # the parameters of chains, draws from one to another


def warn_of_trouble(
    tree: xr.DataTree, names: list[str], network: Reactions | None = None, *, refined: bool = False
) -> None:
    """Warn once of all that is amiss, each with a remedy; do nothing if all is well.

    Where the time step was `refined`, others have said whether it is short enough.
    """
    judged = spared("the draws could not be judged", lambda: [*troubles(tree, names, network, refined=refined)])
    sentences = judged or []
    if len(sentences) == 1:
        warn(sentences[0], DrawsWarning)
    elif sentences:
        numbered = "; ".join(f"({i}) {sentence}" for i, sentence in enumerate(sentences, start=1))
        warn(f"{len(sentences)} things are amiss, the worst first: {numbered}", DrawsWarning)


def troubles(
    tree: xr.DataTree, names: list[str], network: Reactions | None = None, *, refined: bool = False
) -> Iterator[str]:
    """Return a sentence for everything that is amiss, the worst first."""
    if is_fit(tree):
        yield from reasons_of(tree) if tree.attrs["verdict"] != "good" else ()
        yield from filter(None, [contradiction_in(tree)])
        return
    if (draws := tree.posterior.sizes["draw"]) == 0:
        return
    if phrases := np.atleast_1d(tree.attrs.get("left_out", [])).tolist():  # a file has a list of one as it is
        yield of_left_out(phrases)
    names = [name for name in names if name in tree.posterior]
    started = ["initial_state"] if "initial_state" in tree.posterior else []
    by_label = {}
    for name in [*names, *started] if draws >= 4 else ():
        for label, x, convergence in judged(tree.posterior[name]):
            if np.isfinite(x).all():
                by_label[label] = Sampled(x.mean(axis=1), x.std(axis=1), convergence)
    yield from _not_finite(tree, [*names, *started])
    yield from filter(None, [contradiction_in(tree)])
    of_modes = [*_modes(tree, by_label)]
    yield from of_modes
    if draws >= 4:
        yield from _no_round_trips(tree)
        yield from _standstill(tree)
    yield from _failures(tree, network)
    if draws >= 4:
        yield from () if refined else _time_step(tree, [*names, *started])
        yield from _short_steps(tree)
        if not of_modes or draws < ESS_A_CHAIN:  # of chains in different modes more draws are no remedy
            yield from _convergence(by_label, tree.posterior.sizes["chain"])


def _not_finite(tree: xr.DataTree, names: list[str]) -> Iterator[str]:
    """Report variables with draws that are not finite, which no comparison would notice."""
    for values in [*(tree.posterior[name] for name in names), tree.sample_stats["lp"]]:
        if any(not np.isfinite(x).all() for _, x in scalars(values)):
            yield (
                f"{values.name} is not finite in some of the draws: the model is not defined where the chains went, or "
                "the results are damaged; look for roots and logarithms of what may be negative, or sample again"
            )


def contradiction_in(tree: xr.DataTree) -> str:
    """Return a sentence that names parameters and initial states far out in their priors, by medians; or nothing."""
    if "noise" not in tree.children:
        return ""

    def medians(kind: str) -> dict[str, np.ndarray]:
        if f"{kind}_noise" not in tree.noise:
            return {}
        normals = tree.noise[f"{kind}_noise"]
        middle = np.median(normals.transpose("chain", "draw", ...).values, axis=(0, 1))
        return by_name(normals[f"{kind}_normal"].values, middle, np.atleast_1d(normals.attrs["standard"]) > 0)

    return contradiction(medians("parameter"), medians("initial"), series_names(tree))


class Sampled(NamedTuple):
    """The draws of a scalar in short: mean and spread of every chain, and their convergence."""

    means: np.ndarray
    spreads: np.ndarray
    convergence: Convergence


def _modes(tree: xr.DataTree, by_label: dict[str, Sampled]) -> Iterator[str]:
    """Report chains that stay away from the others, by their means, and by the length of their steps."""
    remarks: dict[int, list[str]] = {}
    for label, (means, spread, _) in by_label.items():
        middle = np.median(means)
        for chain in np.flatnonzero(apart(means, spread, middle, np.median(spread))):
            odd = f"{label} about {means[chain]:.3g} where others have {middle:.3g}"
            remarks.setdefault(int(chain), []).append(odd)
    if not remarks:
        return
    if "step_size" in tree.sample_stats:
        steps = tree.sample_stats["step_size"].values.mean(axis=1)
        middle = np.median(steps)
        for chain in np.flatnonzero(np.maximum(steps / middle, middle / steps) > STEPS_APART):
            remarks.setdefault(int(chain), []).append(f"steps of {steps[chain]:.2g} where others have {middle:.2g}")
    numbers = tree.sample_stats["lp"]["chain"].values
    chains = "; ".join(f"chain {numbers[chain]} has {', '.join(what[:3])}" for chain, what in sorted(remarks.items()))
    remedy = "run more draws"
    if "round_trips" not in tree.sample_stats:
        remedy = "sample with pf.ReplicaExchange(), which gives every mode its share if all that is observed has noise"
    yield (
        f"chains have found different modes: {chains}. Their draws are not in proportion to the modes' probability: "
        f"{remedy}, try another seed, narrow the priors, or take more steps_per_interval if a path leaps from one to "
        "the other"
    )


def _no_round_trips(tree: xr.DataTree) -> Iterator[str]:
    """Report chains of replica exchange in which no replica went to the prior and came back."""
    if "round_trips" not in tree.sample_stats:
        return
    trips = tree.sample_stats["round_trips"]
    without = trips["chain"].values[trips.values[:, -1] == 0]
    if without.size:
        yield (
            f"no replica went from the posterior to the prior and back in {_chains(without)}: if the posterior has "
            "several modes, their shares among these draws mean nothing; run more draws, or narrow the priors"
        )


def _chains(numbers: np.ndarray) -> str:
    listed = [str(number) for number in numbers.tolist()]
    return f"chain {listed[0]}" if len(listed) == 1 else f"chains {', '.join(listed[:-1])} and {listed[-1]}"


def _standstill(tree: xr.DataTree) -> Iterator[str]:
    density = tree.sample_stats["lp"]
    moved = np.mean(np.diff(density.values, axis=1) != 0.0, axis=1)
    for chain, share in zip(density["chain"].values[moved < STANDSTILL], moved[moved < STANDSTILL], strict=True):
        yield (
            f"chain {chain} stood still: {100 * share:.1f} % of its draws differ from the one before; give it a "
            "longer warmup or another seed"
        )


def _failures(tree: xr.DataTree, network: Reactions | None) -> Iterator[str]:
    status = tree.sample_stats["status"].values
    failed = status != 0
    if failed.mean() > FAILURES:
        codes, counts = np.unique(status[failed], return_counts=True)
        cause = MEANING[int(codes[np.argmax(counts)])]
        what, remedy = "trajectories failed", "raise the sampler's target_acceptance, or take more steps_per_interval"
        if "target_acceptance" not in tree.attrs:
            what, remedy = "draws had no move that could be made", "take more steps_per_interval"
        if network is not None and tree.attrs.get("keep", "all") == "all":
            states, group = "state" if "state" in tree.posterior else "initial_state", tree.posterior.to_dataset()
            least = [network.least(block[states].values) for block in in_blocks(group, states)]
            name, amount = min(least, key=lambda named: named[1])
            if amount < NEAR_ZERO:
                remedy = f"the amount of {name!r} comes down to {amount:.2g} in the draws, and {ENDS}"
        yield f"{100 * failed.mean():.1f} % of the {what}, most often because {cause}: {remedy}"
    elif moves_on_manifold(tree) and (turned := _turned_back(tree)) > WALLS:
        yield (
            f"{100 * turned:.0f} % of the trajectories met a wall and turned back: steps failed where a path leaves "
            "what a model function is defined for, such as a logarithm, or explodes, and were made short for it; take "
            f"more steps_per_interval, or {BOUNDED}"
        )
    diverged = tree.sample_stats["diverging"].values.mean()
    if diverged > FAILURES:
        yield (
            f"{100 * diverged:.1f} % of the trajectories diverged: their energy was not kept, which happens where the "
            "posterior is much narrower than elsewhere; raise the sampler's target_acceptance"
        )


def _turned_back(tree: xr.DataTree) -> float:
    """Return the share of trajectories with steps that failed, though they did not fail themselves."""
    if "n_failed_steps" not in tree.sample_stats:
        return 0.0
    return float(np.mean(tree.sample_stats["n_failed_steps"].values > 0))


def moves_on_manifold(tree: xr.DataTree) -> bool:
    """Return whether draws come from steps on the manifold, which take iterations of Newton's method."""
    return "newton_iterations" in tree.sample_stats and bool(np.any(tree.sample_stats["newton_iterations"].values > 0))


def _time_step(tree: xr.DataTree, names: list[str]) -> Iterator[str]:
    """Report what half steps would move beyond chance: errors of n estimates reach sqrt(2 log n) standard errors."""
    if "half_step_shift" not in tree.children:
        return
    shifts: dict[str, tuple[float, float]] = {}
    for name in [name for name in names if name in tree.half_step_shift]:
        shifts |= _shifts(tree.half_step_shift[name])
    chance = np.sqrt(2.0 * np.log(max(1, len(shifts))))
    moved = {label: shift for label, (shift, error) in shifts.items() if abs(shift) > SHIFT + chance * error}
    if moved:
        moved = dict(sorted(moved.items(), key=lambda item: -abs(item[1])))
        worst = next(iter(moved))
        exact = json.loads(tree.attrs.get("model", "{}")).get("scheme") == "ExactLinearDrift"
        remedy = SHORTER if exact else FINER
        yield (
            f"the posterior depends on the time step: with twice as many steps {worst} would move by about "
            f"{moved[worst]:+.1f} of its standard deviations{_others(moved, worst, 'would')}; {remedy}"
        )


def _shifts(values: xr.DataArray) -> dict[str, tuple[float, float]]:
    """Return the mean shift of every scalar that moves, over draws where it is known, and its standard error (0 with a
    single draw)."""
    x = values.transpose("chain", "draw", ...).values.reshape(values.sizes["chain"] * values.sizes["draw"], -1)
    x = np.ma.masked_invalid(x)
    mean, error = x.mean(axis=0).filled(0.0), (x.std(axis=0) / np.sqrt(np.maximum(1, x.count(axis=0) - 1))).filled(0.0)
    named = zip(labels(values), mean.tolist(), error.tolist(), strict=True)
    return {label: (shift, spread) for label, shift, spread in named if shift != 0.0}


def _short_steps(tree: xr.DataTree) -> Iterator[str]:
    """Report steps that a likelihood without a root may keep short."""
    plain = np.atleast_1d(tree.attrs.get("plain_factors", [])).tolist()  # a file has a list of one as it is
    if plain and moves_on_manifold(tree) and (step := float(tree.sample_stats["step_size"].mean())) < SHORT:
        yield (
            f"steps are short ({step:.2g}), and the likelihood of {', '.join(plain[:4])} enters as a plain factor, the "
            "slower kind, which may be what keeps them so; a distribution that enters as a row allows longer ones "
            "(docs/models.md lists these)"
        )


def _convergence(by_label: dict[str, Sampled], chains: int) -> Iterator[str]:
    """Report scalars by R-hat and, where that is good, by the number of effective draws; the worst with its figure."""
    convergence = {label: sampled.convergence for label, sampled in by_label.items()}
    apart = {label: figures for label, figures in convergence.items() if figures.rhat > RHAT}
    if apart:
        worst = max(apart, key=lambda label: apart[label].rhat)
        yield (
            f"{worst} has not converged: R-hat is {apart[worst].rhat:.3f}, above {RHAT}{_others(apart, worst)}; run "
            "more draws, or a longer warmup"
        )
    enough = ESS_A_CHAIN * chains
    few = {label: figures for label, figures in convergence.items() if not figures.effective >= enough}
    few = {label: figures for label, figures in few.items() if label not in apart}
    if few:
        worst = min(few, key=lambda label: few[label].effective)
        bulk, tail = few[worst].bulk, few[worst].tail
        yield (
            f"{worst} has few effective draws: {bulk:.0f} in the bulk, {tail:.0f} in the tails, fewer than "
            f"{enough}{_others(few, worst)}; run more draws"
        )


def _others(by_label: dict[str, Any], worst: str, verb: str = "are") -> str:
    names = [label for label in by_label if label != worst]
    listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f" (so {verb} {listed})" if names else ""


def where_left_out(read: Read, kept: Sequence[Draws], left_out: Sequence[Draws], warmup: int) -> list[str]:
    """Return a phrase for each chain that was left out, with the means of those parameters that are furthest from the
    draws that were kept.

    Of a chain without draws after warm-up the second half of what it has of warm-up counts.
    """
    made = min(draws.made for draws in kept)
    if not left_out or made <= warmup:
        return []
    usual = {
        label: (float(x.mean()), float(x.std()))
        for label, x in _scalars(read, kept, warmup, made).items()
        if np.ptp(x) > 0.0
    }
    return [f"chain {draws.chain} {_where(read, draws, warmup, usual)}" for draws in left_out]


def _where(read: Read, draws: Draws, warmup: int, usual: dict[str, tuple[float, float]]) -> str:
    if draws.made == 0:
        return "has no draws"
    after = draws.made - warmup
    begin, when = (warmup, f"in {after} draws") if after > 0 else (draws.made // 2, "in warm-up")
    means = {label: x.mean() for label, x in _scalars(read, [draws], begin, draws.made).items() if label in usual}

    def distance(label: str) -> float:
        middle, spread = usual[label]
        return abs(means[label] - middle) / spread

    apart = sorted(means, key=distance, reverse=True)[:NAMED]
    listed = (
        f"{label} about {means[label]:.3g} where those kept have {usual[label][0]:.3g} ({distance(label):.1f} of its "
        "standard deviations away)"
        for label in apart
    )
    return f"{when} has {', '.join(listed)}" if apart else f"has {max(0, after)} draws"


def _scalars(read: Read, chains: Sequence[Draws], begin: int, end: int) -> dict[str, np.ndarray]:
    """Return the draws (chain, draw) of every scalar by its label."""
    group = read(chains, begin, end)
    return {label: x for name in group.data_vars for label, x in scalars(group[name])}


def of_left_out(phrases: Sequence[str]) -> str:
    """Return the sentence that tells the user which chains were left out."""
    return (
        "chains that were behind the others were left out, and slow can mean in another part of the posterior, of "
        f"which what was kept says nothing: {'; '.join(phrases)}. Give them the time that they need (max_seconds; a "
        "run with a checkpoint goes on where it ended) before trusting what the others found"
    )
