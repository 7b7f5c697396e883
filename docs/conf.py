"""The documentation site: how Sphinx builds it (``make docs``).

The pages are the Markdown files of this folder, readable without Sphinx too. Notebooks
(docs/tutorials) are Markdown with code cells that the build runs. Pages of the reference
are written from docstrings and from the command line itself. Nothing is fetched, while
building or while reading: no fonts, no scripts from elsewhere, formulas in Unicode.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_site"))

# Notebooks print as wide as the text is, without the colours of a terminal.
os.environ.update(COLUMNS="88", NO_COLOR="1", PYDEVD_DISABLE_FILE_VALIDATION="1")

project = "smoothcruiser"
author = "the authors of smoothcruiser"
copyright = author
html_title = "smoothcruiser"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

extensions = ["myst_nb", "sphinx.ext.autodoc", "docstrings", "written"]
exclude_patterns = ["_build", "_site", "_static", "evidence/reproduce/README.md"]

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_in_temp = True
nb_execution_timeout = 600  # a cell; a loaded machine compiles slowly
nb_execution_show_tb = True
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "undoc-members": False}
nitpicky = True
smartquotes = False  # --option stays as it is typed
# objects of ours that are not public, as types of attributes
nitpick_ignore_regex = [("py:.*", r"smoothcruiser\..*")]
