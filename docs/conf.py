"""Sphinx's settings for the site, which ``make site`` builds from the pages here and in the folder above."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import mgw  # noqa: E402  # the sources' own, not one that is installed

project = "mgw"
author = "the mgw authors"
version = release = mgw.__version__
extensions = ["tools.site", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["*.rst", "docs/*.rst", "docs/man/*.rst"]
highlight_language = "none"
pygments_style = "default"
pygments_dark_style = "github-dark"
smartquotes = False

html_theme = "furo"
html_title = f"mgw {version}"
html_favicon = "../mgw/dashboard/static/icon.svg"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["site.css"]
html_css_files = ["site.css"]

# A session in a shell: the button copies what is typed, without the prompts, and not what is printed.
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
copybutton_copy_empty_lines = False
