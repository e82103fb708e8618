"""Hostile requests: whatever a client sends is translated or refused.

No other exception than :class:`GatewayError` comes out of any parser or renderer.
"""

from __future__ import annotations

from typing import Final

import msgspec
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from mgw.dialects import client_side_of
from mgw.dialects.dialect import RequestContext
from mgw.nouns.families import text_dialect
from mgw.nouns.vocabulary import DialectName
from tests.support.hostile_json import (
    DEEP,
    DIALECTS,
    PLACE_NUMBERS,
    RANDOM_JSON,
    WAYS,
    WRONG,
    Json,
    Path,
    paths,
    place_in,
    replaced,
    translate_request,
)
from tests.support.laws import is_thorough
from tests.support.rich_requests import REQUESTS
from tools.translation.field_cases import CLIENTS, Client, cases

NEARLY: Final = (700, 850, 900, 940)
"""Depths that the decoder takes, where those who walk through the values may not."""
HOLDING_SCHEMAS: Final = {"parameters", "input_schema", "responseSchema", "args", "input", "schema"}
CLIENT_IDS: Final = [client.name for client in CLIENTS]

# Requests -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_rich_request_is_translated(dialect: DialectName) -> None:
    body = msgspec.json.encode(REQUESTS[dialect])
    parsed = client_side_of(dialect).text.parse_request(
        body, RequestContext("a-model", drop_hosted_tools=True)
    )
    for target in WAYS:
        target.side.text.render_request(parsed.request, target.setting)


@pytest.mark.slow
@given(number=PLACE_NUMBERS, new=RANDOM_JSON)
def test_any_json_in_any_place_is_translated_or_refused(number: int, new: Json) -> None:
    for dialect in DIALECTS:
        note(dialect)
        body = REQUESTS[dialect]
        translate_request(dialect, msgspec.json.encode(replaced(body, place_in(body, number), new)))


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_wrong_type_in_any_place_is_translated_or_refused(dialect: DialectName) -> None:
    """A third of the values in each place, a sixth of Responses' many; when it is to be thorough, all."""
    body, written = REQUESTS[dialect], set[int]()
    share = 1 if is_thorough() else 6 if dialect is DialectName.OPENAI_RESPONSES else 3
    for number, place in enumerate(paths(body)):
        for wrong in WRONG[number % share :: share]:
            translate_request(dialect, msgspec.json.encode(replaced(body, place, wrong)), written)


@pytest.mark.parametrize("client", CLIENTS, ids=CLIENT_IDS)
def test_a_wrong_type_in_any_field_of_the_sdk_is_translated_or_refused(client: Client) -> None:
    for number, case in enumerate(cases(client)):
        if case.path in {client.top, "contents[user].parts", "contents[model].parts"}:
            continue  # the walk puts more around these; the rich request has them, too
        translate_request(
            text_dialect(client.family), msgspec.json.encode(case.say(WRONG[number % len(WRONG)]))
        )
        translate_request(
            text_dialect(client.family), msgspec.json.encode(case.say(WRONG[(number + 5) % len(WRONG)]))
        )


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_depth_in_any_place_is_translated_or_refused(dialect: DialectName) -> None:
    """In brackets and braces, and in the schema's own ways of holding schemas."""
    body, written = REQUESTS[dialect], set[int]()
    marked = "@deep@"
    ways = [
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b'{"properties":{"a":' * DEEP + b"1" + b"}}" * DEEP,
        *(b'{"type":"ARRAY","items":' * deep + b"{}" + b"}" * deep for deep in NEARLY),
        *(b'{"anyOf":[' * (deep // 2) + b"{}" + b"]}" * (deep // 2) for deep in NEARLY),
        *(b'{"properties":{"a":' * (deep // 2) + b"{}" + b"}}" * (deep // 2) for deep in NEARLY),
    ]
    for place in paths(body):
        data = msgspec.json.encode(replaced(body, place, marked))
        way = ways[len(place) % len(ways)]
        translate_request(dialect, data.replace(b'"@deep@"', way), written)
        if HOLDING_SCHEMAS.intersection(map(str, place[-1:])):
            for way in ways:
                translate_request(dialect, data.replace(b'"@deep@"', way), written)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_odd_numbers_and_texts_in_any_place_are_translated_or_refused(dialect: DialectName) -> None:
    body, written = REQUESTS[dialect], set[int]()
    odd = [
        b"1e400",
        b"-0",
        b"1" * 400,
        b"9223372036854775808",
        b'"\\ud800"',
        b'"a\\udfffb"',
        b'"\\u0000"',
        b'"\xff"',
    ]
    odd += [b'"' + b"x" * 5000 + b'"', b"NaN", b"1.0", b"2.5"]
    for number, place in enumerate(paths(body)):
        data = msgspec.json.encode(replaced(body, place, "@odd@"))
        for one in (odd[number % len(odd)], *odd[4:6]):
            translate_request(dialect, data.replace(b'"@odd@"', one), written)


ARGUMENTS: Final[dict[DialectName, Path]] = {
    DialectName.OPENAI_CHAT: ("messages", 2, "tool_calls", 0, "function", "arguments"),
    DialectName.OPENAI_RESPONSES: ("input", 9, "arguments"),
}
"""Where those of a call stand as text."""


@pytest.mark.parametrize("dialect", ARGUMENTS)
def test_arguments_may_be_any_text(dialect: DialectName) -> None:
    body = REQUESTS[dialect]
    for text in [
        "[" * DEEP,
        '{"a":' * DEEP,
        '{"a":' * DEEP + "1" + "}" * DEEP,
        "{",
        "null",
        "[]",
        "\x00",
    ]:
        translate_request(dialect, msgspec.json.encode(replaced(body, ARGUMENTS[dialect], text)))


@given(
    body=st.binary(max_size=60) | st.text(max_size=20).map(str.encode) | RANDOM_JSON.map(msgspec.json.encode)
)
def test_any_bytes_are_translated_or_refused(body: bytes) -> None:
    for dialect in DIALECTS:
        note(dialect)
        translate_request(dialect, body)
