"""The site's configuration. Every fact about the project comes from settings.ini."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

from nbdev_myst import SETTINGS

project = html_title = SETTINGS["title"]
author = SETTINGS["author"]
copyright = SETTINGS["copyright"]
version = release = SETTINGS["version"]
html_baseurl = f"{SETTINGS['doc_host']}{SETTINGS['doc_baseurl']}/"

extensions = [
    "myst_nb",
    "sphinx_external_toc",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "nbdev_myst",
    "course_math",
    "course_glossary",
    "course_figures",
    "course_ladder",
    "course_search",
    "course_slides",
    "course_look",
    "check_here",
    "site_downloads",
    "page_weight",
    "page_policy",
]
external_toc_path = str(HERE / "_toc.yml")
exclude_patterns = ["**.ipynb_checkpoints", "_*", "**README.md"]
suppress_warnings = ["etoc.glob"]  # a part of the table of contents may still be empty

# Notebooks: shown with the outputs they are committed with, never run by the build.
nb_custom_formats = {".ipynb": ["nbdev_myst.read", {}, False]}
nb_execution_mode = "off"
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "text/html", 1)]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "attrs_inline", "attrs_block"]
myst_heading_anchors = 3

# Formulas are set as MathML when the site is built.
html_math_renderer = "course"

# Reference: what `__all__` names, in source order.
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "member-order": "bysource",
    "no-value": True,
}
autodoc_typehints = "none"  # they stand beside the parameters, from docments
autodoc_preserve_defaults = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "basic"  # its templates; the layout, the style and the scripts are this project's own
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["base.css", "course.css"]
html_js_files = [("course.js", {"defer": "defer"})]
html_favicon = "_static/favicon.svg"
html_domain_indices = False  # the API pages are the index of modules
html_permalinks_icon = "#"
html_sourcelink_suffix = ""  # a notebook is downloaded by its own name
html_context = {"repository": SETTINGS["git_url"]}
