"""A report of a calibration: one HTML file that needs nothing else, for a screen of any width, light or dark."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html import escape
from io import StringIO
from itertools import count
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pathfold.analysis.channels import channels
from pathfold.analysis.check import check
from pathfold.analysis.plots.check_plot import plot_check
from pathfold.analysis.plots.marginals_plot import plot_marginals
from pathfold.analysis.plots.paths_plot import plot_data, plot_paths, plot_predictions
from pathfold.analysis.plots.style import ALARM, FORECAST, POSTERIOR, REPLICATED
from pathfold.data.dates import told_date
from pathfold.errors import SettingsError
from pathfold.results.convergence import labels
from pathfold.results.diagnostics import troubles
from pathfold.results.in_order import results_of
from pathfold.results.prior import kept_parameters, parameter_names
from pathfold.results.reading import component_names, has_integrated, is_fit, observation_names, reasons_of
from pathfold.results.summary import shortened, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SENSITIVE = 0.05  # to the power of the prior: beyond this a parameter rests on it
MOST_ROWS = 50  # of the table, and scalars of a parameter of which one asks whether they rest on the prior
FEW = 100  # draws, of which no tail can be told
MOST_SERIES = 4  # of a panel that are drawn
MOST_COMPONENTS = 6
MOST_DRAWS = 400  # of paths that bands are made of

# Colours of the pictures and what stands for them, so that they follow the page from light to dark.
INKS = {
    "#000000": "ink",
    "#ffffff": "page",
    "#555555": "soft",
    "#777777": "soft",
    "#e4e4e4": "line",
    POSTERIOR.line: "blue",
    POSTERIOR.inner: "blue-inner",
    POSTERIOR.outer: "blue-outer",
    FORECAST.line: "orange",
    FORECAST.inner: "orange-inner",
    FORECAST.outer: "orange-outer",
    REPLICATED.line: "purple",
    REPLICATED.inner: "purple-inner",
    REPLICATED.outer: "purple-outer",
    ALARM: "bad",
}

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1b1b1b; --soft: #5c5c5c; --line: #d8d8d8; --panel: #f5f5f3;
  --good: #2f7d32; --bad: #b3261e; --blue: #1f5f8b; --blue-inner: #8fb8d6; --blue-outer: #d3e3ef;
  --orange: #b35c00; --orange-inner: #eab676; --orange-outer: #f7e3c8;
  --purple: #6a4c93; --purple-inner: #bfaed6; --purple-outer: #e6def0; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #16181a; --ink: #e6e6e3; --soft: #a3a3a0;
  --line: #3a3d40; --panel: #1f2225; --good: #81c784; --bad: #f2857c;
  --blue: #9cc9e8; --blue-inner: #35688c; --blue-outer: #24435a;
  --orange: #f0b36b; --orange-inner: #8a5414; --orange-outer: #533616;
  --purple: #c7b0ea; --purple-inner: #5f4a80; --purple-outer: #3d3150; } }
body { margin: 0 auto; padding: 1rem 1rem 4rem; max-width: 60rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 1rem 0 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
p.note { color: var(--soft); margin: .3rem 0; }
pre { background: var(--panel); padding: .8rem; border-radius: .4rem; overflow-x: auto; font-size: .85rem;
  margin: .3rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .3rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.open { color: var(--orange); }
.wide, .picture { overflow-x: auto; }
.picture svg { width: 100%; min-width: 34rem; height: auto; display: block; }
.picture text { fill: var(--ink); }
@page { margin: 1.5cm; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } h2, p.note { break-after: avoid; }
  .picture, tr, pre, p, li, dd { break-inside: avoid; }
  .picture svg { width: 90%; min-width: 0; max-height: 22cm; margin: auto; } .wide, .picture { overflow: visible; }
  pre { white-space: pre-wrap; background: none; border: 1px solid var(--line); }
  th, td { padding: .2rem .5rem; } td:first-child { white-space: normal; } }
"""


