"""Every field of a request of Responses has a fate, and has it.

The fields are those of the pinned SDK's own types: a new one has no row, which fails here until somebody has
decided what becomes of it (:mod:`tools.translation.responses_fields`).
"""

from __future__ import annotations

from typing import Final

import pytest
from openai.types.responses.input_token_count_params import InputTokenCountParams

from mgw.dialects.dialect import RequestContext
from mgw.dialects.responses.count import COUNT
from mgw.nouns.errors import GatewayError
from tools.translation.accounting import TARGETS, Sent, Target, covers, sent
from tools.translation.field_cases import ABSENT, RESPONSES, Case, cases, least
from tools.translation.responses_fields import (
    ORDER,
    ROWS,
    WHOLE_ITEMS,
    WHOLE_TOOLS,
    fates,
    is_walked,
    label,
    row_path,
)
from tools.translation.sdk_types import Json, members, of, responses

COLUMNS: Final = {target.name: target for target in TARGETS if target.name != "openai"}
ALLOWED: Final = {"M": {"M"}, "A": {"M", "A"}, "D": {"D", "A"}, "R": {"R"}, "N": {"N"}}


def reported(case: Case, value: Json, paths: list[str]) -> bool:
    kind = f"{case.path}[{label(value)}]"
    return any(covers(path, case.path) or covers(path, kind) for path in paths)


def became(target: Target, case: Case) -> list[str]:
    """Return what became of each value: a letter of the table."""
    without = sent(RESPONSES, target, case.say(ABSENT))
    found = [sent(RESPONSES, target, body) for body in case.bodies]
    letters: list[str] = []
    for number, (value, one) in enumerate(zip(case.values, found, strict=True)):
        if isinstance(one, GatewayError):
            letters.append("R")
            continue
        others: list[Sent] = [without] if isinstance(without, tuple) else found[:number] + found[number + 1 :]
        arrived = any(isinstance(other, tuple) and other[1] != one[1] for other in others)
        is_reported = reported(case, value, one[2])
        letters.append(
            {(True, False): "M", (True, True): "A", (False, True): "D"}.get((arrived, is_reported), "N")
        )
    return letters


WALKED: Final = {case.path: case for case in cases(RESPONSES) if is_walked(case)}


def test_every_field_has_a_row_and_every_row_a_field() -> None:
    undecided = {
        case.path: [label(value) for value in case.values if fates(case.path, label(value)) is None]
        for case in WALKED.values()
    }
    assert {path: values for path, values in undecided.items() if values} == {}
    whole = {f"input[{kind}]" for kind in WHOLE_ITEMS} | {f"tools[{kind}]" for kind in WHOLE_TOOLS}
    assert ROWS.keys() - {row_path(path) for path in WALKED} - whole == set()
    assert len(WALKED) > 300


def test_every_type_of_item_and_of_tool_has_a_row() -> None:
    root = responses()
    for key, whole in (("input", set(WHOLE_ITEMS)), ("tools", set(WHOLE_TOOLS))):
        tags = {shape.tag for shape in members(root.fields[key].node)}
        opened = {tag for tag in tags if any(path.startswith(f"{key}[{tag}].") for path in ROWS)}
        assert tags - opened - whole == ({"local_shell"} if key == "tools" else set())  # has no fields
        assert whole <= tags


def test_a_count_says_what_a_request_does() -> None:
    personal = {"personality"}  # nobody reads it, so it is reported
    assert of(InputTokenCountParams).fields.keys() - responses().fields.keys() == personal
    found = COUNT.parse_request(b'{"model": "m", "input": "Hi.", "personality": "word"}', RequestContext("m"))
    assert found.unread == personal


@pytest.mark.parametrize("name", ORDER)
def test_every_field_becomes_what_its_row_says(name: str) -> None:
    column, target = ORDER.index(name), COLUMNS[name]
    wrong: dict[str, tuple[str, str]] = {}
    for case in WALKED.values():
        for value, letter in zip(case.values, became(target, case), strict=True):
            wanted = (fates(case.path, label(value)) or ["?"] * 3)[column]
            if letter not in ALLOWED.get(wanted, {wanted}):
                wrong[f"{case.path} {label(value)}"] = (wanted, letter)
    assert wrong == {}


@pytest.mark.parametrize("key", ["input", "tools"])
def test_what_nobody_looks_into_is_reported_or_refused_by_its_type(key: str) -> None:
    for shape in members(responses().fields[key].node):
        row = WHOLE_ITEMS.get(shape.tag or "") if key == "input" else "R"
        if row is None or (key == "tools" and shape.tag not in WHOLE_TOOLS):
            continue
        found = sent(RESPONSES, COLUMNS["anthropic"], RESPONSES.around({key: [least(shape, key)]}))
        if row[0] == "R":
            assert isinstance(found, GatewayError)
            assert (found.code or "").startswith("unsupported_")
        else:
            assert isinstance(found, tuple)
            assert found[2] == [f"{key}[{shape.tag}]"]
