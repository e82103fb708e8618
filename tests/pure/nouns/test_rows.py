"""What differs between families and kinds stands in their rows, and nowhere is decided by name."""

from __future__ import annotations

import re
from pathlib import Path

from mgw.nouns.families import FAMILIES, shown_family
from mgw.nouns.kinds import KINDS, enumerated, kinds_where, of_chat
from mgw.nouns.vocabulary import KIND_SPELLINGS, Family, Kind

ROOT = Path(__file__).resolve().parents[3] / "mgw"
DECIDES = re.compile(r"\b(?:is|is not|==|!=) (Family|Kind)\.(\w+)")
ALLOWED = {
    # Anthropic alone signs thoughts that may travel beside a call.
    ("dialects/gemini", "ANTHROPIC"),
    # The items that OpenAI's signatures stand for may travel so as well.
    ("dialects", "OPENAI"),
}
"""Beside these, a dialect may know its own family: whose signature it reads."""
OWN = {**{f"dialects/{family}": family for family in Family}, "dialects/responses": Family.OPENAI}


def test_nothing_that_carries_requests_asks_for_a_family_or_a_kind_by_name() -> None:
    found = set()
    for room in ("exchange", "web", "upstream", "dialects"):
        for file in sorted((ROOT / room).rglob("*.py")):
            folder = file.parent.relative_to(ROOT).as_posix()
            for noun, name in DECIDES.findall(file.read_text(encoding="utf-8")):
                if noun == "Kind" or OWN.get(folder) is not Family[name]:
                    found.add((folder, name))
    assert found == ALLOWED


def test_each_family_and_each_kind_has_a_row() -> None:
    assert set(FAMILIES) == set(Family)
    assert set(KINDS) == set(KIND_SPELLINGS.values()) == set(Kind)


def test_a_row_contradicts_neither_itself_nor_its_address() -> None:
    for kind, row in KINDS.items():
        assert (row.unversioned is None) or row.version_parameter
        assert (row.version is None) == (not row.versions)
        assert row.base_url is None or row.regional_url is None
        assert all(name == name.lower() for name, _ in row.required_headers)
        for usual in row.versions:
            address = (row.base_url or f"https://h{usual}").split("/")
            assert row.version is not None
            assert any(map(row.version.fullmatch, address)), kind
            assert row.version.fullmatch(usual.rpartition("/")[2]), kind


def test_the_settings_of_chat_belong_to_one_family() -> None:
    assert kinds_where(of_chat) == [Kind.OPENAI, Kind.OPENAI_COMPAT, Kind.AZURE_OPENAI]
    assert enumerated(kinds_where(of_chat)) == "openai, openai_compat and azure_openai"
    assert enumerated([Kind.OPENAI, Kind.GEMINI]) == "openai and gemini"
    assert enumerated([Kind.OPENAI]) == "openai"


def test_a_client_shows_its_family_by_the_first_sign() -> None:
    names = frozenset({b"openai-beta", b"x-goog-api-key", b"anthropic-version"})
    assert shown_family(None, names) is Family.ANTHROPIC
    assert shown_family(None, names - {b"anthropic-version"}) is Family.GEMINI
    assert shown_family(b"a=1&key=k", frozenset({b"openai-beta"})) is Family.GEMINI
    assert shown_family(b"monkey=1", frozenset({b"openai-beta"})) is Family.OPENAI
    assert shown_family(None, frozenset({b"accept"})) is None
