"""The tables of ``docs/translation.rst``, made from what the code does with every field.

``make docs`` writes them into the document, between its marks.  What the code cannot tell, how a field is
adapted and why nothing of it is missed, stands in :mod:`tools.translation.notes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Final

from mgw.nouns.vocabulary import DialectName, Family, Kind
from tools.translation import responses_fields
from tools.translation.accounting import (
    CHANGED,
    REFUSED,
    REPORTED,
    SILENT,
    TARGETS,
    Outcome,
    Target,
    outcome,
    through_responses,
)
from tools.translation.field_cases import CLIENTS, RESPONSES, Case, Client, cases
from tools.translation.notes import NOTES, NOTHING_LOST, Unsaid
from tools.translation.sdk_types import Json

MAPPED: Final = "mapped"
ADAPTED: Final = "adapted"
DROPPED: Final = "dropped"
TABLES: Final = (*CLIENTS, RESPONSES)
"""Whose fields the document tells of."""
COLUMNS: Final = {
    Kind.OPENAI: "chat",
    Kind.OPENAI_COMPAT: "chat",
    Kind.ANTHROPIC: "messages",
    Kind.GEMINI: "generateContent",
}
_WHOLE: Final = frozenset({REFUSED, DROPPED})
"""What may be said of an object and all in it at once."""
ANYWAY: Final = Unsaid("responses", ".*", "that is so anyway")
"""Of what Responses say in so many words (:mod:`tools.translation.responses_fields`)."""
_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True)
class Cell:
    """What becomes of a field towards one target."""

    word: str
    places: tuple[str, ...] = ()
    note: str = ""
    """How it is adapted; of what is dropped or refused, which values are not."""

    def text(self) -> str:
        """Return it as the document says it."""
        told = self.word
        if self.places:
            told += " to " + ", ".join(f"``{place}``" for place in self.places)
        if self.note and self.word in _WHOLE:
            return f"{told}, except {self.note}"
        return f"{told}: {self.note}" if self.note else told


Cells = tuple[Cell, ...]


@cache
def outcomes(client: Client, target: Target) -> dict[str, tuple[Case, Outcome]]:
    """Return what becomes of every field; of Responses, of those that have a row."""
    told = [case for case in cases(client) if client is not RESPONSES or has_row(client, case)]
    return {case.path: (case, outcome(client, target, case)) for case in told}


def targets_of(client: Client) -> list[Target]:
    """Return those that a client's requests are translated for."""
    foreign = [target for target in TARGETS if target.family is not client.family]
    host = next(target for target in TARGETS if target.kind is Kind.OPENAI_COMPAT)
    if client is RESPONSES:
        return [*foreign, host]
    if client.family is Family.OPENAI:
        return [*foreign, through_responses(host)]
    return foreign + [through_responses(target) for target in foreign if target.family is Family.OPENAI]


def column_of(target: Target) -> str:
    """Return what the document calls the dialect in which a target is asked."""
    return "Responses" if target.dialect is DialectName.OPENAI_RESPONSES else COLUMNS[target.kind]


def unsaid(client: Client, target: Target, path: str, value: Json) -> Unsaid | None:
    """Return why nothing is lost where a value changes nothing and is not reported."""
    if client is RESPONSES and path != "model" and responses_fields.says_nothing(path, value, target.name):
        return ANYWAY
    return next((one for one in NOTHING_LOST if one.covers(client.name, target.name, path, value)), None)


def silent(client: Client, target: Target, case: Case, found: Outcome) -> list[Json]:
    """Return the values of a field that are lost in silence."""
    return [
        value
        for value, became in zip(case.values, found.found, strict=True)
        if SILENT in became and unsaid(client, target, case.path, value) is None
    ]


def word_of(found: Outcome) -> str | None:
    """Return the one word for what becomes of a field; ``None`` where it holds nothing of its own."""
    became = found.all - {SILENT}
    if CHANGED in became:
        return MAPPED if became == {CHANGED} and found.verbatim else ADAPTED
    if REPORTED in became:
        return DROPPED
    return REFUSED if REFUSED in became else None


def cell(client: Client, target: Target, case: Case, found: Outcome) -> Cell | None:
    """Return what the document says of a field."""
    word = word_of(found)
    if word is None:
        reasons = [unsaid(client, target, case.path, value) for value in case.values]
        reason = next((one for one in reasons if one is not None), None)
        return None if reason is None or reason is ANYWAY else Cell(MAPPED, note=reason.why)
    noted = next((one for one in NOTES if one.covers(client.name, target.name, case.path)), None)
    if noted is not None and noted.partly:
        word = ADAPTED
    note = noted.text if noted is not None and word == ADAPTED else ""
    if client is RESPONSES and word in _WHOLE:
        note = _excepted(target, case)
    return Cell(word, _told(found.places) if word in {MAPPED, ADAPTED} else (), note)


def _excepted(target: Target, case: Case) -> str:
    """Return which values of a field of Responses say nothing."""
    values = [value for value in case.values if responses_fields.says_nothing(case.path, value, target.name)]
    said = (one if isinstance(one, str) else responses_fields.label(one).lower() for one in values)
    return " and ".join(f"``{one}``" for one in said)


def _told(places: list[str]) -> tuple[str, ...]:
    """Return one place, or two, or what all of them lie in."""
    if len(places) <= 2:
        return tuple(places)
    cut = [re.split(r"(?=[.\[])", place) for place in places]
    common = "".join(step[0] for step in takewhile(lambda step: len(set(step)) == 1, zip(*cut, strict=False)))
    return (common,) if common else ()


