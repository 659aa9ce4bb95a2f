"""The documentation site: `make docs` builds it in build/docs.

No network: what other projects document is named, not linked.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from docutils.nodes import Text, TextElement, document, entry, reference, row, table
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

import halfulp

HERE = Path(__file__).parent

project = "halfulp"
author = "the authors of halfulp"
version = release = halfulp.__version__
copyright = f"{author}, Apache-2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",  # for the role autolink
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]

myst_heading_anchors = 3

default_role = "autolink"  # a link if the name is public, else emphasis
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
add_module_names = False
python_use_unqualified_type_names = True

nitpicky = True
nitpick_ignore_regex = [
    # Words of numpydoc that name no class, values, and names of other projects.
    (
        "py:class",
        r"array|array_like|bytes-like|mapping|sequence|iterable|optional|dtype"
        r"|scalar|inf",
    ),
    ("py:class", "Markdown"),
    ("py:class", r".*[ ;{}\"'0-9].*"),
    (
        "py:class",
        r"(numpy|onnx|onnxruntime|fractions|ml_dtypes|os|dask|duckdb|pyarrow|pathlib|typing)\..*",
    ),
    ("py:(exc|obj)", r"numpy\..*"),
]

html_theme = "furo"
html_title = "halfulp"
html_static_path = ["_static"]
html_css_files = ["colours.css", "site.css"]
html_copy_source = False
html_show_sphinx = False


sys.path.insert(0, str(HERE))
pages = importlib.import_module("pages")
pages.write()
# Or else a folder of pages would be a package, to which words of docstrings link.
sys.path.remove(str(HERE))


def _find_by_last_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: TextElement
) -> reference | None:
    """Resolve a name that a docstring gives without its module, if it is unique."""
    if node.get("refdomain") != "py":
        return None
    domain = env.domains.python_domain
    last = node["reftarget"].rpartition(".")[2]
    found = [name for name in domain.objects if name.rpartition(".")[2] == last]
    if len(found) != 1:
        return None
    entry = domain.objects[found[0]]
    return make_refnode(
        app.builder, node["refdoc"], entry.docname, entry.node_id, content, found[0]
    )


def _mark_tables(app: Sphinx, tree: document) -> None:
    """Give tables classes, matrices of verdicts those of `halfulp verify --html`."""
    if app.env.docname == "what-others-give":
        for answers in tree.findall(table):
            answers["classes"].append("answers")
    if app.env.docname != "conformance":
        return
    for matrix in tree.findall(table):
        head, *rows = ([*line.findall(entry)] for line in matrix.findall(row))
        if [cell.astext() for cell in head[:2]] != ["class", "bfloat16"]:
            continue
        matrix["classes"].append("heat")
        for line in rows:
            for cell in line[1:]:
                cell["classes"] += pages.verdict_classes(cell.astext())


def _leave_words(app: Sphinx, tree: document) -> None:
    """Keep words of numpydoc from being links to attributes of that name."""
    for link in [*tree.findall(pending_xref)]:
        if link["reftype"] == "class" and link["reftarget"] == "dtype":
            link.replace_self(Text("dtype"))


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", _leave_words)
    app.connect("doctree-read", _mark_tables)
    app.connect("missing-reference", _find_by_last_name)
