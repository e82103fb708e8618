"""What Sphinx has to know of the pages, which are written to be read as plain reST too (``docs/conf.py``).

Pages link one another as ``name.rst <name.rst>``, which leads to the file where a forge or an editor shows
them.  Here such a link leads to the page and has its title, and a link to a page that is not there is a
warning.  What the index links, section by section and in its words, is what the site lists beside every page:
there is no second list.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx.addnodes import toctree
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.logging import getLogger

_LOGGER: Final = getLogger(__name__)
_ENTRY: Final = '<!DOCTYPE html><title>mgw</title><meta http-equiv="refresh" content="0; url={address}">\n'
_NAME: Final = re.compile(r'(?<=<span class="pre">)[^<]{12,}(?=</span>)')
_JOINT: Final = re.compile(r"(?<=[\w\]}])([._/|,:=\[](?=[\w{])|-(?=[a-z]))")
_MANY: Final = 10
"""Columns; a table with more has its headings upright."""
_LAST: Final = 900
"""Behind the theme."""
_HERE: Final = 210
"""Before the transform that reads what the lists of pages refer to, behind the one that finds targets."""


def page_of(link: str, page: str) -> str | None:
    """Return the name of the page that a link of another page leads to; None if it leads elsewhere.

    >>> page_of("../README.rst", "docs/index")
    'README'
    """
    if ":" in link or not link.partition("#")[0].endswith(".rst"):
        return None
    name = link.partition("#")[0].removesuffix(".rst")
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), name))


class ListOfPages(SphinxTransform):
    """Make each section of the index a list of the pages that it links."""

    default_priority = _HERE

    def apply(self, **_: Any) -> None:  # Any: as docutils declares it
        """Add the lists, which show beside the pages and not in the index itself."""
        if self.env.docname != self.config.root_doc:
            return
        for section in self.document.findall(nodes.section):
            if isinstance(section.parent, nodes.section):
                pages = _pages_in(section, self.env.docname)
                for entries in section.findall(nodes.definition_list):
                    entries["classes"].append("pages")  # site.css sets them in two columns
                section.append(_list_of(section[0].astext(), pages, self.env.docname))


def _pages_in(section: nodes.section, page: str) -> dict[str, str]:
    """Return the pages, each with the words of its first link."""
    found: dict[str, str] = {}
    for link in section.findall(nodes.reference):
        name = page_of(link.get("refuri", ""), page)
        if name is not None:
            found.setdefault(name, link.astext())
    return found


def _list_of(caption: str, pages: dict[str, str], page: str) -> toctree:
    return toctree(
        parent=page,
        caption=caption,
        rawcaption=caption,
        entries=[(words, name) for name, words in pages.items()],
        includefiles=list(pages),
        maxdepth=1,
        glob=False,
        hidden=True,
        includehidden=False,
        numbered=0,
        titlesonly=True,
    )


def lead_to_pages(app: Sphinx, document: nodes.document, page: str) -> None:
    """Turn links to files into links to pages; warn of those that lead nowhere."""
    for node in document.findall(nodes.reference):
        link = node.get("refuri", "")
        name = page_of(link, page)
        if name is None:
            if ":" not in link and link and not node.get("internal"):
                _LOGGER.warning("%s is no page", link, location=node)
            continue
        if name not in app.env.found_docs:
            _LOGGER.warning("there is no page %s", link, location=node)
            continue
        _, sharp, place = link.partition("#")
        if place and place not in app.env.get_doctree(name).ids:
            _LOGGER.warning("%s has no section %s", name, place, location=node)
        if node.astext() == posixpath.basename(link):  # a file's name, which a site does not show
            node.clear()
            node.append(nodes.Text(app.env.titles[name].astext()))
        node["refuri"] = app.builder.get_relative_uri(page, name) + sharp + place
        node["internal"] = True


def break_names(body: str) -> str:
    """Let long names in a page break behind their dots, slashes and underscores, where a line is full.

    >>> break_names('<span class="pre">stream_options.include_usage</span>')
    '<span class="pre">stream_<wbr>options.<wbr>include_<wbr>usage</span>'
    """
    return _NAME.sub(lambda found: _JOINT.sub(r"\1<wbr>", found[0]), body)


def finish_page(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _: Any) -> None:
    """Change what the theme is about to write; ``Any``: as Sphinx calls this."""
    if "body" in context:
        context["body"] = break_names(context["body"])
    if "furo_navigation_tree" in context:  # whose captions are headings of no level
        tree = context["furo_navigation_tree"]
        context["furo_navigation_tree"] = tree.replace(' role="heading"', ' role="heading" aria-level="2"')


def mark_wide_tables(_app: Sphinx, document: nodes.document) -> None:
    """Mark tables of many columns, which ``site.css`` sets narrower."""
    for columns in document.findall(nodes.tgroup):
        if columns["cols"] > _MANY:
            columns.parent["classes"].append("many-columns")


def lead_to_index(app: Sphinx, failure: Exception | None) -> None:
    """Write ``index.html``, since the index is not at the top of the site."""
    if failure is None and app.builder.format == "html":
        address = app.builder.get_target_uri(app.config.root_doc)
        Path(app.outdir, "index.html").write_text(_ENTRY.format(address=address), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Join Sphinx, which calls this."""
    app.add_transform(ListOfPages)
    app.connect("doctree-read", mark_wide_tables)
    app.connect("doctree-resolved", lead_to_pages)
    app.connect("html-page-context", finish_page, priority=_LAST)
    app.connect("build-finished", lead_to_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