def has_row(client: Client, case: Case) -> bool:
    """Whether a field is told of apart from what it holds."""
    if client is not RESPONSES:
        return not case.holder
    is_told = not responses_fields.is_told_elsewhere(case.path)
    return is_told and not case.holder and responses_fields.is_walked(case)


@cache
def rows(client: Client) -> dict[str, Cells]:
    """Return the fields of a wire that have a row of their own, with a cell for each target."""
    found: dict[str, Cells] = {}
    targets = targets_of(client)
    for case in cases(client):
        if not has_row(client, case):
            continue
        told = [cell(client, target, case, outcomes(client, target)[case.path][1]) for target in targets]
        if all(one is not None for one in told):
            found[case.path] = tuple(one for one in told if one is not None)
    return _gathered(_merged(dict(_collapsed(client, found))))


def _prefixes(path: str) -> Iterator[str]:
    """Yield what a field is part of, the whole first."""
    for place, sign in enumerate(path):
        if sign == "." or (sign == "[" and place):
            yield path[:place]
        if sign == "]" and not path.startswith("[]", place - 1):
            yield path[: place + 1]


def _collapsed(client: Client, found: dict[str, Cells]) -> Iterator[tuple[str, Cells]]:
    under: dict[str, set[Cells]] = {}
    for path, cells in found.items():
        plain = tuple(Cell(one.word) for one in cells)
        for prefix in (*_prefixes(path), path):
            under.setdefault(prefix, set()).add(plain)
    for path, cells in found.items():
        whole = next((one for one in _prefixes(path) if _is_whole(client, one, under[one])), None)
        if whole is None:
            yield path, cells
        else:
            yield whole, next(iter(under[whole]))


def _is_whole(client: Client, path: str, cells: set[Cells]) -> bool:
    """Whether one row tells of an object and of all in it; of Responses it is decided which."""
    if client is RESPONSES and not responses_fields.is_whole(path):
        return False
    return len(cells) == 1 and all(one.word in _WHOLE for one in next(iter(cells)))


def _merged(found: dict[str, Cells]) -> dict[str, Cells]:
    """Join rows that differ in one kind alone: ``messages[user|assistant].content``."""
    for depth in range(3):
        groups: dict[tuple[str, str, Cells], list[str]] = {}
        order: dict[str, tuple[str, str, Cells]] = {}
        for path, cells in found.items():
            kinds = list(_BRACKETS.finditer(path))
            if len(kinds) <= depth or not kinds[depth][1]:
                order[path] = (path, "", cells)
            else:
                order[path] = (path[: kinds[depth].start(1)], path[kinds[depth].end(1) :], cells)
                groups.setdefault(order[path], []).append(kinds[depth][1])
        merged: dict[str, Cells] = {}
        for path, key in order.items():
            kinds_of = groups.get(key)
            merged[path if kinds_of is None else f"{key[0]}{'|'.join(kinds_of)}{key[1]}"] = key[2]
        found = merged
    return found


def _gathered(found: dict[str, Cells]) -> dict[str, Cells]:
    """Join what is dropped or refused beside one another: ``parts[].{audioMetadata,toolCall}``."""
    groups: dict[tuple[str, Cells], list[str]] = {}
    for path, cells in found.items():
        if all(one.word in _WHOLE and not one.note for one in cells):
            parent, dot, key = path.rpartition(".")
            if "[" not in key:
                groups.setdefault((parent + dot, cells), []).append(key)
    gathered: dict[str, Cells] = {}
    for path, cells in found.items():
        parent, dot, key = path.rpartition(".")
        keys = groups.get((parent + dot, cells), [])
        if len(keys) < 2 or key not in keys:
            gathered[path] = cells
        elif parent:
            gathered[f"{parent}.{{{','.join(keys)}}}"] = cells
        else:
            gathered[", ".join(keys)] = cells
    return gathered


def table(client: Client) -> str:
    """Return the reStructuredText table of one wire's fields."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 25 25 25 25", "", "   * - field"]
    heads = list(dict.fromkeys(map(column_of, targets_of(client))))
    lines += [f"     - to {head}" for head in heads]
    for path, cells in rows(client).items():
        lines.append("   * - " + ", ".join(f"``{one}``" for one in path.split(", ")))
        lines += [f"     - {text}" for text in _texts(client, cells)]
    return "\n".join(lines) + "\n"


def _texts(client: Client, cells: Cells) -> Iterator[str]:
    """Yield a cell for each column; OpenAI's two kinds share one."""
    columns: dict[str, dict[str, str]] = {}
    for target, one in zip(targets_of(client), cells, strict=True):
        columns.setdefault(column_of(target), {})[target.kind.value] = one.text()
    for said in columns.values():
        if len(set(said.values())) == 1:
            yield next(iter(said.values()))
        else:
            yield "; ".join(f"{text} (``{kind}``)" for kind, text in said.items())


def marks(client: Client) -> tuple[str, str]:
    """Return the lines of the document between which a table stands."""
    return f".. fields of {client.name}\n", f".. end of fields of {client.name}\n"


def render(page: str) -> str:
    """Return the page with its tables renewed."""
    for client in TABLES:
        begin, end = marks(client)
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = f"{head}{begin}\n{table(client)}\n{end}{tail}"
    return page
