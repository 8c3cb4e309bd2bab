"""The site: pages in Markdown (MyST), the reference from docstrings.

`make docs` builds it.
"""

import re
from importlib import metadata

from sphinx.application import Sphinx

project = "pathfold"
author = copyright = "pathfold developers"
release = metadata.version("pathfold")

extensions = [
    "myst_parser",
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
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_theme_options = {
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
html_sidebars = {page: [] for page in ("index", "start", "examples")}


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", _link_public_names)
    app.connect("autodoc-process-signature", _hide_private_arguments)


def _link_public_names(app, what, name, obj, options, lines) -> None:
    """`pf.NAME`, or a call of it, becomes a link to its description."""
    public = r"`(pf\.((?:datasets\.)?\w+)[^`]*)`"
    link = r":py:obj:`\1 <pathfold.\2>`"
    lines[:] = [re.sub(public, link, line) for line in lines]


def _hide_private_arguments(app, what, name, obj, options, signature, returned):
    private = r", (\*\*_\w+|_\w+=[^,)]*)"
    return signature and re.sub(private, "", signature), returned
