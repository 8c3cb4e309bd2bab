"""Writes the gallery of the example models: a page and a picture of each, and their cards on the page of examples.

    python scripts/gallery.py [--text] [NAME ...]

runs the examples and draws; without names, all of them. Pages have the text and the code of the example's file, with
what they import taken from `pathfold` itself, and its equations typeset; what a run gave is the table of parameters and
the picture. With --text nothing runs, and tables and pictures stay as they are.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import xarray as xr

import pathfold as pf
from pathfold.example_models import EXAMPLES, Example
from pathfold.results.convergence import by_label, scalars
from scripts.formulas import typeset

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "gallery"
CARDS = DOCS / "examples.md"
WIDTH = 80  # columns of code
DRAWS = 300  # of each of four chains
ROWS, SERIES = 3, 4  # of a picture, at most
COLOURS = 48
EQUATIONS = re.compile(r"^(?: {4}.+\n)+", re.MULTILINE)
BEGIN, END = "<!-- begin {} -->\n", "<!-- end {} -->\n"

FIELDS = {
    "biology": "autoregulation toggle_switch repressilator tumour_growth redstart hare_lynx lotka_volterra",
    "medicine": "pharmacokinetics doses glucose seir sir tumour_growth",
    "neuroscience": "fitzhugh_nagumo spike_counts jansen_rit learning",
    "finance": "cox_ingersoll_ross heston interest_rate",
    "physics": "double_well integrated_ornstein_uhlenbeck optical_trap heat_rod kuramoto van_der_pol "
    "ornstein_uhlenbeck",
    "earth": "lorenz63 lorenz96 nile building",
    "oscillators": "fitzhugh_nagumo van_der_pol repressilator kuramoto jansen_rit optical_trap hare_lynx "
    "lotka_volterra",
    "chaos": "lorenz63 lorenz96",
}


def source(example: Example) -> str:
    return inspect.getsource(sys.modules[example.model.__module__])


def tags(example: Example) -> list[str]:
    """Return the words that an example is found by: its field, and what its model and data have."""
    text = source(example)
    has = {
        "real data": example.truth is None or "datasets." in text,
        "exact data": "Noiseless(" in text and example.model.__name__ == "noiseless",
        "counts": bool(re.search(r"dist\.(Poisson|NegativeBinomial2|Bernoulli|Binomial)", text)),
        "panels": bool(re.search(r"^def data\(.*\) -> (list|dict)\[", text, re.MULTILINE)),
        "reactions": "Reactions(" in text,
        "inputs": "Input(" in text,
    }
    fields = [field for field, names in FIELDS.items() if example.name in names.split()]
    return [*fields, *(tag for tag, there in has.items() if there)]


def code(example: Example) -> str:
    """Return the code of an example as a program of its own, which ends by sampling."""
    lines = source(example).splitlines(keepends=True)
    tree = ast.parse("".join(lines))
    public: list[str] = []
    parts: list[str] = []
    for node in tree.body[1:]:
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "pathfold":
            names = [alias.name for alias in node.names if alias.name != "Example"]
            public += [name for name in names if name in pf.__all__]
            others = ", ".join(name for name in names if name not in pf.__all__)
            parts.append(f"from {node.module} import {others}\n" if others else "")
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXAMPLE":
            given = {each.arg: ast.unparse(each.value) for each in getattr(node.value, "keywords", [])}
            data = given["data"].removeprefix("lambda: ") if "lambda" in given["data"] else "data()"
            steps = f"steps_per_interval={example.steps_per_interval}"
            parts.append(f"\n\nposterior = sample({given['model']}(), {data}, {steps})\n")
        else:
            decorated = getattr(node, "decorator_list", [])
            begin = min([node.lineno, *(each.lineno for each in decorated)]) - 1
            while begin and lines[begin - 1].startswith("#"):
                begin -= 1
            parts.append("".join(lines[begin : node.end_lineno]))
    imports = f"from pathfold import {', '.join(sorted([*public, 'sample']))}\n"
    ruff = [sys.executable, "-m", "ruff"]
    program = imports + "".join(parts)
    for step in (["check", "--select=I,F401", "--fix"], ["format"]):
        command = [*ruff, *step, "--isolated", "--quiet", f"--line-length={WIDTH}", "-"]
        program = subprocess.run(command, input=program, capture_output=True, text=True, check=True).stdout
    return program


def page(example: Example, table: str) -> str:
    """Return the page of an example, with the table that a run gave."""
    text = inspect.getdoc(sys.modules[example.model.__module__]) or ""
    heading, _, rest = EQUATIONS.sub(lambda block: typeset(block[0]), text).partition("\n\n")
    data = "The data are real." if "real data" in tags(example) else "The data are simulated."
    return "\n".join(
        [
            f"# {example.name}\n",
            f"{heading}\n",
            f"{rest.strip()}\n",
            f"*Reference*: {example.reference}. {data} *Tags*: {', '.join(tags(example))}.\n",
            f"![Posterior of {example.name}: bands of paths over time, and data](figures/{example.name}.png)\n",
            "Bands hold 50 and 95 % of the posterior, of what was observed or of data replicated from it. Times and "
            "units are\nthose of the text above.\n",
            "## Parameters\n",
            f"{BEGIN.format('table')}{table}{END.format('table')}",
            "## Code\n",
            f"```python\n{code(example)}```\n",
            f"`pathfold examples {example.name}` runs the same. [All examples](../examples.md).\n",
        ]
    )


def table_of(posterior: xr.DataTree, example: Example) -> str:
    """Return the parameters in Markdown: mean, standard deviation, and 90 % of the posterior beside the truth."""
    names = [name for name in example.model().priors if name in posterior.posterior]
    true = by_label(posterior, {name: value for name, value in (example.truth or {}).items() if name in names})
    rows = []
    for name in names:
        for label, x in scalars(posterior.posterior[name]):
            low, high = np.quantile(x, [0.05, 0.95])
            numbers = [f"{value:.3g}" for value in (x.mean(), x.std(), low, high)]
            rows.append([f"`{label}`", *numbers, *([f"{true[label]:.3g}" if label in true else ""] if true else [])])
    head = ["", "mean", "sd", "5 %", "95 %", *(["truth"] if true else [])]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def draw(posterior: xr.DataTree, example: Example, file: Path) -> None:
    """Draw what was observed, and as many other components as fit."""
    from PIL import Image

    model = example.model()
    replicated = pf.posterior_predictive(model, posterior)
    components, columns = posterior.posterior["component"].size, posterior.observed_data["observation"].size
    hidden = [components + k for k in range(columns - len(set(example.observed.values())))]
    others = [k for k in [*example.observed, *range(components)] if k not in example.observed]
    rows = sorted([*example.observed, *hidden, *others][:ROWS])
    series = min(SERIES, posterior.constant_data["first_interval"].size)
    figure = pf.plot_paths(replicated, rows, series=range(series), observed=example.observed, natural=example.natural)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.open(buffer).convert("RGB").quantize(COLOURS).save(file, optimize=True)


def cards() -> str:
    """Return the filters and cards of the page of examples."""
    found = {name: tags(example) for name, example in EXAMPLES.items()}
    every = sorted({tag for each in found.values() for tag in each})
    css = {tag: tag.replace(" ", "-") for tag in every}
    buttons = "".join(
        f'<label><input type="radio" name="tag" id="show-{css[tag]}"><span>{tag}</span></label>\n' for tag in every
    )
    rules = "".join(
        f"body:has(#show-{each}:checked) .gallery > .sd-col:not(.is-{each}) {{ display: none; }}\n"
        for each in css.values()
    )
    parts = [
        "```{raw} html\n"
        f'<style>\n{rules}</style>\n<div class="filters">\n'
        f'<label><input type="radio" name="tag" id="show-all" checked><span>all</span></label>\n{buttons}</div>\n```\n',
        "::::{grid} 1 2 3 3\n:gutter: 2\n:class-row: gallery\n",
    ]
    for name, example in EXAMPLES.items():
        classes = " ".join(f"is-{css[tag]}" for tag in found[name])
        parts.append(
            f":::{{grid-item-card}} {name}\n:link: gallery/{name}\n:link-type: doc\n:class-item: {classes}\n"
            f":img-bottom: gallery/figures/{name}.png\n\n{example.summary}\n:::\n"
        )
    toctree = "\n".join(f"gallery/{name}" for name in EXAMPLES)
    parts.append(f"::::\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n")
    return "\n".join(parts)


def between(text: str, name: str) -> str:
    return text.partition(BEGIN.format(name))[2].partition(END.format(name))[0]


def run(example: Example) -> xr.DataTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pf.sample(
            example.model(),
            example.data(),
            steps_per_interval=example.steps_per_interval,
            draws=DRAWS,
            seed=1,
            progress=False,
        )


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--text"]
    for name in names or EXAMPLES:
        example, begin, file = EXAMPLES[name], time.perf_counter(), FOLDER / f"{name}.md"
        if "--text" in sys.argv:
            file.write_text(page(example, between(file.read_text(), "table")))
            continue
        posterior = run(example)
        draw(posterior, example, FOLDER / "figures" / f"{name}.png")
        file.write_text(page(example, table_of(posterior, example)))
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    before, _, rest = CARDS.read_text().partition(BEGIN.format("gallery"))
    _, _, after = rest.partition(END.format("gallery"))
    CARDS.write_text(f"{before}{BEGIN.format('gallery')}{cards()}{END.format('gallery')}{after}")


if __name__ == "__main__":
    main()
