"""The site: every page is in it, and Sphinx has nothing to say against any."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from tests.support.waiting import WAIT_SECONDS
from tools.site import break_names

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [*ROOT.glob("*.rst"), *(ROOT / "docs").rglob("*.rst")]
CODE_WIDTH: Final = 107
"""Characters that fit into a line of code (``docs/site.css``)."""
WHOLE: Final = re.compile(r"usage time=|http time=|\{\"time\":|.*\(provider=|.*https?://\S{60}")
"""Lines that cannot be divided: those of the log, and long addresses; the site breaks them."""


def build(sources: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as ``make site`` does."""
    [line] = re.findall(r"-m (sphinx .+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    options = line.replace("build/site", str(site)).split()
    command = [sys.executable, "-m", *options]
    return subprocess.run(
        command, cwd=sources, capture_output=True, text=True, timeout=WAIT_SECONDS * 10, check=False
    )


class Addresses(HTMLParser):
    """What a page has the browser load, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: set[str] = set()
        self.linked: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a":
            self.linked.add(found.get("href") or "")
        elif tag in ("script", "img", "link", "iframe"):
            self.loaded.add(found.get("src") or found.get("href") or "")


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """One test and not several: it takes ten seconds to build."""
    site = tmp_path / "site"
    built = build(ROOT, site)
    assert built.returncode == 0, built.stderr
    assert (site / "index.html").is_file()
    first = (site / "docs/quickstart.html").read_text(encoding="utf-8")
    assert 'href="../README.html">Overview</a>' in first, "the list beside a page has the words of the index"
    assert "copybutton.js" in first
    assert '<table class="many-columns ' in (site / "docs/models.html").read_text(encoding="utf-8")
    assert '<dl class="simple pages">' in (site / "docs/index.html").read_text(encoding="utf-8")
    for page in PAGES:
        file = site / page.relative_to(ROOT).with_suffix(".html")
        addresses = Addresses()
        addresses.feed(file.read_text(encoding="utf-8"))
        assert not [address for address in addresses.loaded if urlsplit(address).netloc], page
        assert not [address for address in addresses.linked if address.endswith(".rst")], page
        for address in addresses.loaded | addresses.linked:
            split = urlsplit(address)
            if split.path and not split.scheme:
                assert (file.parent / unquote(split.path)).is_file(), f"{page}: {address}"


def test_a_link_that_leads_to_no_page_and_a_page_that_the_index_leaves_out_are_warnings(
    tmp_path: Path,
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "mgw").symlink_to(ROOT / "mgw")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    for name in ("conf.py", "site.css"):
        (tmp_path / "docs" / name).write_bytes((ROOT / "docs" / name).read_bytes())
    index = "Index\n=====\n\nUse\n---\n\n`a.rst <a.rst>`_ `b <b.rst>`_ `c <c.rst#none>`_ `d <d.txt>`_\n"
    (tmp_path / "docs/index.rst").write_text(index, encoding="utf-8")
    for name in ("a", "c", "e"):
        (tmp_path / f"docs/{name}.rst").write_text("Page\n====\n", encoding="utf-8")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode == 1
    for words in (
        "there is no page b.rst",
        "docs/c has no section none",
        "d.txt is no page",
        "e.rst: WARNING: document isn't included in any toctree",
    ):
        assert words in built.stderr
    assert "a.rst" not in built.stderr
    shown = (tmp_path / "site/docs/index.html").read_text(encoding="utf-8")
    assert '<a class="reference internal" href="a.html">Page</a>' in shown, "a file is called by its title"


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("stream_options.include_usage", ["stream_", "options.", "include_", "usage"]),
        ("/v1/agents/{agent_id}", ["/v1/", "agents/", "{agent_", "id}"]),
        ("messages[user].content", ["messages[", "user].", "content"]),
        ("claude-*-[5-9]-[0-9]", ["claude-*-[5-9]-[0-9]"]),
        ("short.name", ["short.name"]),
    ],
)
def test_a_long_name_breaks_where_a_reader_expects_it(name: str, pieces: list[str]) -> None:
    body = f'<code><span class="pre">{name}</span></code> and <a href="https://a.example/a_b/c_d">more.or.less</a>'
    assert break_names(body) == body.replace(name, "<wbr>".join(pieces))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_line_of_code_fits_into_its_block(page: Path) -> None:
    document = publish_doctree(page.read_text(encoding="utf-8"), settings_overrides={"report_level": 5})
    lines = [line for block in document.findall(nodes.literal_block) for line in block.astext().split("\n")]
    assert not [line for line in lines if len(line) > CODE_WIDTH and not WHOLE.match(line)]
