"""Is the model right? Tests of the noise of posterior draws (Johnson 2007, Bayesian Analysis 2(4), 719-734).

Parameters, initial states, path and observations are made of standard normals. If the model is right and the parameters
came from their prior, so are those of any one draw from the posterior, whatever the data are: each test of them has an
exact p-value. Draws are dependent in ways nobody knows, so that the p-values of a test are combined by a bound that
holds all the same: twice their median (Rueger 1978; Vovk and Wang 2020). It errs on the side of the model. Noise that
moves no state is no evidence, and is not tested.

Where a scale is estimated it makes up for noise that is too large, and what is left to see is its shape: such tests do
not depend on the scale. One-step-ahead residuals, where results have them, are standard normals in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
import xarray as xr

from pathfold.analysis.channels import Channel, channels, idle
from pathfold.analysis.noise_statistics import bounded
from pathfold.analysis.noise_tests import (
    NoiseTest,
    When,
    correlation,
    dependence,
    in_windows,
    initial_states,
    moments,
    over_time,
    parameters,
    shape,
)
from pathfold.data.checks import positive
from pathfold.results.in_order import results_of
from pathfold.results.reading import calendars_of, component_names, observation_names, series_names

LEVEL = 0.05
MOST_SAID = 20  # findings that are printed
UNSEEN = (
    "not checked: one-step residuals, which show outliers and changes of scale better; "
    "pf.check(pf.residuals(model, data, posterior)) tests them, too"
)


@dataclass(frozen=True)
class Check:
    """The outcome of `pf.check`: a table of all tests, the smallest p-value of all, and sentences for what is amiss.

    Parameters
    ----------
    table
        For each test its `p_value`, bounded over draws, and `adjusted`, which allows for the number of tests: if the
        model is right, the smallest of these, `p_value`, is below 0.05 in at most 5 % of all data sets.
    findings
        Sentences for what is amiss.
    not_checked
        Sentences for what was not tested, and why.
    untested
        The errors of observations that no test looked at: the verdict says so first.
    draws
        How many draws the tests are of.
    level
        The probability of finding anything amiss with a model that is right, at most.
    spans
        Windows of time in which the noise is amiss: its source, its series, and when.
    """

    table: pd.DataFrame
    findings: tuple[str, ...]
    not_checked: tuple[str, ...]
    untested: tuple[str, ...]
    draws: int
    level: float
    spans: tuple[tuple[str, int, float, float], ...]  # noise, series, begin and end of the windows that are amiss

    @property
    def p_value(self) -> float:
        return float(self.table["adjusted"].to_numpy().min(initial=1.0))

    @property
    def worst(self) -> tuple[str, ...]:
        """The findings that matter most, at most 20, and a sentence that counts the others."""
        more = len(self.findings) - MOST_SAID
        return self.findings if more <= 0 else (*self.findings[:MOST_SAID], f"{more:,} more findings, in the table")

    @property
    def passed(self) -> bool:
        return not self.findings

    @property
    def caveat(self) -> str:
        """A sentence to begin a verdict with: that the errors of observations are untested; empty if they are not."""
        return f"Not checked: {', '.join(self.untested)}. " if self.untested else ""

    def __str__(self) -> str:
        head = (
            f"{len(self.table)} tests of the noise of {self.draws} draws, smallest adjusted p-value {self.p_value:.2g}"
        )
        verdict = f"{head}: no sign of misfit." if self.passed else f"{head}. The model does not fit:"
        sentences = (f"- {sentence}" for sentence in (*self.worst, *self.not_checked))
        return "\n".join([self.caveat + verdict, *sentences])

    __repr__ = __str__


def check(posterior: xr.DataTree, *, level: float = LEVEL) -> Check:
    """Test whether the noise of posterior draws is standard normal, as it is if the model is right.

    Mean, variance, tails, shape, autocorrelation and cross-correlation of each source of noise, over all of the time
    and in windows of it, whether its size changes over time, and whether it depends on the state; initial states and
    parameters against their priors. Errors of likelihoods and of censored values are tested by their distribution
    function. Where results have one-step-ahead residuals, these are tested too, unless they have too few particles.

    Parameters
    ----------
    posterior
        Results of `pf.sample`, also from a file, or of `pf.residuals`.
    level
        The probability of finding anything amiss with a model that is right, at most.

    Returns
    -------
    Check
        A table of all tests, and sentences for what is amiss.
    """
    tree = results_of(posterior, "noise", "constant_data", "observed_data")
    level = positive("level", level, below=1.0)
    sources, tests, ahead = channels(tree), [], []
    few = list(_too_few_particles(tree))
    sources = [source for source in sources if not (few and source.kind == "ahead")]
    untested, when = tuple(_untested(tree, sources)), When(series_names(tree), calendars_of(tree))
    for source in sources:
        own = ahead if source.kind == "ahead" else tests
        own += [*shape(source, when), *over_time(source)]
        if source.kind != "together":
            own += moments(source)
        if source.states is not None:
            own += [*in_windows(source, when), *dependence(source, component_names(tree.noise))]
    for a, b in combinations([source for source in sources if source.kind in ("path", "observation")], 2):
        tests += correlation(a, b)
    tests += [*initial_states(tree), *parameters(tree)]
    opinions = [group for group in (tests, ahead) if group]
    result = gathered(opinions, level, tree.noise.sizes["chain"] * tree.noise.sizes["draw"])
    not_checked = [*few, *_left_out(tree, untested)]
    kinds = {source.kind for source in sources}
    if result.passed and "path" in kinds and "ahead" not in kinds and not few:
        not_checked.append(UNSEEN)
    return replace(result, untested=untested, not_checked=tuple(not_checked))


def gathered(opinions: list[list[NoiseTest]], level: float, draws: int) -> Check:
    """Apply Bonferroni's bound, with equal weight for noise and residuals, and for each family of tests of either."""
    tests, rows = [test for opinion in opinions for test in opinion], []
    for opinion in opinions:
        families = Counter(test.family for test in opinion)
        for test in opinion:
            p, middle = bounded(test.p_values), float(np.median(test.statistic))
            adjusted = float(np.minimum(1.0, p * len(opinions) * len(families) * families[test.family]))
            rows.append((test.family, test.noise, test.where, middle, p, adjusted))
    table = pd.DataFrame(rows, columns=["test", "noise", "where", "statistic", "p_value", "adjusted"])
    adjusted = table["adjusted"].to_numpy()
    amiss = [i for i in np.argsort(adjusted, kind="stable").tolist() if adjusted[i] < level]
    findings = (
        *(f"{noise} is not a number in some of the draws: sample again" for noise in _no_numbers(tests, adjusted)),
        *(f"{tests[i].say(rows[i][3])} (adjusted p-value {rows[i][5]:.2g})" for i in amiss),
    )
    spans = tuple((tests[i].noise, *span) for i in amiss if (span := tests[i].span) is not None)
    return Check(table, findings, (), (), draws, level, spans)


