"""The site: pages in Markdown (MyST), tutorials that are notebooks, and the
reference from docstrings.

`make docs` builds it. It runs the notebooks if their code, or pathfold's, has
changed since the last time.
"""

import os
import re
import shutil
import subprocess
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
SOURCES = sorted((HERE.parent / "src").rglob("*.py"))

project = "pathfold"
author = copyright = "pathfold developers"
release = metadata.version("pathfold")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",  # formulas need no network
]
exclude_patterns = ["_build"]
default_role = "code"  # a name in single backticks, as docstrings have it

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_fence_as_directive = ["math"]  # as forges render it
myst_heading_anchors = 3

nb_execution_in_temp = True  # what a page writes does not stay
nb_execution_mode = "cache"
nb_execution_cache_path = str(
    HERE
    / "_build"
    / "runs"
    / sha256(b"".join(file.read_bytes() for file in SOURCES)).hexdigest()
)
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds, of a cell
nb_merge_streams = True
# Bars of progress would need widgets.
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # what to pass is said in words
napoleon_attr_annotations = False
napoleon_google_docstring = False
napoleon_use_rtype = False

nitpicky = True
# The pages of other packages are not looked up.
nitpick_ignore_regex = [("py:.*", r"(?!pathfold).*")]

html_theme = "pydata_sphinx_theme"
html_title = "pathfold"
html_show_sourcelink = False
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_theme_options = {
    "article_header_end": ["notebook"],
    "navbar_end": ["version", "theme-switcher"],
    "header_links_before_dropdown": 6,
    "logo": {
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
        "text": "pathfold",
    },
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "show_toc_level": 2,
}
# Where the site is published with other versions of it: the address of their
# list, as the theme's switcher reads it.
if versions := os.environ.get("PATHFOLD_VERSIONS"):
    html_theme_options["switcher"] = {
        "json_url": versions,
        "version_match": release,
    }
    html_theme_options["navbar_end"][0] = "version-switcher"
# In a clone of a repository on GitHub, pages lead to where they are edited,
# which for those that show another file is that file.
told = shutil.which("git") and subprocess.run(
    ["git", "remote", "get-url", "origin"],
    cwd=HERE,
    capture_output=True,
    text=True,
    check=False,
)
origin = told.stdout.strip() if told else ""
if found := re.search(r"github\.com[:/]([^/]+)/([^/]+?)(?:\.git)?$", origin):
    html_theme_options["use_edit_page_button"] = True
    html_theme_options["secondary_sidebar_items"].append("edit-this-page")
    html_context = {
        "edit_page_provider_name": "GitHub",
        "edit_page_url_template": f"https://github.com/{found[1]}/{found[2]}"
        "/edit/main/{{ shown.get(pagename, 'docs/' ~ file_name) }}",
        "shown": {
            "index": "README.md",
            "changelog": "CHANGELOG.md",
            "contributing": "CONTRIBUTING.md",
        }
        | {
            f"gallery/{name}": f"src/pathfold/example_models/{name}.py"
            for name in [file.stem for file in (HERE / "gallery").glob("*.md")]
        },
    }
html_sidebars = {page: [] for page in ("index", "start", "examples")}


class Thumbnail(SphinxDirective):
    """The first picture of another page: `{thumbnail} tutorials/neuron`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(self.env.doc2path(self.arguments[0]))
        return [nodes.container(thumbnail_of=self.arguments[0])]


def setup(app: Sphinx) -> None:
    app.add_directive("thumbnail", Thumbnail)
    app.connect("doctree-resolved", _find_thumbnails)
    app.connect("autodoc-process-docstring", _link_public_names)
    app.connect("autodoc-process-signature", _hide_private_arguments)
    app.connect("html-page-context", _offer_notebook)


def _link_public_names(app, what, name, obj, options, lines) -> None:
    """`pf.NAME`, or a call of it, becomes a link to its description."""
    public = r"`(pf\.((?:datasets\.)?\w+)[^`]*)`"
    link = r":py:obj:`\1 <pathfold.\2>`"
    lines[:] = [re.sub(public, link, line) for line in lines]


def _hide_private_arguments(app, what, name, obj, options, signature, returned):
    private = r", (\*\*_\w+|_\w+=[^,)]*)"
    return signature and re.sub(private, "", signature), returned


def _find_thumbnails(app, doctree, page) -> None:
    for place in list(doctree.findall(nodes.container)):
        if "thumbnail_of" in place:
            picture = next(
                app.env.get_doctree(place["thumbnail_of"]).findall(nodes.image)
            ).deepcopy()
            picture["classes"].append("thumbnail")
            place.replace_self(picture)


def _offer_notebook(app, page, template, context, doctree) -> None:
    """Put the notebook of a page beside it, for readers to download."""
    notebook = Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"
    if notebook.exists():
        beside = Path(app.outdir) / f"{page}.ipynb"
        beside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(notebook, beside)
        context["notebook"] = notebook.name
