"""What is written for readers is well formed, and what it shows is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from tools.generate import GENERATED

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.rst")), *sorted((ROOT / "docs").glob("*.rst"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_document_is_well_formed(document: Path) -> None:
    publish_doctree(
        document.read_text(encoding="utf-8"), settings_overrides={"halt_level": 2, "report_level": 2}
    )


@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("*.rst")), ids=lambda path: path.name)
def test_every_document_is_named_in_the_index(document: Path) -> None:
    index = (ROOT / "docs/index.rst").read_text(encoding="utf-8")
    assert document.name == "index.rst" or f"<{document.name}>`_" in index


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_picture_on_a_page_exists_and_is_described_in_words(document: Path) -> None:
    for image in publish_doctree(
        document.read_text(encoding="utf-8"), settings_overrides={"report_level": 5}
    ).findall(nodes.image):
        assert (document.parent / image["uri"]).is_file()
        assert len(image.get("alt", "")) > 40


UNFINISHED = re.compile(r"(?:,|\S+ \S+ (?:a|an|and|as|at|by|for|from|in|of|or|the|to|with))$")
"""How a cell ends that goes on in the next line."""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_row_of_a_table_is_whole(document: Path) -> None:
    """In a simple table, a second line of the first cell begins a new row (docutils, "Simple Tables")."""
    tree = publish_doctree(document.read_text(encoding="utf-8"), settings_overrides={"report_level": 5})
    cut = []
    for row in (row for body in tree.findall(nodes.tbody) for row in body.findall(nodes.row)):
        cells = [cell.astext() for cell in row.findall(nodes.entry)]
        if (len(cells) > 1 and not any(cells[1:])) or any(map(_goes_on, row.findall(nodes.entry))):
            cut.append(cells[0])
    assert not cut


def _goes_on(cell: nodes.entry) -> bool:
    ends_in_code = any(isinstance(text.parent, nodes.literal) for text in list(cell.findall(nodes.Text))[-1:])
    return not ends_in_code and UNFINISHED.search(cell.astext()) is not None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_hyphen_in_a_table_is_not_an_empty_list(document: Path) -> None:
    """A cell with nothing else than ``-`` is shown as a bullet; nothing there is an en dash, or empty."""
    tree = publish_doctree(document.read_text(encoding="utf-8"), settings_overrides={"report_level": 5})
    items = [item for cell in tree.findall(nodes.entry) for item in cell.findall(nodes.list_item)]
    assert all(item.astext().strip() for item in items)


def test_every_picture_is_on_a_page() -> None:
    pages = "".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    pictures = [path.name for path in (ROOT / "docs/images").iterdir()]
    assert pictures
    assert not [name for name in pictures if f"images/{name}\n" not in pages]


def test_no_page_draws_with_characters() -> None:
    """A drawing is a file of ``tools/pictures``: legible on a phone, and for who cannot see it."""
    assert not [
        document.name for document in DOCUMENTS if re.search("[─│┌└►▼◄]", document.read_text("utf-8"))
    ]


def test_the_readme_names_the_index() -> None:
    assert "<docs/index.rst>`_" in (ROOT / "README.rst").read_text(encoding="utf-8")


def test_nothing_outside_the_table_of_kinds_asks_for_a_kind() -> None:
    """What differs per kind is a row of :mod:`mgw.nouns.kinds`."""
    for room in ("exchange", "web"):
        for module in (ROOT / "mgw" / room).glob("*.py"):
            assert "kind ==" not in module.read_text(encoding="utf-8")
            assert "kind is Kind" not in module.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GENERATED)
def test_what_is_generated_says_what_the_code_says(name: str) -> None:
    """``make docs`` writes it."""
    generated = GENERATED[name]
    assert generated.read() == generated.render(generated.read()), "run `make docs`"


def test_a_page_that_leaves_out_a_setting_is_refused() -> None:
    page = GENERATED["settings"].read().replace(".. settings: hooks\n", ".. settings: listen\n")
    with pytest.raises(ValueError, match="no setting is left at listen"):
        GENERATED["settings"].render(page)
    with pytest.raises(ValueError, match=r"leaves out listen, tls\.cert_file.*: name it in one of the lines"):
        GENERATED["settings"].render("")
