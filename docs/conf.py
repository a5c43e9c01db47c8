"""Configuration of the documentation site, which `make docs` builds.

The source folder is the root of the repository, so that relative links between README.md, docs/ and
results/published/ are the same on the site and on a code host.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

import idwbench

project, author = "idwbench", "the idwbench authors"
copyright = "the idwbench authors, MIT licence"
version = release = idwbench.__version__
html_title = f"idwbench {version}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "docs/**.rst", "results/published/**.md"]
exclude_patterns = [".*", "benchmarks", "build", "dist", "examples", "idwbench", "idwbench.egg-info", "tests"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
html_theme = "furo"
html_static_path, html_css_files = ["_static"], ["figures.css"]
html_show_sourcelink = False
html_copy_source = False

myst_heading_anchors = 4  # the anchors of a code host
nitpicky = True
# Types in signatures are those of other libraries, whose inventories are not at hand, or of internal modules.
nitpick_ignore_regex = [("py:(class|data|obj)", ".*")]
napoleon_google_docstring, napoleon_numpy_docstring = True, False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("ArrayLike", "NDArray")}
autodoc_preserve_defaults = True
default_role = "code"  # `x` in a docstring
python_maximum_signature_line_length = 100
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "write_computation_times": False,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
}

linkcheck_anchors = False
linkcheck_timeout = 20


def add_title(app: Any, docname: str, source: list[str]) -> None:
    """Give a published table a title; its file begins with a heading of the third level, or with none."""
    if docname.startswith("results/published/") and not source[0].startswith("# "):
        title = docname.rpartition("/")[2].replace("_", " ").capitalize()
        source[0] = f"# {title}\n\n" + re.sub(r"^### ", "## ", source[0], flags=re.MULTILINE)


def add_entrance(app: Any, exception: Exception | None) -> None:
    """Write the page at the root of the site, which leads to the first page."""
    if exception is None and app.builder.name == "html":
        target = f"{root_doc}.html"
        page = f'<!doctype html><title>{project}</title><meta http-equiv="refresh" content="0; url={target}">'
        Path(app.outdir, "index.html").write_text(f'{page}<a href="{target}">{project}</a>\n', encoding="utf-8")


def is_left_out(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the methods that scikit-learn gives all estimators, whose text refers to its pages."""
    of_scikit_learn = name in ("get_metadata_routing", "set_output") or name.endswith("_request")
    return True if of_scikit_learn else None


def setup(app: Any) -> None:
    """Connect the functions above, and show CSV blocks as text."""
    app.connect("source-read", add_title)
    app.connect("build-finished", add_entrance)
    app.connect("autodoc-skip-member", is_left_out)
    app.add_lexer("csv", TextLexer)
