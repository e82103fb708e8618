"""How tokens divide and who served them: the same from whole answers, streams and sessions of a dialect."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.reply import NO_USAGE, Counted, ReplyEvent, TokenUsage, UsageParts
from mgw.dialects import dialect_of
from mgw.dialects.dialect import ReplySource
from mgw.dialects.gemini.usage import update_session_usage as update_live
from mgw.dialects.metering import add_usage, merge_usage
from mgw.dialects.openai.usage import update_session_usage as update_realtime
from mgw.nouns.vocabulary import DialectName

Json = dict[str, Any]  # Any: JSON
CHAT, RESPONSES = DialectName.OPENAI_CHAT, DialectName.OPENAI_RESPONSES
MESSAGES, GEMINI = DialectName.ANTHROPIC, DialectName.GEMINI


def completion(usage: Json, **fields: Any) -> Json:  # Any: JSON
    message = {"role": "assistant", "content": "x"}
    choice = {"index": 0, "message": message, "delta": message, "finish_reason": "stop"}
    return {"id": "c", "model": "m", "choices": [choice], "usage": usage, **fields}


def response(usage: Json, *more: Json, **fields: Any) -> Json:  # Any: JSON
    content = [{"type": "output_text", "text": "x", "annotations": []}]
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": content}
    return {"id": "r", "status": "completed", "model": "m", "output": [*more, item], "usage": usage, **fields}


def message(**usage: Any) -> Json:  # Any: JSON
    content = [{"type": "text", "text": "x"}]
    counts = {"input_tokens": 10, "output_tokens": 20, **usage}
    fields = {"id": "a", "type": "message", "role": "assistant", "model": "m", "content": content}
    return {**fields, "stop_reason": "end_turn", "stop_sequence": None, "usage": counts}


def candidate(**usage: Any) -> Json:  # Any: JSON
    content = {"role": "model", "parts": [{"text": "x"}]}
    metadata = {"promptTokenCount": 100, "candidatesTokenCount": 50, **usage}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": metadata,
    }


def kinds(**counts: int) -> list[Json]:
    return [{"modality": name, "tokenCount": count} for name, count in counts.items()]


OF_CHAT: Final = {"prompt_tokens": 100, "completion_tokens": 50}
OF_RESPONSES: Final = {"input_tokens": 100, "output_tokens": 50}
SEARCH: Final = {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search"}}
Said = UsageParts | str | tuple[UsageParts, str] | None
"""Parts, a service tier, both or neither."""
CASES: Final[dict[str, tuple[DialectName, Json, Said]]] = {
    "chat, nothing": (CHAT, completion(OF_CHAT), None),
    "chat, a tier": (CHAT, completion(OF_CHAT, service_tier="flex"), "flex"),
    "chat, a tier that is null": (CHAT, completion(OF_CHAT, service_tier=None), None),
    "chat, a tier that is no text": (CHAT, completion(OF_CHAT, service_tier={"a": 1}), None),
    "chat, a tier that is too long": (CHAT, completion(OF_CHAT, service_tier="x" * 80), None),
    "chat, a tier in two lines": (CHAT, completion(OF_CHAT, service_tier="a\nb"), None),
    "chat, kinds": (
        CHAT,
        completion(
            {
                **OF_CHAT,
                "prompt_tokens_details": {"audio_tokens": 40, "image_tokens": 7},
                "completion_tokens_details": {"audio_tokens": 30},
            },
            service_tier="default",
        ),
        (UsageParts(audio_in=40, image_in=7, audio_out=30), "default"),
    ),
    "chat, no kinds": (
        CHAT,
        completion({**OF_CHAT, "prompt_tokens_details": {"audio_tokens": 0, "image_tokens": None}}),
        None,
    ),
    "chat, odd kinds": (
        CHAT,
        completion(
            {**OF_CHAT, "prompt_tokens_details": {"audio_tokens": "7", "image_tokens": -1}},
        ),
        UsageParts(audio_in=7),
    ),
    "responses, a tier and searches": (
        RESPONSES,
        response(OF_RESPONSES, SEARCH, SEARCH, service_tier="priority"),
        (UsageParts(searches=2), "priority"),
    ),
    "responses, a cache of twelve hours": (
        RESPONSES,
        response(
            {
                **OF_RESPONSES,
                "input_tokens_details": {
                    "cached_tokens": 10,
                    "cache_write_tokens": 60,
                    "cache_write_tokens_details": {"ttl_12h_tokens": 45, "ttl_30m_tokens": 15},
                },
            }
        ),
        UsageParts(cache_write_12h=45),
    ),
    "messages, a tier and a place": (
        MESSAGES,
        message(service_tier="priority", inference_geo="us", server_tool_use=None),
        (UsageParts(inference_geo="us"), "priority"),
    ),
    "messages, fast": (
        MESSAGES,
        message(service_tier="standard", speed="fast"),
        "fast",
    ),
    "messages, not fast": (
        MESSAGES,
        message(service_tier="standard", speed="standard"),
        "standard",
    ),
    "messages, a cache of an hour": (
        MESSAGES,
        message(
            cache_creation_input_tokens=50,
            cache_creation={"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
        ),
        UsageParts(cache_write_1h=30),
    ),
    "messages, searches": (
        MESSAGES,
        message(server_tool_use={"web_search_requests": 3, "web_fetch_requests": 1}),
        UsageParts(searches=3),
    ),
    "gemini, text alone": (GEMINI, candidate(promptTokensDetails=kinds(TEXT=100)), None),
    "gemini, a tier": (GEMINI, candidate(serviceTier="priority"), "priority"),
    "gemini, Vertex": (
        GEMINI,
        candidate(trafficType="ON_DEMAND_FLEX"),
        "ON_DEMAND_FLEX",
    ),
    "gemini, kinds": (
        GEMINI,
        candidate(
            cachedContentTokenCount=60,
            promptTokensDetails=kinds(TEXT=10, AUDIO=80, IMAGE=10),
            cacheTokensDetails=kinds(AUDIO=50, IMAGE=4, TEXT=6),
            candidatesTokensDetails=kinds(IMAGE=40, TEXT=10),
        ),
        UsageParts(audio_in=80, image_in=10, cached_audio=50, cached_image=4, audio_out=None, image_out=40),
    ),
    "gemini, kinds of what tools found": (
        GEMINI,
        candidate(
            promptTokensDetails=kinds(AUDIO=80),
            toolUsePromptTokensDetails=[{"modality": "audio", "tokenCount": "5"}],
        ),
        UsageParts(audio_in=85),
    ),
    "gemini, odd kinds": (GEMINI, candidate(promptTokensDetails={"AUDIO": 1}), None),
}


def written(name: DialectName, document: Json) -> bytes:
    """Return a stream that ends with what the whole answer is."""
    match name:
        case DialectName.OPENAI_CHAT:
            usage = {**document, "choices": []}
            return b"".join(map(event, ({**document, "usage": None}, usage))) + b"data: [DONE]\n\n"
        case DialectName.OPENAI_RESPONSES:
            begin = {**document, "status": "in_progress", "output": [], "usage": None}
            return event({"type": "response.created", "response": begin}) + event(
                {"type": "response.completed", "response": document}
            )
        case DialectName.ANTHROPIC:
            usage = document["usage"]
            first = {**usage, "output_tokens": 1}
            tools = first.pop("server_tool_use", None)
            last = {"output_tokens": usage["output_tokens"], **({"server_tool_use": tools} if tools else {})}
            start = {**document, "content": [], "stop_reason": None, "usage": first}
            delta = {"stop_reason": "end_turn", "stop_sequence": None}
            return (
                event({"type": "message_start", "message": start})
                + event({"type": "message_delta", "delta": delta, "usage": last})
                + event({"type": "message_stop"})
            )
    return event(document)


def event(document: Json) -> bytes:
    kind = document.get("type")
    line = f"event: {kind}\n".encode() if kind else b""
    return line + b"data: %b\n\n" % json.dumps(document).encode()


def said_by(usage: TokenUsage) -> Said:
    if usage.service_tier is None or usage.parts is None:
        return usage.service_tier or usage.parts
    return usage.parts, usage.service_tier


@pytest.mark.parametrize(("name", "document", "said"), CASES.values(), ids=CASES)
def test_each_way_of_reading_finds_the_same_parts(name: DialectName, document: Json, said: Said) -> None:
    body, stream = json.dumps(document).encode(), written(name, document)
    dialect = dialect_of(name)
    provider = dialect.provider
    assert provider is not None
    whole = dialect.read_usage(body, NO_USAGE)
    assert whole.tokens_in is not None
    assert whole.tokens_out is not None
    passed = dialect.meter(b"text/event-stream")
    passed.feed(stream)
    passed.finish()
    translated = provider.text.parse_reply(body, ReplySource("s")).usage
    reader = provider.stream_reader("s")
    events: list[ReplyEvent] = [*reader.feed(stream), *reader.finish()]
    counted = [one.usage for one in events if isinstance(one, Counted)]
    for usage in (whole, passed.usage, translated, reader.usage, *counted[-1:]):
        assert (usage.tokens_in, usage.tokens_out) == (whole.tokens_in, whole.tokens_out)
        assert said_by(usage) == said


INTERACTION: Final = {
    "id": "i",
    "object": "interaction",
    "service_tier": "flex",
    "usage": {
        "total_input_tokens": 100,
        "total_output_tokens": 50,
        "input_tokens_by_modality": [{"modality": "audio", "tokens": 60}, {"modality": "text", "tokens": 40}],
        "output_tokens_by_modality": [{"modality": "audio", "tokens": 50}],
    },
}


@pytest.mark.parametrize(
    "document", [INTERACTION, {"event_type": "interaction.complete", "interaction": INTERACTION}]
)
def test_an_interaction_tells_its_parts(document: Json) -> None:
    usage = dialect_of(GEMINI).read_usage(json.dumps(document).encode(), NO_USAGE)
    assert said_by(usage) == (UsageParts(audio_in=60, audio_out=50), "flex")


def test_the_responses_of_a_session_add_up() -> None:
    details = {
        "cached_tokens": 40,
        "audio_tokens": 70,
        "text_tokens": 30,
        "cached_tokens_details": {"text_tokens": 10, "audio_tokens": 30, "image_tokens": 0},
    }
    usage = {
        "input_tokens": 100,
        "output_tokens": 50,
        "input_token_details": details,
        "output_token_details": {"audio_tokens": 45, "text_tokens": 5},
    }
    done = json.dumps({"type": "response.done", "response": {"usage": usage}}).encode()
    twice = update_realtime(done, update_realtime(done, NO_USAGE))
    assert twice.parts == UsageParts(audio_in=140, cached_audio=60, cached_image=0, audio_out=90)
    assert (twice.tokens_in, twice.cache_read) == (200, 80)


def test_the_turns_of_a_live_session_add_up() -> None:
    usage = {
        "promptTokenCount": 100,
        "responseTokenCount": 50,
        "promptTokensDetails": kinds(AUDIO=90, TEXT=10),
        "responseTokensDetails": kinds(AUDIO=50),
        "trafficType": "ON_DEMAND",
    }
    said = json.dumps({"serverContent": {"turnComplete": True}, "usageMetadata": usage}).encode()
    twice = update_live(said, update_live(said, NO_USAGE))
    assert said_by(twice) == (UsageParts(audio_in=180, audio_out=100), "ON_DEMAND")


def test_the_service_tier_of_a_duplex_is_the_last_one() -> None:
    usage = NO_USAGE
    for tier in ("priority", "default"):
        done = {"type": "response.completed", "response": response(OF_RESPONSES, SEARCH, service_tier=tier)}
        usage = update_realtime(json.dumps(done).encode(), usage)
    assert said_by(usage) == (UsageParts(searches=2), "default")


def test_an_answer_without_parts_keeps_nothing() -> None:
    assert dialect_of(CHAT).read_usage(json.dumps(completion(OF_CHAT)).encode(), NO_USAGE).parts is None


def test_answers_share_the_name_of_their_tier() -> None:
    body = json.dumps(completion(OF_CHAT, service_tier="default")).encode()
    one, other = (dialect_of(CHAT).read_usage(body, NO_USAGE) for _ in range(2))
    assert one.service_tier is not None
    assert one.service_tier is other.service_tier
    assert one.parts is other.parts is None


COUNTS = st.none() | st.integers(0, 1000)
WORDS = st.none() | st.sampled_from(["flex", "priority"])
PARTS = st.none() | st.builds(
    UsageParts, *[COUNTS] * (len(UsageParts.__struct_fields__) - 1), inference_geo=WORDS
)
USAGES = st.builds(TokenUsage, parts=PARTS, service_tier=WORDS)


@given(before=USAGES, now=USAGES)
def test_what_is_said_later_replaces_and_what_is_added_adds(before: TokenUsage, now: TokenUsage) -> None:
    merged, added = merge_usage(before, now), add_usage(before, now)
    last = before.service_tier if now.service_tier is None else now.service_tier
    assert merged.service_tier == added.service_tier == last
    for name in UsageParts.__struct_fields__:
        old, new, is_now, is_sum = (
            getattr(usage.parts, name, None) for usage in (before, now, merged, added)
        )
        last = old if new is None else new
        assert is_now == last
        numbers = [value for value in (old, new) if isinstance(value, int)]
        assert is_sum == (sum(numbers) if numbers else last)