def report(posterior: xr.DataTree, file: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write a report of results of pf.sample to an HTML file, and return its path.

    It has the verdicts in words, the model as written, the data, marginals and paths, how the chains converged, what
    rests on the prior, what `pf.check` found, the call to repeat it, settings and versions; forecasts and replicated
    data too, if the results have them. Nothing is fetched when it is opened, and it can be printed. It needs
    Matplotlib.

    Parameters
    ----------
    posterior
        Results of `pf.sample` or `pf.fit`, also from a file; those of `pf.predict` have forecasts too, and those of
        `pf.posterior_predictive` replicated data, in the units of the data.
    file
        Where the report is written.
    title
        The heading; by default the number of parameters.

    Returns
    -------
    pathlib.Path
        The file.
    """
    tree = results_of(posterior, "sample_stats", "observed_data", "constant_data")
    title = title or f"Calibration with {len(parameter_names(tree))} parameters"
    parts = {
        "Verdict": _verdict(tree),
        "Parameters": _parameters(tree),
        "Paths": _paths(tree),
        "Is the model right?": _check(tree),
        "Model": _model(tree),
        "Data": _data(tree),
        "To repeat it": _call(tree),
        "How it was sampled": _settings(tree),
    }
    body = "".join(f"<section><h2>{escape(name)}</h2>{''.join(part)}</section>" for name, part in parts.items())
    made = str(tree.attrs.get("created_at", ""))[:16].replace("T", " ")
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f'<p class="note">pathfold {escape(str(tree.attrs.get("pathfold_version")))}, drawn {escape(made)} UTC</p>'
        f"{body}</body></html>"
    )
    path = Path(file)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"the report cannot be written to {path}: {error.strerror}; give another file") from error
    return path


def _verdict(tree: xr.DataTree) -> Iterator[str]:
    """Write what a reader should know first."""
    sentences = list(troubles(tree, kept_parameters(tree)))
    if is_fit(tree):
        yield from _verdict_of_fit(tree)
    elif sentences:
        yield '<p class="bad">The draws should not be trusted yet:</p><ul>'
        yield "".join(f"<li>{escape(sentence)}.</li>" for sentence in sentences) + "</ul>"
    else:
        yield '<p class="good">The chains agree, and nothing is amiss with the sampling.</p>'
    if "noise" in tree.children:
        result = check(tree)
        tone = "bad" if not result.passed else "open" if result.untested else "good"
        words = "No sign of misfit was found" if result.passed else "The model does not fit the data"
        yield f'<p class="{tone}">{escape(result.caveat)}{words} (smallest adjusted p-value {result.p_value:.2g}).</p>'


def _verdict_of_fit(tree: xr.DataTree) -> Iterator[str]:
    """Write that this is an approximation, and how far it can be trusted."""
    verdict = tree.attrs["verdict"]
    words = {"good": "good", "rough": "rough", "sample": "not to be relied on: sample instead"}[verdict]
    tone = "good" if verdict == "good" else "bad"
    how = "an approximation (pf.fit), exact in the path" if has_integrated(tree) else "a Laplace approximation (pf.fit)"
    yield f'<p class="{tone}">This is {how}; it is {words}.</p>'
    yield "<ul>" + "".join(f"<li>{escape(sentence)}.</li>" for sentence in reasons_of(tree)) + "</ul>"


def _parameters(tree: xr.DataTree) -> Iterator[str]:
    names = kept_parameters(tree)
    table, note = shortened(summary(tree), MOST_ROWS)
    if table.empty:
        yield "<p>No parameter differs between the draws.</p>"
        return
    rows = [[str(label), *("" if x != x else f"{x:g}" for x in row)] for label, *row in table.itertuples()]
    yield _table(["", *map(str, table.columns)], rows)
    yield f'<p class="note">{escape(note)}.</p>' if note else ""
    yield from _prior(tree, [name for name in names if np.prod(tree.posterior[name].shape[2:]) <= MOST_ROWS])
    yield _picture(plot_marginals(tree))


def _prior(tree: xr.DataTree, names: list[str]) -> Iterator[str]:
    """Write which parameters rest on the prior, by ArviZ's power-scaling sensitivity; nothing without ArviZ."""
    try:
        from arviz import psense
    except ImportError:
        return
    if "log_prior" not in tree.children or tree.posterior["draw"].size * tree.posterior["chain"].size < FEW:
        return
    if obstacle := _without_tails(sum(values.values for values in tree.log_prior.data_vars.values())):
        yield f'<p class="note">What rests on the prior cannot be computed: {obstacle}.</p>'
        return
    found = psense(tree, var_names=names, group="prior")
    resting = [
        f"{label} ({float(value):.2g})"
        for name in names
        for label, value in zip(labels(tree.posterior[name]), np.ravel(found[name].values), strict=True)
        if value > SENSITIVE
    ]
    words = f"What is said of {', '.join(resting)} rests on the prior too" if resting else "Little rests on the prior"
    yield (f'<p class="note">{escape(words)} (power-scaling sensitivity, of which more than {SENSITIVE:g} counts).</p>')


def _without_tails(log_prior: Any) -> str:
    """Return why the log densities of the prior at the draws have no tails that a Pareto distribution fits, if so.

    ArviZ fits the M lowest and highest of n, which must not be all the same. With ESS <= n log10(n) effective draws in
    the tails, M = 3 n / sqrt(ESS), or n / 5 if ESS <= 225; so M >= min(n / 5, 3 sqrt(n / log10(n))).
    """
    if (lost := np.sum(~np.isfinite(log_prior))) > 0:
        return f"its density is not finite at {lost} draws"
    least = min(log_prior.size / 5, 3.0 * np.sqrt(log_prior.size / np.log10(log_prior.size)))
    same = max(int(np.isclose(log_prior, end).sum()) for end in (log_prior.min(), log_prior.max()))
    return f"{same} of {log_prior.size} draws have the same prior density" if same >= least else ""


def _paths(tree: xr.DataTree) -> Iterator[str]:
    if "state" not in tree.posterior:
        yield "<p>No states were kept.</p>"
        return
    shown = _thinned(tree)
    series = tree.constant_data["first_interval"].size
    components = len(component_names(tree.posterior))
    if series > MOST_SERIES or components > MOST_COMPONENTS:
        yield f'<p class="note">The first of {series} series and {components} components.</p>'
    chosen = list(range(MOST_COMPONENTS)) if components > MOST_COMPONENTS else None
    yield _picture(plot_paths(shown, chosen, series=list(range(min(series, MOST_SERIES)))))
    if "predictions" in tree.children:
        yield _picture(plot_predictions(tree))


def _thinned(tree: xr.DataTree) -> xr.DataTree:
    """Return the results with as many draws as bands need."""
    every = max(1, tree.posterior.sizes["draw"] * tree.posterior.sizes["chain"] // MOST_DRAWS)
    few = tree.copy()
    few["posterior"] = tree.posterior.to_dataset().isel(draw=slice(None, None, every))
    return few


def _check(tree: xr.DataTree) -> Iterator[str]:
    if "noise" not in tree.children:
        yield "<p>Not checked: the results hold no noise.</p>"
        return
    yield (
        '<p class="note">The noise of every draw is standard normal if the model is right, whatever the data: '
        "95 % of it lies between -2 and 2, and its quantiles on the diagonal.</p>"
    )
    result = check(tree)
    for sentence in (*result.worst, *result.not_checked):
        tone = "note" if sentence in result.not_checked else "bad"
        yield f'<p class="{tone}">{escape(sentence[0].upper() + sentence[1:])}.</p>'
    if channels(tree):
        yield _picture(plot_check(tree))


def _model(tree: xr.DataTree) -> Iterator[str]:
    """Write each part of the model as it was given, the priors together."""
    parts: dict[str, list[str]] = {}
    for name, text in json.loads(tree.attrs.get("model", "{}")).items():
        kind, _, parameter = name.partition("parameter ")
        words = f"{parameter}: {_dedented(text)}" if parameter else _dedented(text)
        parts.setdefault(kind or "parameters", []).append(words)
    for name, texts in parts.items():
        yield f'<p class="note">{escape(name)}</p><pre>{escape("\n".join(texts))}</pre>'


def _dedented(text: str) -> str:
    """Return the text of a lambda without the indentation that the lines after its first have from where it stood."""
    first, line, rest = text.partition("\n")
    return f"{first}{line}{dedent(rest)}" if first.startswith("lambda") else text


def _data(tree: xr.DataTree) -> Iterator[str]:
    y, times = tree.observed_data["y"].values, tree.observed_data["time"].values
    series = tree.constant_data["first_interval"].size
    few = f", of {series} series" if series > 1 else ""
    if "date" in tree.observed_data.coords:
        dates = tree.observed_data["date"].values
        first, last = told_date(dates.min()), told_date(dates.max())
    else:
        first, last = f"{times.min():g}", f"{times.max():g}"
    yield f"<p>{np.isfinite(y).sum()} values at {len(times)} times from {first} to {last}{few}.</p>"
    rows = []
    for k, name in enumerate(observation_names(tree)):
        column = y[:, k][np.isfinite(y[:, k])]
        numbers = (
            [f"{value:.4g}" for value in (column.min(), column.mean(), column.max())] if column.size else ["–"] * 3
        )
        rows.append([name, str(column.size), str(int(np.isnan(y[:, k]).sum())), *numbers])
    yield _table(["", "values", "missing", "least", "mean", "greatest"], rows)
    shows = np.atleast_1d(tree.observed_data["y"].attrs.get("shows", []))
    among_paths = "state" in tree.posterior and (
        np.sum(shows >= 0) == y.shape[1] or "posterior_predictive" in tree.children
    )
    if not among_paths:
        yield _picture(plot_data(tree, series=list(range(min(series, MOST_SERIES)))))


def _call(tree: xr.DataTree) -> Iterator[str]:
    """Write the call that gives the same draws, with the model and the data above."""
    names = ["seed"] if is_fit(tree) else ["chains", "warmup", "draws", "thin", "seed"]
    settings = {name: tree.attrs[name] for name in ["steps_per_interval", *names] if name in tree.attrs}
    notes = [f"pathfold {tree.attrs.get('pathfold_version')}; model and data as above"]
    if is_fit(tree):
        settings |= {} if tree.attrs.get("prior", 1) else {"prior": False}
    else:
        besides = f", integrate={tree.attrs['integrate']}" if "integrate" in tree.attrs else ""
        notes += [f"sampler: {tree.attrs.get('sampler')}{besides}"]
        notes += ["start: the results that it began from"] if tree.attrs.get("start", "none") != "none" else []
    comments = "".join(f"# {note}\n" for note in notes)
    given = "".join(f"    {name}={_told(value)},\n" for name, value in settings.items())
    verb = "fit" if is_fit(tree) else "sample"
    text = f"import pathfold as pf\n\n{comments}posterior = pf.{verb}(\n    model,\n    data,\n{given})\n"
    yield f"<pre>{escape(text)}</pre>"


def _settings(tree: xr.DataTree) -> Iterator[str]:
    hidden = {"model", "model_key", "labels", "priors", "inference_library", "created_at"}
    items = {str(name): value for name, value in tree.attrs.items() if name not in hidden}
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(_told(value))}</dd>" for name, value in items.items())
    yield f"<dl>{rows}</dl>"


def _told(value: Any) -> str:
    values = np.atleast_1d(value).tolist() if not isinstance(value, str) else [value]
    return ", ".join(f"{entry:.4g}" if isinstance(entry, float) else str(entry) for entry in values)


def _table(head: list[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


_numbers = count(1)


def _picture(figure: Figure) -> str:
    """Write a figure as SVG for the page: no background, text as text, its own names, the colours of the page."""
    import matplotlib as mpl

    for patch in (figure.patch, *(ax.patch for ax in figure.axes)):
        patch.set_alpha(0.0)
    text = StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>picture{next(_numbers)}-", svg)
    for colour, name in INKS.items():
        svg = svg.replace(f": {colour}", f": var(--{name})")
    return f'<div class="picture">{svg}</div>'