def _no_numbers(tests: list[NoiseTest], adjusted: np.ndarray) -> dict[str, None]:
    """Return the sources of noise for which a test has no p-value."""
    return dict.fromkeys(test.noise for test, p in zip(tests, adjusted, strict=True) if np.isnan(p))


def _untested(tree: xr.DataTree, sources: list[Channel]) -> Iterator[str]:
    """Yield the errors of observations that are not standard normals, and of which there are no residuals either."""
    if "observation_noise" not in tree.noise:
        return
    tested, names = {source.name for source in sources if source.kind != "path"}, observation_names(tree)
    seen = tree.noise["observed"].values.any(axis=0)
    standard = np.atleast_1d(tree.noise["observation_noise"].attrs["standard"]) > 0
    columns = np.unique(tree.noise["observed_column"].values[~standard])
    yield from (f"the errors of {names[j]}" for j in columns if j >= 0 and seen[j] and names[j] not in tested)
    if -1 in columns:
        yield "the noise of pf.NoisyObservation"


def _too_few_particles(tree: xr.DataTree) -> Iterator[str]:
    """Yield a sentence if one-step residuals depend on the particles that they were computed by."""
    about = tree.residuals.attrs if "residuals" in tree.children else {}
    if about.get("enough_particles", 0) > about.get("particles", 0):
        yield (
            f"not tested: one-step residuals, which depend on their {about['particles']} particles: "
            f"pf.residuals(..., particles={about['enough_particles']}) would do"
        )


def _left_out(tree: xr.DataTree, untested: tuple[str, ...]) -> Iterator[str]:
    """Yield a sentence for what is not tested."""
    if untested:
        yield (
            f"not checked: {', '.join(untested)}, which have no distribution function that pathfold can use; "
            "pf.check(pf.residuals(model, data, posterior)) tests one-step residuals, also of these"
        )
    if "initial_noise" in tree.noise and not np.all(tree.noise["initial_noise"].attrs["standard"]):
        yield "not checked: initial states, or some of them, which are not made of standard normals"
    if names := idle(tree.noise.to_dataset()):
        yield f"not checked: the noise of {', '.join(names)}, which moves no state"
