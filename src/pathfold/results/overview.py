"""Results that print as a verdict and a table."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

import pandas as pd
import xarray as xr

from pathfold.errors import SettingsError
from pathfold.results.diagnostics import troubles
from pathfold.results.in_order import results_of
from pathfold.results.prior import kept_parameters
from pathfold.results.reading import has_integrated, is_fit, reasons_of
from pathfold.results.summary import shortened, summary, written

SENTENCES, ROWS = 3, 15  # that are printed


class Results(xr.DataTree):
    """An xarray.DataTree that prints as a verdict and a table of estimates; its groups as xarray prints them."""

    __slots__ = ()

    def __repr__(self) -> str:
        found = _overview(self)
        if found is None:
            return super().__repr__()
        table = written(found.table) if len(found.table) else ""
        return "\n".join(filter(None, [found.head, *found.sentences, table, found.note, found.groups]))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        found = _overview(self)
        if found is None:
            return super()._repr_html_()
        text = "".join(f"<p>{escape(line)}</p>" for line in (found.head, *found.sentences))
        table = found.table.to_html(float_format="{:g}".format, na_rep="", border=0)
        groups = f"<details><summary>{escape(found.groups)}</summary>{super()._repr_html_()}</details>"
        return f"{text}{table}<p>{escape(found.note)}</p>{groups}"


class Overview(NamedTuple):
    """The parts of what is printed."""

    head: str
    sentences: list[str]
    table: pd.DataFrame
    note: str
    groups: str


def _overview(tree: xr.DataTree) -> Overview | None:
    """Return what is printed of results; None for a group of them, and for what can no longer be read as results."""
    if tree.parent is not None or not (is_fit(tree) or "posterior" in tree.children):
        return None
    try:
        table, note = shortened(summary(tree), ROWS)
        head, sentences = _verdict(tree)
    except (SettingsError, KeyError):
        return None
    if len(sentences) > SENTENCES:
        sentences = [*sentences[: SENTENCES - 1], f"and {len(sentences) - SENTENCES + 1} more"]
    return Overview(head, [f"- {each}" for each in sentences], table, note, f"groups: {', '.join(tree.children)}")


def _verdict(tree: xr.DataTree) -> tuple[str, list[str]]:
    """Return what made the results, and sentences on how far they can be trusted."""
    integrated = ", paths integrated out" if has_integrated(tree) else ""
    if is_fit(tree):
        what = "posterior" if "posterior" in tree.children else "likelihood"
        how = "Approximation" if integrated else "Laplace approximation"
        head = f"{how} of the {what} by pf.fit{integrated}, with verdict {tree.attrs['verdict']!r}"
        return head, [*troubles(tree, [])] or reasons_of(tree)
    sizes = results_of(tree, "sample_stats").posterior.sizes
    head = f"{sizes['chain']} chains of {sizes['draw']:,} draws by pf.sample with {tree.attrs['sampler']}{integrated}"
    fine = "the chains agree, and nothing is amiss with the sampling"
    return head, [*troubles(tree, kept_parameters(tree))] or [fine]


def extended(tree: xr.DataTree, groups: Mapping[str, xr.Dataset]) -> xr.DataTree:
    """Return the results with these groups added or replaced; arrays are shared, not copied."""
    kept = {str(name): child.to_dataset() for name, child in tree.children.items()}
    longer = Results.from_dict({f"/{name}": group for name, group in (kept | dict(groups)).items()})
    longer.attrs = dict(tree.attrs)
    return longer
