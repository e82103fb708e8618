"""The law of round trips: what is mapped both ways comes back the same after there and back.

A client's request is translated for another family, read as that family reads it, translated back, and read
again.  The fields that the tables of ``docs/translation.rst`` call mapped in both directions have to agree;
what was said, called and answered has to agree always.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, note

from mgw.canonical.conversation import (
    Conversation,
    Media,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import RequestContext
from mgw.nouns.families import text_dialect
from mgw.nouns.vocabulary import Family
from tests.support.drawn_requests import (
    CHAT,
    DRAWN_REQUESTS,
    GEMINI,
    MESSAGES,
    PATHS,
    SAMPLING,
    Body,
    DrawnRequest,
    is_said_alike,
    written,
)
from tools.translation.accounting import TARGETS, Target
from tools.translation.field_cases import CLIENTS, Client
from tools.translation.tables import MAPPED, outcomes, word_of

CLIENT_OF: Final = {client.family: client for client in CLIENTS}
TARGET_OF: Final = {target.family: target for target in TARGETS if target.name != "openai_compat"}
PAIRS: Final = [(one, other) for one in Family for other in Family if one is not other]
# What comes back ------------------------------------------------------------------------------------------


def there_and_back(body: Body, stream: bool, one: Family, other: Family) -> tuple[Conversation, Conversation]:
    """Return a client's request as it was understood, at first and after its way."""
    asked = RequestContext("a-model", stream)
    first = client_side_of(text_dialect(one)).text.parse_request(msgspec.json.encode(body), asked).request
    there = provider_side_of(text_dialect(other)).text.render_request(first, TARGET_OF[other].setting)
    read = client_side_of(text_dialect(other)).text.parse_request(there.body, asked).request
    back = provider_side_of(text_dialect(one)).text.render_request(read, TARGET_OF[one].setting)
    return first, client_side_of(text_dialect(one)).text.parse_request(back.body, asked).request


Said = tuple[Any, ...]  # Any: a word for what it is, then texts and JSON


def said(conversation: Conversation) -> list[tuple[Role, list[Said]]]:
    """Return what was said by whom, however it was cut into turns."""
    found: list[tuple[Role, list[Said]]] = []
    for turn in conversation.turns:
        if not found or found[-1][0] is not turn.role:
            found.append((turn.role, []))
        for part in turn.parts:
            match part:
                case Text():
                    found[-1][1].append(("text", part.text))
                case Media():
                    found[-1][1].append(("media", part.kind, part.media_type, part.data))
                case ToolCall():
                    found[-1][1].append(("call", part.id, part.name, part.arguments))
                case ToolResult():
                    texts = [inner.text for inner in part.parts if isinstance(inner, Text)]
                    found[-1][1].append(("result", part.call_id, *texts))
    return found


@cache
def is_mapped(name: str, one: Family, other: Family) -> bool:
    """Whether the tables say that a field goes over and comes back."""
    paths = PATHS[name]
    return (
        one in paths
        and other in paths
        and _word(CLIENT_OF[one], TARGET_OF[other], paths[one]) == MAPPED
        and _word(CLIENT_OF[other], TARGET_OF[one], paths[other]) == MAPPED
    )


def _word(client: Client, target: Target, path: str) -> str | None:
    return word_of(outcomes(client, target)[path][1])


def plain_of(conversation: Conversation, name: str) -> Any:  # Any: numbers, texts and lists of them
    return getattr(conversation.sampling if name in SAMPLING else conversation, name)


def is_mapped_alike(first: Conversation, last: Conversation, one: Family, other: Family) -> None:
    """Hold what the tables call mapped in both directions."""
    for name in PATHS:
        if is_mapped(name, one, other) and plain_of(first, name) not in (None, ()):
            assert (name, plain_of(last, name)) == (name, plain_of(first, name))


def is_told_alike(first: Conversation, last: Conversation) -> None:
    """Hold what was said, called and answered."""
    assert said(last) == said(first)
    assert [text.text for text in last.system] == [text.text for text in first.system]


def is_equipped_alike(first: Conversation, last: Conversation) -> None:
    """Hold tools, formats and efforts."""
    assert [(tool.name, tool.description, tool.schema) for tool in last.tools] == [
        (tool.name, tool.description, tool.schema) for tool in first.tools
    ]
    assert last.tool_choice == first.tool_choice
    assert (last.output and last.output.schema) == (first.output and first.output.schema)
    assert last.reasoning.effort == first.reasoning.effort
    assert last.stream == first.stream


@given(drawn=DRAWN_REQUESTS)
def test_a_request_comes_back_the_same(drawn: DrawnRequest) -> None:
    """By every way at once: to draw a request and to send it there and back takes longer than to compare."""
    bodies = {family: written(drawn, family) for family in Family}
    for one, other in PAIRS:
        note(f"{CLIENT_OF[one].name} by way of {CLIENT_OF[other].name}")
        first, last = there_and_back(bodies[one], drawn.stream, one, other)
        is_mapped_alike(first, last, one, other)
        is_told_alike(first, last)
        is_equipped_alike(first, last)


@given(drawn=DRAWN_REQUESTS)
def test_a_wish_says_in_every_wire_what_it_means(drawn: DrawnRequest) -> None:
    for family in Family:
        note(CLIENT_OF[family].name)
        body = msgspec.json.encode(written(drawn, family))
        parsed = client_side_of(text_dialect(family)).text.parse_request(
            body, RequestContext("a-model", drawn.stream)
        )
        assert not parsed.unread
        assert [text for text, *_ in said(parsed.request)[-1:]] == [Role.USER]
        assert ("text", drawn.last) in said(parsed.request)[-1][1]
        for name, value in drawn.plain.items():
            if family in PATHS[name]:
                found = plain_of(parsed.request, name)
                assert (list(found) if name == "stop" else found) == value


@pytest.mark.parametrize(
    ("result", "is_alike"),
    [
        ("fine", True),
        ("7", True),
        ("[]", True),
        ('{"a":"b"}', True),
        ("{", True),
        ('{"result":"0"}', False),
        ('{"output":{}}', False),
        ('{"error":"a","b":1}', False),
        ('{"a": "b"}', False),
        ('{"a":1e2}', False),
    ],
)
def test_no_result_is_drawn_that_one_of_the_wires_says_otherwise(result: str, is_alike: bool) -> None:
    assert is_said_alike(result) is is_alike


def test_the_tables_map_some_field_both_ways_for_every_pair() -> None:
    mapped = {
        (one, other): {name for name in PATHS if is_mapped(name, one, other)}
        for one in Family
        for other in Family
        if one is not other
    }
    assert mapped[CHAT, MESSAGES] >= {"temperature", "top_p", "max_tokens", "stop", "user"}
    assert mapped[CHAT, GEMINI] >= {"temperature", "top_p", "seed", "candidates", "logprobs", "top_logprobs"}
    assert mapped[MESSAGES, GEMINI] >= {"temperature", "top_p", "top_k", "max_tokens", "stop"}
    assert all(mapped[one, other] == mapped[other, one] for one, other in mapped)
