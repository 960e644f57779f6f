"""The configuration of the documentation site, which `make docs` builds."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs._site import api_pages, foreign_names  # noqa: E402  # the path is set above

project = "daf-query"
author = "the maintainers of daf-query"
version = release = version_of("daf-query")
html_title = f"daf-query {version}"
copyright = author  # noqa: A001  # Sphinx's name

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "docs._site.diagrams",
    "docs._site.docstrings",
    "docs._site.references",
    "docs._site.pages",
    "docs._site.signatures",
]
exclude_patterns = ["README.md", "_site", "_static", "**/.ipynb_checkpoints"]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext", ".ipynb": "myst-nb"}
api_pages.write(ROOT / "docs" / "reference" / "api")

# Pages are plain Markdown, which is also read where the repository is.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # but for notebooks that ask for it, whose errors are errors here
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}

# Inventories of other projects are made here, of the names that are used: a build needs no network.
intersphinx_mapping = foreign_names.mapping(ROOT / "build" / "inventories")
intersphinx_disabled_reftypes = ["*"]

autodoc_member_order = "alphabetical"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [
    # Modules and names with an underscore are no part of the interface.
    ("py:.*", r"(.*\.)?_\w+(\..*)?"),
]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars = {"index": []}
