"""OpenAI's realtime sessions in memory: what each event leads to."""

import base64
from typing import Any, Final

import pytest

from tests.memory.mgw_sim.websocket import REALTIME, WebSocketClient

TEXT: Final = {"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}}
RESPOND: Final = {"type": "response.create"}
SPEECH: Final = base64.b64encode(b"\1\1" * 4800).decode()  # 200 ms
SILENCE: Final = base64.b64encode(bytes(4800)).decode()  # 100 ms


def said(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "user", "content": content},
    }


def heard(audio: str) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", "audio": audio}


def session(model: str = "m") -> WebSocketClient:
    client = WebSocketClient(REALTIME + model)
    [created] = client.messages()
    assert (created["type"], created["session"]["model"]) == ("session.created", model.replace("+", " "))
    return client


def types_of(events: list[Any]) -> list[str]:
    return [event["type"] for event in events]


def test_a_text_response_has_every_event_in_order() -> None:
    client = session()
    client.ask(TEXT, said("hi"))
    assert types_of(client.ask(RESPOND)) == [
        "response.created",
        "rate_limits.updated",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]


def test_speech_comes_with_its_transcript_and_counts_as_both() -> None:
    client = session("m+sim-cached-2")
    *events, done = client.ask(said("hi"), RESPOND)
    transcript = [event["delta"] for event in events if event["type"].endswith("audio_transcript.delta")]
    audio = [event["delta"] for event in events if event["type"] == "response.output_audio.delta"]
    assert "".join(transcript) == "You said: hi"
    assert sum(len(base64.b64decode(piece)) for piece in audio) == 3 * 960
    usage = done["response"]["usage"]
    assert usage["output_token_details"] == {"text_tokens": 3, "audio_tokens": 3}
    assert usage["input_token_details"]["cached_tokens"] == 1
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] == 7


def test_what_is_cached_is_text_first() -> None:
    client = session("m+sim-cached-4")
    *_, done = client.ask(said("a b"), heard(SPEECH), heard(SILENCE))
    details = done["response"]["usage"]["input_token_details"]
    assert (details["text_tokens"], details["audio_tokens"], details["cached_tokens"]) == (2, 3, 4)
    assert details["cached_tokens_details"] == {"text_tokens": 2, "audio_tokens": 2, "image_tokens": 0}


def test_a_part_of_a_token_of_audio_is_one() -> None:
    client = session()
    part = {"type": "input_audio", "audio": base64.b64encode(bytes(48 * 150)).decode()}
    item = {"type": "message", "role": "user", "content": [part]}
    *_, done = client.ask({"type": "conversation.item.create", "item": item}, RESPOND)
    assert done["response"]["usage"]["input_token_details"]["audio_tokens"] == 2


def test_a_second_turn_begins_behind_the_first() -> None:
    client = session()
    client.ask(heard(SPEECH), heard(SILENCE))
    [started] = client.ask(heard(SPEECH))
    assert started["audio_start_ms"] == 300


def test_a_response_ends_where_its_room_does() -> None:
    client = session()
    limited = {"output_modalities": ["text"], "max_output_tokens": 2}
    *_, done = client.ask(said("a b c"), {**RESPOND, "response": limited})
    assert (done["response"]["status"], done["response"]["output"][0]["status"]) == (
        "incomplete",
        "incomplete",
    )
    assert done["response"]["status_details"]["reason"] == "max_output_tokens"
    assert done["response"]["output"][0]["content"][0]["text"] == "You said:"


def test_what_was_answered_stands_in_the_conversation() -> None:
    client = session()
    *_, done = client.ask(TEXT, said("a"), RESPOND)
    [item] = done["response"]["output"]
    [retrieved] = client.ask({"type": "conversation.item.retrieve", "item_id": item["id"]})
    assert retrieved["item"] == item


def test_a_session_keeps_its_model() -> None:
    changes = {"type": "realtime", "model": "other", "audio": {"output": {"voice": "ash"}}}
    [updated] = session().ask({"type": "session.update", "session": changes})
    assert updated["session"]["model"] == "m"
    assert updated["session"]["audio"]["output"] == {
        "format": {"type": "audio/pcm", "rate": 24000},
        "voice": "ash",
        "speed": 1.0,
    }


def test_a_turn_is_detected_and_answered() -> None:
    client = session()
    started, stopped, committed, added, *rest = client.ask(heard(SPEECH), heard(SILENCE))
    assert (started["type"], stopped["type"]) == (
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
    )
    assert (started["audio_start_ms"], stopped["audio_end_ms"]) == (0, 300)
    assert committed["item_id"] == added["item"]["id"] == started["item_id"]
    usage = rest[-1]["response"]["usage"]
    assert usage["input_token_details"]["audio_tokens"] == 3
    assert rest[-1]["response"]["output"][0]["content"][0]["transcript"] == "You said: 300 ms of audio"


