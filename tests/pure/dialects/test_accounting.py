"""The law of accounting: every field of every request arrives, is reported, or is refused.

The fields are those of the vendors' own types, so a new version of an SDK brings its new fields here: the
document then lacks their rows.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import pytest
from msgspec.structs import replace

from mgw.dialects.model_rows import ROWS
from mgw.nouns.errors import GatewayError
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import ThroughResponses
from tools.generate import GENERATED
from tools.translation.accounting import LEAST_TARGETS, TARGETS, Target, covers, outcome, sent
from tools.translation.field_cases import CLIENTS, Case, Client, cases
from tools.translation.notes import NOTES, NOTHING_LOST
from tools.translation.tables import (
    ADAPTED,
    TABLES,
    outcomes,
    rows,
    silent,
    table,
    targets_of,
)

WAYS: Final = [
    pytest.param(client, target, id=f"{client.name} to {target.name}, {which}")
    for which, targets in (("all taken", TARGETS), ("little taken", LEAST_TARGETS))
    for client in CLIENTS
    for target in targets
    if target.family is not client.family
]
CLIENT_IDS: Final = [client.name for client in CLIENTS]
TABLE_IDS: Final = [client.name for client in TABLES]
CONTENT: Final = ("messages", "contents", "tools", "functions", "system", "generationConfig.responseSchema")
FEWEST: Final = {"chat": 150, "messages": 1000, "generateContent": 500}
"""So many fields there are at least: an empty walk proves nothing."""


def distinct_rows() -> list[ModelRow]:
    """The shipped rows that differ in what a renderer looks at: neither names nor which route is taken."""
    bare = [
        replace(
            row,
            match="",
            source="",
            tokens=1.0,
            responses_efforts=None,
            through_responses=ThroughResponses.NEVER,
        )
        for row in ROWS
    ]
    return list(
        {repr(one): replace(one, match=row.match) for one, row in zip(bare, ROWS, strict=True)}.values()
    )


def shipped(target: Target, row: ModelRow) -> Target:
    return dataclasses.replace(target, row=row)


def refusals(client: Client, target: Target, case: Case) -> list[GatewayError]:
    found = (sent(client, target, body) for body in case.bodies)
    return [one for one in found if isinstance(one, GatewayError)]


def names(error: GatewayError, path: str) -> bool:
    """Whether a refusal says what it is about: a field, or the kind of what it is part of."""
    said = f"{error.message} {error.param or ''}"
    words = [word for step in path.replace("]", "").split(".") for word in step.split("[") if word]
    return any(word in said for word in words)


@pytest.mark.parametrize(("client", "target"), WAYS)
def test_no_field_is_lost_in_silence(client: Client, target: Target) -> None:
    found = outcomes(client, target).values()
    lost = {case.path: values for case, became in found if (values := silent(client, target, case, became))}
    assert not lost, "\n".join(f"{path}: {values}" for path, values in lost.items())


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS, ids=CLIENT_IDS)
def test_no_shipped_row_of_models_loses_a_wish_in_silence(client: Client) -> None:
    """Of how to answer: sampling, limits, formats, thinking, choices."""
    wishes = [case for case in cases(client) if not case.path.startswith(CONTENT)]
    lost = {
        (row.match, case.path): values
        for row in distinct_rows()
        for target in TARGETS
        if target.family is row.family is not client.family
        for case in wishes
        if (values := silent(client, shipped(target, row), case, outcome(client, shipped(target, row), case)))
    }
    assert not lost, "\n".join(f"{place}: {values}" for place, values in lost.items())


@pytest.mark.parametrize(("client", "target"), WAYS)
def test_a_refusal_names_what_it_refuses(client: Client, target: Target) -> None:
    nameless = {
        case.path: error.message
        for case, _ in outcomes(client, target).values()
        for error in refusals(client, target, case)
        if not names(error, case.path)
    }
    assert nameless == {}


@pytest.mark.parametrize("client", CLIENTS, ids=CLIENT_IDS)
def test_the_walk_sees_the_whole_wire(client: Client) -> None:
    assert len(cases(client)) >= FEWEST[client.name]


@pytest.mark.parametrize("client", CLIENTS, ids=CLIENT_IDS)
def test_the_least_request_is_taken_by_every_target(client: Client) -> None:
    for target in targets_of(client):
        assert not isinstance(sent(client, target, client.around({})), GatewayError)


@pytest.mark.parametrize("client", TABLES, ids=TABLE_IDS)
def test_the_document_tells_what_the_code_does(client: Client) -> None:
    """A field without a row, or one that is treated otherwise now: decide, then run ``make docs``."""
    said = set(GENERATED["fields"].read().split("   * - "))
    is_so = set(table(client).split("   * - ")[2:-1])
    assert is_so - said == set()


@pytest.mark.parametrize("client", TABLES, ids=TABLE_IDS)
def test_every_adapted_field_says_how(client: Client) -> None:
    mute = [
        path
        for path, cells in rows(client).items()
        for cell in cells
        if cell.word == ADAPTED and not cell.note
    ]
    assert mute == []


def test_every_note_and_exception_is_of_a_field_that_there_is() -> None:
    ways = [
        (client, target, case) for client in TABLES for target in targets_of(client) for case in cases(client)
    ]
    idle_notes = [
        note.path
        for note in NOTES
        if not any(note.covers(client.name, target.name, case.path) for client, target, case in ways)
    ]
    idle_exceptions = [
        one.path
        for one in NOTHING_LOST
        if not any(
            one.covers(client.name, target.name, case.path, value)
            for client, target, case in ways
            for value in case.values
        )
    ]
    assert (idle_notes, idle_exceptions) == ([], [])


@pytest.mark.parametrize(
    ("reported", "path", "is_covered"),
    [
        ("logit_bias", "logit_bias", True),
        ("tools", "tools[function].function.name", True),
        ("messages[].name", "messages[user].name", True),
        ("messages[].content[thinking]", "messages[assistant].content[thinking].signature", True),
        ("messages[].content[thinking]", "messages[assistant].content[text].text", False),
        ("contents[].parts[executableCode]", "contents[model].parts[].executableCode.code", True),
        ("contents[].parts[executableCode]", "contents[model].parts[].text", False),
        ("messages[].name", "messages[user].names", False),
        ("messages[].content[].a", "messages[user].content", False),
    ],
)
def test_a_report_covers_what_lies_in_it(reported: str, path: str, is_covered: bool) -> None:
    assert covers(reported, path) is is_covered
