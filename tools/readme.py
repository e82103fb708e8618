"""The README as a code host shows it: ``python -m tools.readme [FILE]``, into ``build/readme.html``.

A code host renders reST with docutils alone: no raw HTML, no files from elsewhere, no Sphinx. Its page is a
column of limited width in the system's fonts, so a README that reads well here reads well there. Relative
links and pictures are those of the repository.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from docutils.core import publish_parts

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "build" / "readme.html"
SETTINGS: Final = {
    "raw_enabled": False,
    "file_insertion_enabled": False,
    "report_level": 2,
    "halt_level": 2,
    "syntax_highlight": "none",
    "embed_stylesheet": False,
    "stylesheet_path": "",
    "initial_header_level": 2,
    "doctitle_xform": True,
}
"""Docutils' own; a warning is an error here, since a host shows it on the page, or nothing at all."""
_STYLE: Final = """
body { margin: 0 auto; max-width: 830px; padding: 32px 16px; color: #1f2328; background: #fff;
  font: 16px/1.5 -apple-system, BlinkMacSystemFont, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
h1, h2, h3 { margin: 24px 0 16px; line-height: 1.25 }
h1 { font-size: 2em } h2 { font-size: 1.5em }
h1, h2 { padding-bottom: .3em; border-bottom: 1px solid #d1d9e0b3 }
p, ul, ol, dl, table, pre { margin: 0 0 16px }
ul, ol { padding-left: 2em } li p { margin: 0 }
dt { font-weight: 600 } dd { margin: 0 0 16px 1em }
a { color: #0969da; text-decoration: none }
code, pre, .literal { font: 85% ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace }
code, .literal { padding: .2em .4em; background: #818b981f; border-radius: 6px }
pre { padding: 16px; overflow: auto; background: #f6f8fa; border-radius: 6px; line-height: 1.45 }
pre code { padding: 0; background: none; font-size: 100% }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%; overflow: auto }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0 } th { font-weight: 600 }
td p, th p { margin: 0 }
tbody tr:nth-child(2n) { background: #f6f8fa }
img { max-width: 100%; height: auto } img.align-center { display: block; margin: 0 auto }
"""


def html(text: str, base: str = "") -> str:
    """Return the page of a reST text.

    :param base: the address that its relative links are meant from.
    :raises docutils.utils.SystemMessage: docutils warns about the text.
    """
    parts = publish_parts(text, writer="html5", settings_overrides=SETTINGS)
    title = parts["title"]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return (
        f'<!DOCTYPE html><html lang="en"><head>{head}<base href="{base}"><style>{_STYLE}</style></head>'
        f"<body>{parts['html_body']}</body></html>\n"
    )


def main() -> int:
    """Write the page, and say where."""
    parser = argparse.ArgumentParser(prog="tools.readme", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, default=ROOT / "README.rst")
    file = parser.parse_args().file
    PAGE.parent.mkdir(exist_ok=True)
    base = f"{os.path.relpath(file.resolve().parent, PAGE.parent)}/"
    PAGE.write_text(html(file.read_text(encoding="utf-8"), base), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