def test_audio_is_committed_by_hand_and_transcribed() -> None:
    client = session()
    audio = {"input": {"turn_detection": None, "transcription": {"model": "whisper-1"}}}
    client.ask({"type": "session.update", "session": {"type": "realtime", "audio": audio}})
    events = client.ask(heard(SPEECH), {"type": "input_audio_buffer.commit"})
    assert types_of(events)[:1] == ["input_audio_buffer.committed"]
    assert events[-1]["transcript"] == "200 ms of audio"
    assert events[-1]["usage"]["input_tokens"] == 2


def test_a_response_is_cancelled_in_its_midst() -> None:
    client = session("m+sim-chunk-delay-10")
    client.ask(TEXT, said("a b c d"), RESPOND)
    client.clock.pump([0.01] * 10)
    client.ask({"type": "response.cancel"})
    client.clock.pump([0.01] * 20)
    done = client.messages()[-1]["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    assert 0 < done["usage"]["output_tokens"] < 6
    assert done["output"][0]["status"] == "incomplete"


def test_speech_interrupts_a_response() -> None:
    client = session("m+sim-chunk-delay-10")
    client.ask(TEXT, said("a b c d"), RESPOND)
    client.clock.pump([0.01] * 12)
    client.ask(heard(SPEECH))
    client.clock.pump([0.01] * 20)
    done, started = client.messages()[-2:]
    assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert started["type"] == "input_audio_buffer.speech_started"


def test_one_response_at_a_time() -> None:
    client = session("m+sim-chunk-delay-10")
    client.ask(RESPOND, RESPOND)
    client.clock.pump([0.01] * 20)
    assert client.messages()[-1]["error"]["code"] == "conversation_already_has_active_response"


def test_a_response_out_of_band_leaves_the_conversation_alone() -> None:
    client = session()
    item = said("aside")["item"]
    asked = {"conversation": "none", "input": [item], "output_modalities": ["text"], "metadata": {"a": "b"}}
    events = client.ask({**RESPOND, "response": asked})
    assert "conversation.item.added" not in types_of(events)
    assert events[-1]["response"]["metadata"] == {"a": "b"}
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "You said: aside"
    assert events[-1]["response"]["conversation_id"] is None


def test_a_response_fails_where_that_is_asked_for() -> None:
    client = session("m+sim-error-in-stream-after-2")
    *_, done = client.ask(TEXT, said("a b c"), RESPOND)
    assert done["response"]["status"] == "failed"
    assert done["response"]["usage"]["output_tokens"] == 2


def test_items_are_placed_retrieved_and_deleted() -> None:
    client = session()
    first = client.ask(said("one"))[0]["item"]["id"]
    second = client.ask({**said("two"), "previous_item_id": "root"})[0]
    assert second["previous_item_id"] is None
    named = {"item_id": first}
    [retrieved] = client.ask({"type": "conversation.item.retrieve", **named})
    assert retrieved["item"]["content"][0]["text"] == "one"
    [deleted, gone] = client.ask(*[{"type": "conversation.item.delete", **named}] * 2)
    assert deleted == {"type": "conversation.item.deleted", "event_id": deleted["event_id"], **named}
    assert gone["error"]["code"] == "item_delete_invalid_item_id"


@pytest.mark.parametrize(
    ("event", "code", "param"),
    [
        ({"type": "session.begin", "event_id": "e1"}, "invalid_value", "type"),
        ({"type": "session.update", "session": {}}, "missing_required_parameter", "session.type"),
        (
            {"type": "session.update", "session": {"type": "realtime", "foo": 1}},
            "unknown_parameter",
            "session.foo",
        ),
        (
            {"type": "session.update", "session": {"type": "realtime", "audio": {"output": None}}},
            "invalid_type",
            "session.audio.output",
        ),
        ({"type": "response.create", "response": [1]}, "invalid_type", "response"),
        ({"type": "input_audio_buffer.append", "audio": "?"}, "invalid_value", "audio"),
        (
            {
                "type": "conversation.item.create",
                "item": {"type": "message", "role": "user", "content": [{"type": "output_text"}]},
            },
            "invalid_value",
            "item.content[0].type",
        ),
        ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty", None),
        ({"type": "conversation.item.create", "item": {"type": "x"}}, "invalid_value", "item.type"),
        (
            {"type": "conversation.item.create", "item": {"type": "message", "role": "user"}},
            "missing_required_parameter",
            "item.content",
        ),
        (
            {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": "a"}},
            "invalid_type",
            "item.content",
        ),
        ({"type": "response.cancel"}, "response_cancel_not_active", None),
        ([], "invalid_json", None),
    ],
)
def test_an_event_that_breaks_a_rule_is_answered_with_an_error(
    event: Any, code: str, param: str | None
) -> None:
    [answer] = session().ask(event)
    assert answer["type"] == "error"
    assert (answer["error"]["code"], answer["error"]["param"]) == (code, param)
    assert answer["error"]["event_id"] == (event.get("event_id") if isinstance(event, dict) else None)


def test_a_model_or_a_call_is_needed() -> None:
    assert WebSocketClient("/v1/realtime").status == 400
    assert WebSocketClient("/v1/realtime?call_id=rtc_1").status == 101
    assert WebSocketClient("/v1/realtime?model=missing-1").status == 404
