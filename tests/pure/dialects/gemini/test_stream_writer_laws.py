"""Any events in any order make a legal stream for Google's clients."""

from __future__ import annotations

import json
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.conversation import Citation, Part, Text, Thinking, ToolCall
from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    CallEnded,
    Candidate,
    CitationAdded,
    Counted,
    Ended,
    RefusalAdded,
    Reply,
    ReplyEvent,
    StopReason,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.gemini import CLIENT
from tests.support import one_draw as made
from tests.support.gemini_streams import ARRAY, FOREIGN, SSE, Json, chunks_of, parts_of, whole, writer

# Laws -----------------------------------------------------------------------------------------------------

CANDIDATES: Final = made.integers(0, 1)
CALLS: Final = made.integers(0, 2)
TEXT: Final = made.sampled_from(["", "a", '{"a":1}', '{\n"a":\r\n1\r}', "{", "\u20ac"])
EVENTS: Final = made.one_of(
    made.builds(Began, made.just("r"), made.just("m")),
    made.builds(TextAdded, TEXT, CANDIDATES),
    made.builds(ThinkingAdded, TEXT, CANDIDATES),
    made.builds(ThinkingSigned, made.just(FOREIGN), CANDIDATES),
    made.builds(TextSigned, made.just(FOREIGN), CANDIDATES),
    made.builds(RefusalAdded, TEXT, CANDIDATES),
    made.builds(CitationAdded, made.just(Citation("u")), CANDIDATES),
    made.builds(CallBegan, CALLS, made.just("1"), made.just("f"), made.none(), CANDIDATES),
    made.builds(ArgumentsAdded, CALLS, TEXT, CANDIDATES),
    made.builds(CallEnded, CALLS, CANDIDATES),
    made.builds(Counted, made.just(TokenUsage(3, 2))),
    made.builds(Ended, made.sampled_from(StopReason), made.none(), made.none(), CANDIDATES),
    made.just(Broke(UpstreamError(500, "no"))),
)


@settings(deadline=None)
@given(
    groups=made.drawn(
        made.of_some(EVENTS, 4, lambda some: made.lists(made.lists(some, most=4), most=8)), 256
    ),
    in_array=st.booleans(),
)
def test_any_order_of_events_gives_a_legal_stream(groups: list[list[ReplyEvent]], in_array: bool) -> None:
    answering = ARRAY if in_array else SSE
    one = writer(answering)
    data = b"".join(one.write(group) for group in groups) + one.finish()
    assert data == whole(*[event for group in groups for event in group], answering=answering)
    check(chunks_of(data))


def check(chunks: list[Json]) -> None:
    """The grammar: whole responses, then the one that ends every candidate, or an error."""
    *before, last = chunks
    for one in before:
        (candidate,) = one["candidates"]
        assert "finishReason" not in candidate
        (part,) = candidate["content"]["parts"]
        assert ("text" in part) != ("functionCall" in part)
        assert candidate["content"]["role"] == "model"
    if "error" in last:
        assert set(last) == {"error"}
        return
    spoken = {one["candidates"][0]["index"] for one in before}
    assert spoken <= {candidate["index"] for candidate in last["candidates"]}
    assert all(candidate["finishReason"] for candidate in last["candidates"])


PARTS: Final = made.lists(
    made.one_of(
        made.builds(Text, made.sampled_from(["a", "b\u20ac"])),
        made.builds(Thinking, made.sampled_from(["", "hm"]), made.just(FOREIGN)),
        made.builds(
            ToolCall, made.sampled_from("12"), made.just("f"), made.sampled_from(["{}", "", "{", '{"a":1}'])
        ),
    ),
    most=5,
)


def test_calls_stand_where_the_whole_answer_has_them() -> None:
    """One without arguments, which is complete when something follows it; others as they began."""
    events: list[ReplyEvent] = [
        Began(),
        CallBegan(0, "1", "f"),
        CallEnded(0),
        TextAdded("a"),
        CallBegan(1, "2", "g"),
        CallBegan(2, "3", "h"),
        ArgumentsAdded(2, '{"b":1}'),
        CallEnded(2),
        ArgumentsAdded(1, '{"a":1}'),
        CallEnded(1),
        Ended(StopReason.LENGTH),
    ]
    rendered = [part.get("text", "") or part["functionCall"]["name"] for part in parts_of(*events)[:-1]]
    assert rendered == ["f", "a", "g", "h"]


@settings(deadline=None)
@given(parts=made.drawn(PARTS, 64), stop=st.sampled_from(StopReason))
def test_a_stream_says_what_the_whole_answer_says(parts: list[Part], stop: StopReason) -> None:
    reply = Reply((Candidate(tuple(parts), stop),), "r", "m", TokenUsage(3, 2, reasoning=1))
    unary = json.loads(CLIENT.text.render_reply(reply, SSE))
    chunks = chunks_of(whole(*replay_reply(reply)))
    pieces = [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]
    unread = any(isinstance(part, ToolCall) and part.arguments == "{" for part in parts)
    whole_parts = unary["candidates"][0]["content"]["parts"]
    assert merged(pieces, calls_last=unread) == merged(whole_parts, calls_last=unread)
    last = chunks[-1]
    assert last["usageMetadata"] == unary["usageMetadata"]
    assert last["candidates"][0]["finishReason"] == unary["candidates"][0]["finishReason"]


def merged(parts: list[Json], *, calls_last: bool) -> list[Json]:
    """Join what came in pieces; calls that cannot be read wait for the end."""
    found: list[Json] = []
    for part in sorted(parts, key=lambda part: calls_last and "functionCall" in part):
        if part == {"text": ""}:
            continue
        joins = found and "text" in part and "text" in found[-1] and "thoughtSignature" not in found[-1]
        if joins and found[-1].get("thought") == part.get("thought"):
            found[-1] = {**part, "text": found[-1]["text"] + part["text"]}
        else:
            found.append(part)
    return found
