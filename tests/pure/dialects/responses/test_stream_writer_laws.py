"""Answers towards a client of Responses: any events make a legal stream, and it adds up to the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState

from mgw.canonical.conversation import (
    Citation,
    Media,
    MediaKind,
    Part,
    Refusal,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import (
    Alternative,
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    CallEnded,
    Candidate,
    CitationAdded,
    Counted,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    Reply,
    ReplyEvent,
    StopReason,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    TokenLogprob,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.responses.options import ResponseReplyOptions
from mgw.dialects.responses.reply import render_reply
from mgw.dialects.responses.schema import ClientTool, ToolKind
from mgw.dialects.responses.stream_writer import ResponsesStreamWriter
from mgw.dialects.responses.thoughts import Sealed, unseal
from mgw.dialects.signatures import TagKind
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from tests.support import one_draw as made
from tests.support.grammar.responses import (
    EVENTS_OF_THE_SDK,
    check_response,
    check_responses_stream,
    final_response,
)
from tests.support.laws import examples

if TYPE_CHECKING:
    from openai.types.responses import ResponseStreamEvent

TOOLS = {
    "patch": ClientTool(ToolKind.CUSTOM, "patch"),
    "mcp__find": ClientTool(ToolKind.FUNCTION, "find", "mcp"),
    "mcp__raw": ClientTool(ToolKind.CUSTOM, "raw", "mcp"),
    "local_shell": ClientTool(ToolKind.LOCAL_SHELL, "local_shell"),
    "shell": ClientTool(ToolKind.SHELL, "shell"),
    "apply_patch": ClientTool(ToolKind.APPLY_PATCH, "apply_patch"),
    "tool_search": ClientTool(ToolKind.TOOL_SEARCH, "tool_search"),
}
ECHOED = {"instructions": "be brief", "tools": [{"type": "custom", "name": "patch"}], "metadata": {"a": "b"}}
CONTEXT = ReplyContext("req_1", "model-1", 1_770_000_000, ResponseReplyOptions(TOOLS, ECHOED))
PLAIN = ReplyContext("req_1", "model-1", 1_770_000_000)
USAGE = TokenUsage(10, 5, 3, 1, 2)
ARGUMENTS = [
    "",
    "null",
    "{}",
    '{"a":"}"}',
    '{"input": "*** a\\n\\u00e9\\ud83d\\ude00"}',
    '{"command": ["ls", "-l"], "timeout_ms": 5, "more": 1}',
    '{"commands": ["ls"]}',
    '{"operation": {"type": "update_file", "path": "a", "diff": "+b"}}',
    '{"operation": {"type": "delete_file", "path": "a"}}',
    "no object",
]

words = made.text('ab é\u2028"\\\n☃', least=1, most=5)
signatures = made.builds(
    Signature, made.sampled_from([Family.ANTHROPIC, Family.GEMINI]), made.sampled_from(["", "c2ln", "sig"])
)
citations = made.builds(Citation, made.sampled_from([None, "https://a"]), end=made.none() | made.just(1))
tokens = made.builds(
    TokenLogprob, words, made.just(-0.5), made.just(()) | made.just((Alternative("é", -1.0),))
)
images = made.builds(
    Media,
    made.sampled_from(MediaKind),
    made.sampled_from([None, "image/webp"]),
    made.none() | made.just("aWs="),
)
texts = made.builds(
    Text, words, citations=made.lists(citations, most=2).map(tuple), signature=made.none() | signatures
)
redacted = made.builds(Signature, made.just(Family.ANTHROPIC), words, made.just(value=True))
thoughts = made.builds(Thinking, words, made.none() | signatures) | made.builds(
    Thinking, made.just(""), redacted
)
names = made.sampled_from([*TOOLS, "f"])
arguments = made.sampled_from(ARGUMENTS)
calls = made.builds(ToolCall, made.sampled_from(["", "c1", "c2"]), names, arguments, made.none() | signatures)
kinds_of_parts: made.Made[Part] = texts | thoughts | images | calls | made.builds(Refusal, words)
some_parts = made.of_some(kinds_of_parts, 3, lambda some: made.lists(some, most=7))
candidates = made.builds(
    Candidate,
    some_parts.map(tuple),
    made.sampled_from(StopReason),
    logprobs=made.lists(tokens, most=2).map(tuple),
)
replies = made.builds(
    Reply,
    made.lists(candidates, least=1, most=2).map(tuple),
    made.none() | made.just("msg_1"),
    made.none() | made.just("model-2"),
    made.sampled_from([TokenUsage(), USAGE]),
)
numbers = made.integers(0, 2)
candidate_numbers = made.sampled_from([0, 0, 0, 0, 1])
events: made.Made[ReplyEvent] = made.one_of(
    made.builds(Began, made.just("msg_1"), made.just("model-2")),
    made.builds(TextAdded, words | made.just(""), candidate_numbers),
    made.builds(TextSigned, signatures),
    made.builds(ThinkingAdded, words | made.just("")),
    made.builds(ThinkingSigned, signatures | redacted),
    made.builds(RefusalAdded, words),
    made.builds(CitationAdded, citations),
    made.builds(MediaAdded, images),
    made.builds(LogprobsAdded, made.lists(tokens, most=2).map(tuple)),
    made.builds(CallBegan, numbers, made.sampled_from(["", "c1"]), names, made.none() | signatures),
    made.builds(ArgumentsAdded, numbers, words | arguments),
    made.builds(CallEnded, numbers, candidate_numbers),
    made.builds(Counted, made.just(USAGE)),
)
groups = made.of_some(events, 4, lambda some: made.lists(made.lists(some, most=8), most=4))


def streamed(events: Iterable[ReplyEvent], context: ReplyContext = CONTEXT) -> bytes:
    writer = ResponsesStreamWriter(context)
    return writer.write(events) + writer.finish()


def events_of(stream: bytes) -> list[dict[str, Any]]:  # Any: JSON as it was found
    return [json.loads(line[6:]) for line in stream.split(b"\n") if line.startswith(b"data: ")]


def comparable(response: dict[str, Any]) -> dict[str, Any]:  # Any: JSON as it was found
    """What a response says: null and absence are one, and so are an integer and its float."""
    kept: dict[str, Any] = json.loads(
        json.dumps(response),
        object_hook=lambda found: {key: value for key, value in found.items() if value is not None},
    )
    for item in kept["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return kept


@examples(100)
@given(
    made.drawn(groups, 256),
    st.sampled_from(StopReason),
    st.sampled_from(["ended", "failed", "broke", "unended"]),
)
def test_any_events_in_any_groups_make_a_legal_stream(
    groups: list[list[ReplyEvent]], stop: StopReason, end: str
) -> None:
    writer, together = ResponsesStreamWriter(CONTEXT), ResponsesStreamWriter(CONTEXT)
    stream = b"".join(writer.write(group) + writer.keepalive() for group in groups)
    whole = together.write(event for group in groups for event in group)
    assert stream.replace(b": ping\n\n", b"") == whole
    if end == "failed":
        stream += writer.fail(GatewayError(Reason.UPSTREAM_BROKEN, "it broke"))
    else:
        last: dict[str, ReplyEvent] = {"ended": Ended(stop), "broke": Broke(UpstreamError(429, "slow"))}
        stream += writer.write([last[end]] if end in last else []) + writer.finish()
    check_responses_stream(stream, broken=end != "ended")
    assert writer.broken is (end != "ended")
    assert writer.write([TextAdded("more")]) == writer.finish() == writer.keepalive() == b""


@examples(100)
@given(made.drawn(replies, 256))
def test_a_stream_ends_with_the_whole_answer(reply: Reply) -> None:
    stream, whole = streamed(replay_reply(reply)), render_reply(reply, CONTEXT)
    check_responses_stream(stream)
    check_response(whole)
    assert final_response(stream) == json.loads(whole)


@examples(15)
@given(made.drawn(replies, 256))
def test_the_sdk_gathers_the_same_answer_from_a_stream(reply: Reply) -> None:
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    events = events_of(streamed(replay_reply(reply)))
    for event in events:
        state.handle_event(
            cast("ResponseStreamEvent", EVENTS_OF_THE_SDK[event["type"]].model_validate(event))
        )
    final = events[-1]
    if final["type"] == "response.completed":
        gathered = state._completed_response
        assert gathered is not None
        assert comparable(gathered.to_dict(mode="json")) == comparable(final["response"])


def kept_by_vercel(stream: bytes) -> list[Sealed | str]:
    """What a client has that builds summaries from deltas and keeps ids and ``encrypted_content``."""
    summaries: dict[str, str] = {}
    kept: list[Sealed | str] = []
    for event in events_of(stream):
        match event["type"]:
            case "response.reasoning_summary_text.delta":
                summaries[event["item_id"]] = summaries.get(event["item_id"], "") + event["delta"]
            case "response.output_item.done" if event["item"]["type"] == "reasoning":
                sealed = unseal(event["item"]["encrypted_content"])
                assert sealed is not None
                assert sealed.words == summaries.get(event["item"]["id"], "")
                kept.append(sealed)
            case "response.output_item.done":
                kept.append(event["item"]["type"])
    return kept


def expected_thoughts(parts: list[Part]) -> list[Sealed]:
    """What a client has to give back: the words of a thought up to its signature, or up to something else."""
    expected: list[Sealed] = []
    words = ""
    for part in [*parts, Refusal("end")]:
        signature = None if isinstance(part, Media | Refusal | ToolResult) else part.signature
        if isinstance(part, Thinking) and not (signature and signature.redacted):
            words += part.text
            if signature is not None:
                expected.append(Sealed(TagKind.THOUGHT, signature, words))
                words = ""
            continue
        if words and not (isinstance(part, Media) and not is_shown(part)):
            expected.append(Sealed(TagKind.THOUGHT, Signature(Family.OPENAI, ""), words))
            words = ""
        if signature is not None:
            expected.append(Sealed(KINDS[type(part)], signature))
    return expected


def is_shown(media: Media) -> bool:
    return media.kind is MediaKind.IMAGE and media.data is not None


KINDS: dict[type[Part], TagKind] = {
    Thinking: TagKind.REDACTED,
    ToolCall: TagKind.ADJACENT,
    Text: TagKind.PRECEDING,
}


@settings(deadline=None)
@given(made.drawn(some_parts, 256))
def test_thoughts_and_signatures_come_back_in_their_places(parts: list[Part]) -> None:
    reply = Reply((Candidate(tuple(parts), StopReason.END),))
    found = kept_by_vercel(streamed(replay_reply(reply)))
    assert [one for one in found if isinstance(one, Sealed)] == expected_thoughts(parts)
    for place, one in enumerate(found):
        if isinstance(one, Sealed) and one.kind is TagKind.ADJACENT:
            assert str(found[place + 1]).endswith("_call")
        elif isinstance(one, Sealed) and one.kind is TagKind.PRECEDING:
            assert found[place - 1] == "message"
