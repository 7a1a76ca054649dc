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
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "nbdev_myst",
    "course_glossary",
    "course_figures",
    "course_search",
    "course_slides",
]
external_toc_path = str(HERE / "_toc.yml")
exclude_patterns = ["**.ipynb_checkpoints", "_*"]
suppress_warnings = ["etoc.glob"]  # a part of the table of contents may still be empty

# Notebooks: shown with the outputs they are committed with, never run by the build.
nb_custom_formats = {".ipynb": ["nbdev_myst.read", {}, False]}
nb_execution_mode = "off"
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "text/html", 1)]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "attrs_inline", "attrs_block"]
myst_heading_anchors = 3

# Math: MathJax 3, from this site.
myst_update_mathjax = False
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {
    "tex": {"inlineMath": [["\\(", "\\)"]], "displayMath": [["\\[", "\\]"]]},
    "options": {
        "processHtmlClass": "math|tex2jax_process|mathjax_process",
        "ignoreHtmlClass": "tex2jax_ignore|mathjax_ignore|document",
    },
}

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

html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["course.css"]
html_js_files = [("course.js", {"defer": "defer"})]
html_favicon = "_static/favicon.svg"
html_domain_indices = False  # the API pages are the index of modules
html_context = {"default_mode": "auto"}
html_theme_options = {
    "repository_url": SETTINGS["git_url"],
    "repository_branch": SETTINGS["branch"],
    "path_to_docs": SETTINGS["nbs_path"],
    "home_page_in_toc": True,
    "use_repository_button": True,
    "use_download_button": True,
    "navbar_persistent": [],
    "article_header_start": ["toggle-primary-sidebar.html", "lesson-turn.html"],
    "launch_buttons": {
        "colab_url": "https://colab.research.google.com",
        "notebook_interface": "jupyterlab",
    },
}
