"""What whole answers keep to, read and written."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest

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
)
from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import CallBegan, Candidate, Reply, StopReason, TokenUsage
from mgw.dialects.anthropic.reply import parse_reply, render_reply
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.dialects.signatures import tag_signature
from mgw.dialects.tool_names import restore_names_in_events, restore_names_in_reply
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from tests.support.grammar import check_message

ANSWERING = ReplyContext("req_1", "claude", 0)


OWN = Signature(Family.ANTHROPIC, "c2ln")


GEMINIS = Signature(Family.GEMINI, "Zm9v")


MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "cmVk"},
        {
            "type": "text",
            "text": "I look.",
            "citations": [
                {"type": "web_search_result_location", "url": "https://x", "title": "X", "cited_text": "x"},
                {"type": "char_location", "document_index": 0, "cited_text": "y"},
            ],
        },
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
        {"type": "hologram", "text": 7},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"z": 1.50, "a": []}},
        {"type": "tool_use", "name": "wait", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 100,
        "output_tokens": 20,
        "output_tokens_details": {"thinking_tokens": 7},
    },
}


def whole(*parts: Part, stop: StopReason = StopReason.END, **fields: Any) -> Reply:
    return Reply((Candidate(parts, stop),), **fields)


def render(reply: Reply) -> dict[str, Any]:
    body = render_reply(reply, ANSWERING)
    check_message(body)
    found: dict[str, Any] = json.loads(body)
    return found


def parse(**changes: object) -> Reply:
    return parse_reply(json.dumps({**MESSAGE, **changes}).encode(), ReplySource("seed"))


def test_a_response_is_parsed_whole() -> None:
    reply = parse()
    assert (reply.id, reply.model) == ("msg_1", "claude-opus-5-5")
    assert reply.usage == TokenUsage(115, 20, 100, 5, 7)
    (candidate,) = reply.candidates
    assert candidate.stop is StopReason.TOOL_USE
    *parts, made = candidate.parts
    assert parts == [
        Thinking("Hm.", OWN),
        Thinking("", Signature(Family.ANTHROPIC, "cmVk", redacted=True)),
        Text("I look.", citations=(Citation("https://x", "X", 0, 7),)),
        ToolCall("toolu_1", "look", '{"z":1.5,"a":[]}'),
    ]
    assert isinstance(made, ToolCall)
    assert made.id.startswith("call_")
    assert made.id == parse().candidates[0].parts[-1].id  # type: ignore[union-attr]  # a call, as above


@pytest.mark.parametrize(
    ("stop_reason", "calls", "expected", "unknown"),
    [
        ("end_turn", False, StopReason.END, None),
        ("end_turn", True, StopReason.TOOL_USE, None),
        ("pause_turn", False, StopReason.END, None),
        ("stop_sequence", False, StopReason.STOP_SEQUENCE, None),
        ("max_tokens", True, StopReason.LENGTH, None),
        ("model_context_window_exceeded", False, StopReason.LENGTH, None),
        ("refusal", True, StopReason.REFUSAL, None),
        ("eclipse", False, StopReason.END, "eclipse"),
        (None, False, StopReason.END, None),
    ],
)
def test_stop_reasons_follow_the_table(
    stop_reason: str | None, calls: bool, expected: StopReason, unknown: str | None
) -> None:
    content = [{"type": "tool_use", "id": "t", "name": "f", "input": {}}] if calls else []
    (candidate,) = parse(stop_reason=stop_reason, content=content).candidates
    assert (candidate.stop, candidate.unknown_stop) == (expected, unknown)


def test_the_words_of_a_refusal_are_passed_on() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "I must not."}
    (candidate,) = parse(stop_reason="refusal", content=[], stop_details=details).candidates
    assert candidate.parts == (Refusal("I must not."),)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"content": 1}', b"{" * 100_000], ids=range(6)
)
def test_what_is_no_message_is_a_broken_upstream(body: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_reply(body, ReplySource("seed"))
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


def test_a_response_is_rendered_as_the_sdk_reads_it() -> None:
    body = render_reply(parse(), ANSWERING)

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body, headers={"content-type": "application/json"})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    with anthropic.Anthropic(api_key="k", http_client=http, _strict_response_validation=True) as client:
        message = client.messages.create(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "Hi"}]
        )
    assert [block.type for block in message.content] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (10, 100)
    assert message.usage.output_tokens_details is not None
    assert message.usage.output_tokens_details.thinking_tokens == 7


def test_what_is_parsed_is_rendered_again() -> None:
    found = render(parse())
    expected = [block for block in MESSAGE["content"] if block["type"] not in {"server_tool_use", "hologram"}]
    assert found["content"][:2] == expected[:2]
    assert found["content"][2] == {"type": "text", "text": "I look."}
    assert found["content"][3] == expected[3]
    for key in ("id", "type", "role", "model", "stop_reason", "stop_sequence", "usage"):
        assert found[key] == MESSAGE[key]


def test_what_the_upstream_does_not_say_is_filled_in() -> None:
    found = render(whole(Text("Hi")))
    assert (found["id"], found["model"]) == ("msg_req_1", "claude")
    assert found["usage"] == {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
    }


def test_neighbouring_texts_are_one_block_and_empty_ones_none() -> None:
    found = render(whole(Text("a"), Text(""), Text("b"), Thinking("t", OWN), Text("c")))
    assert [block["type"] for block in found["content"]] == ["text", "thinking", "text"]
    assert found["content"][0]["text"] == "ab"


def test_thoughts_of_others_travel_tagged() -> None:
    found = render(whole(Thinking("Ach.", GEMINIS), Thinking("So.", Signature(Family.OPENAI, ""))))
    assert [block["signature"] for block in found["content"]] == [
        tag_signature(GEMINIS, "Ach."),
        tag_signature(Signature(Family.OPENAI, ""), "So."),
    ]


@pytest.mark.parametrize(
    ("before", "kinds", "thinking"),
    [
        ((Thinking("Ach.", Signature(Family.GEMINI, "")),), ["thinking", "tool_use"], "Ach."),
        ((Thinking("Ach.", GEMINIS),), ["thinking", "thinking", "tool_use"], ""),
        ((Text("I look."),), ["text", "thinking", "tool_use"], ""),
        ((), ["thinking", "tool_use"], ""),
    ],
    ids=["unsigned thought", "signed thought", "text", "nothing"],
)
def test_a_calls_signature_is_that_of_a_thought_before_it(
    before: tuple[Part, ...], kinds: list[str], thinking: str
) -> None:
    signature = Signature(Family.GEMINI, "YmFy")
    found = render(whole(*before, ToolCall("1", "look", "{}", signature)))
    assert [block["type"] for block in found["content"]] == kinds
    assert found["content"][-2] == {
        "type": "thinking",
        "thinking": thinking,
        "signature": tag_signature(signature, thinking),
    }
    assert found["stop_reason"] == "tool_use"


def test_a_refusal_is_a_text_and_its_stop_reason() -> None:
    found = render(whole(Refusal("No.")))
    assert found["content"] == [{"type": "text", "text": "No."}]
    assert found["stop_reason"] == "refusal"
    assert found["stop_details"] == {"type": "refusal", "category": None, "explanation": None}


def test_media_are_described_in_a_text_of_their_own() -> None:
    image = Media(MediaKind.IMAGE, "image/png", data="AAAA")
    found = render(whole(Text("Here: "), image, Text("Nice?")))
    assert [block["type"] for block in found["content"]] == ["text", "text", "text"]
    assert "image (image/png)" in found["content"][1]["text"]


def test_only_the_first_candidate_is_rendered() -> None:
    reply = Reply((Candidate((Text("a"),), StopReason.END), Candidate((Text("b"),), StopReason.END)))
    assert [block["text"] for block in render(reply)["content"]] == ["a"]
    assert render(Reply(()))["content"] == []


@pytest.mark.parametrize(
    ("reply", "reason", "sequence"),
    [
        (whole(Text("x"), stop=StopReason.LENGTH), "max_tokens", None),
        (whole(stop=StopReason.REFUSAL), "refusal", None),
        (Reply((Candidate((), StopReason.STOP_SEQUENCE, "END"),)), "stop_sequence", "END"),
        (whole(stop=StopReason.STOP_SEQUENCE), "end_turn", None),
        (whole(stop=StopReason.TOOL_USE), "end_turn", None),
        (whole(ToolCall("1", "f", "{"), stop=StopReason.LENGTH), "max_tokens", None),
    ],
)
def test_the_stop_reason_is_rendered_in_the_words_of_this_api(
    reply: Reply, reason: str, sequence: str | None
) -> None:
    found = render(reply)
    assert (found["stop_reason"], found["stop_sequence"]) == (reason, sequence)


def test_names_of_tools_are_led_back() -> None:
    reply = whole(Text("x"), ToolCall("1", "a_b", "{}"), ToolCall("2", "c", "{}"))
    names = {"a_b": "a.b"}
    back = restore_names_in_reply(reply, names)
    assert [part.name for part in back.candidates[0].parts if isinstance(part, ToolCall)] == ["a.b", "c"]
    events = restore_names_in_events(replay_reply(reply), names)
    assert [event.name for event in events if isinstance(event, CallBegan)] == ["a.b", "c"]
    assert restore_names_in_reply(reply, {}) is reply


@pytest.mark.parametrize(
    "intervened",
    [{"amazon-bedrock-guardrailAction": "INTERVENED"}, {"stop_reason": "guardrail_intervened"}],
)
def test_a_guardrail_of_the_hosts_that_intervenes_is_a_refusal(intervened: dict[str, str]) -> None:
    message = {"content": [{"type": "text", "text": "Sorry."}], "stop_reason": "end_turn", **intervened}
    [candidate] = parse_reply(json.dumps(message).encode(), ReplySource("seed")).candidates
    assert (candidate.stop, candidate.unknown_stop) == (StopReason.REFUSAL, None)
    assert candidate.parts == (Text("Sorry."),)


@pytest.mark.parametrize("action", ["NONE", None, 7, {}])
def test_a_guardrail_that_does_not_intervene_changes_nothing(action: object) -> None:
    message = {"content": [], "stop_reason": "end_turn", "amazon-bedrock-guardrailAction": action}
    [candidate] = parse_reply(json.dumps(message).encode(), ReplySource("seed")).candidates
    assert candidate.stop is StopReason.END
