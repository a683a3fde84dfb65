"""The documentation site: `make docs`."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import npvi  # noqa: E402

os.environ.setdefault("MPLBACKEND", "Agg")

# -- what it is -------------------------------------------------------------------------------------------------------

project = "npvi"
author = "The npvi developers"
copyright = author
version = release = npvi.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "api_pages",
    "commands",
    "docstrings",
    "mathml",
    "offline",
    "pages_outside",
]
exclude_patterns = ["_ext", "_static", "_templates"]
default_role = "py:obj"
toc_object_entries_show_parents = "hide"
templates_path = ["_templates"]

# -- pages in Markdown ------------------------------------------------------------------------------------------------

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# -- the interface, from docstrings -----------------------------------------------------------------------------------

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False  # the template lists them, inherited ones too
numpydoc_xref_param_type = False

# -- the gallery ------------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "thumbnail_size": (640, 340),
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 0,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# pictures of the pages, drawn when they are built
plot_formats = [("png", 110)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = False

# -- how it looks -----------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_context = {"default_mode": "auto"}
html_sidebars = {page: [] for page in ("start", "results", "search", "genindex")}  # that have no pages below them
html_title = "npvi"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
