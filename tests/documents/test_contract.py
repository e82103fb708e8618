"""Comments cite rules by number, as in ``contract 5.7``: each number exists, and nothing else is cited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from msgspec.json import decode

from mgw.dialects import dialect_of
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName

ROOT: Final = Path(__file__).resolve().parents[2]
THIS: Final = Path(__file__).resolve()
FOLDERS: Final = ("mgw", "tests", "bench", "docs", "etc", "twisted")
ENDINGS: Final = frozenset({".py", ".rst", ".yaml", ".json", ".c", ".txt"})

PAGE: Final = (ROOT / "docs" / "contract.rst").read_text(encoding="utf-8")
RULE: Final = re.compile(r"^\*\*(\d+)\.(\d+)\*\* ", re.MULTILINE)
SECTION: Final = re.compile(r"^(\d+)\. .+\n-+$", re.MULTILINE)
Rule = tuple[int, int]
RULES: Final[list[Rule]] = [(int(rule[1]), int(rule[2])) for rule in RULE.finditer(PAGE)]

_NUMBER: Final = r"\d+\.\d+"
_GAP: Final = r"(?:\s|#)+"  # a comment may go on in its next line
CITATION: Final = re.compile(
    rf"\bcontract{_GAP}(?:{_NUMBER}(?:(?:,|{_GAP}(?:and|to)){_GAP}{_NUMBER})*)", re.IGNORECASE
)
BARE: Final = re.compile(rf"\bcontract{_GAP}\d+\b(?!\.\d)", re.IGNORECASE)
OUTSIDE: Final = re.compile(
    r"\bdecisions,?\s+(?:parts?\s+)?\d|(?<!directory )\bspecification\W{0,3}\s*\(?(?:part |rule )?\d"
    r"|\bthe\s+(?:service\s+)?specification\b",
    re.IGNORECASE,
)


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ENDINGS and "results" not in path.parts and path != THIS:
                yield path
    yield from sorted(ROOT.glob("*.rst"))


TEXTS: Final = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sources()}


def found(pattern: re.Pattern[str], text: str) -> list[str]:
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]}" for match in pattern.finditer(text)
    ]


def cited(text: str) -> set[Rule]:
    """Return every rule that a text cites; of a range, its two ends."""
    numbers = re.findall(_NUMBER, "\n".join(CITATION.findall(text)))
    return {(int(section), int(rule)) for section, rule in (number.split(".") for number in numbers)}


def test_the_sections_are_numbered_from_one_on() -> None:
    assert [int(section[1]) for section in SECTION.finditer(PAGE)] == list(range(1, 12))


def test_the_rules_are_numbered_in_order_and_each_number_stands_once() -> None:
    assert RULES[0] == (1, 1)
    assert not [(one, other) for one, other in pairwise(RULES) if one >= other]
    assert {section for section, _ in RULES} == set(range(1, 12))


def test_each_rule_stands_in_the_section_of_its_number() -> None:
    heads = [(section.start(), int(section[1])) for section in SECTION.finditer(PAGE)]
    for rule in RULE.finditer(PAGE):
        assert int(rule[1]) == max(head for head in heads if head[0] < rule.start())[1], rule[0]


def test_the_page_refers_only_to_rules_that_it_has() -> None:
    text = re.sub(r"``[^`]*``|TLS 1\.2", "", RULE.sub("", PAGE))
    numbers = re.findall(rf"(?<![\d.])({_NUMBER})(?![\d.]*\d)", text)
    assert {(int(section), int(rule)) for section, rule in (number.split(".") for number in numbers)} <= set(
        RULES
    )


def test_what_is_cited_is_a_rule() -> None:
    """All files in one test: as two thousand, they take a hundred times as long."""
    wrong = {name: cited(text) - set(RULES) for name, text in TEXTS.items()}
    assert {name: rules for name, rules in wrong.items() if rules} == {}
    bare = {name: found(BARE, text) for name, text in TEXTS.items()}
    assert {name: places for name, places in bare.items() if places} == {}


def test_nothing_is_cited_that_a_reader_cannot_open() -> None:
    outside = {name: found(OUTSIDE, text) for name, text in TEXTS.items()}
    assert {name: places for name, places in outside.items() if places} == {}


def test_the_code_cites_the_contract() -> None:
    """The walk finds what it looks for."""
    rules = set().union(*(cited(text) for name, text in TEXTS.items() if name.startswith("mgw")))
    assert len(rules) > len(RULES) // 2


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("contract 5.7", {(5, 7)}),
        ("(Contract 4.9, 4.15 and 10.2)", {(4, 9), (4, 15), (10, 2)}),
        ("contract 8.1 to 8.5.", {(8, 1), (8, 5)}),
        ("# by contract\n    # 2.6", {(2, 6)}),
        ("contract 2.7 (defaults), HTTP 1.1", {(2, 7)}),
        ("the contract of 5.7", set()),
    ],
)
def test_a_citation_is_read_as_it_is_meant(text: str, rules: set[Rule]) -> None:
    assert cited(text) == rules


@pytest.mark.parametrize(
    "text",
    [
        "decisions, part 8",
        "decisions\n parts 7",
        "decisions 3",
        "specification 4.1.3",
        "specification, part 6",
        "the specification's (part 8)",
        "the service specification",
    ],
)
def test_a_citation_of_another_document_is_seen(text: str) -> None:
    assert found(OUTSIDE, text)


def test_the_table_of_errors_says_what_clients_get() -> None:
    table = PAGE.split("**6.2**")[1].split("**6.3**")[0]
    rows = [
        re.split(r"  +", line)[1:]
        for line in table.replace("``", "").splitlines()
        if re.search(r"  \d{3}  ", line)
    ]
    assert len(rows) == len(Reason)
    assert {tuple(row) for row in rows} == {row_of(reason) for reason in Reason}


def row_of(reason: Reason) -> tuple[str, ...]:
    error = GatewayError(reason, "no")
    openai, anthropic, gemini = (
        decode(dialect_of(dialect).render_refusal(error, "req_1"))["error"]
        for dialect in (DialectName.OPENAI, DialectName.ANTHROPIC, DialectName.GEMINI)
    )
    return (str(reason.status), openai["type"], openai["code"] or "none", anthropic["type"], gemini["status"])
