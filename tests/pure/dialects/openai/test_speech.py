"""Speech, as OpenAI's hosts are asked for it and answer."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from mgw.canonical.reply import TokenUsage
from mgw.canonical.speech import SpeechReply, SpeechRequest
from mgw.dialects.dialect import RenderOptions, ReplyContext, ReplySource
from mgw.dialects.openai.speech import CLIENT, PROVIDER
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family, Kind

SETTING = RenderOptions("tts-x", Kind.OPENAI, ModelRow("*", Family.OPENAI, "x"))
ASKED = SpeechRequest("Hello", "nova", "Whisper.", "pcm")


def heard(body: bytes, content_type: bytes, request: SpeechRequest = ASKED) -> SpeechReply:
    return PROVIDER.parse_reply(body, ReplySource("seed", content_type, request))


def events(*said: dict[str, Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in said)


def delta(audio: bytes) -> dict[str, Any]:
    return {"type": "speech.audio.delta", "audio": b64encode(audio).decode()}


def test_a_request_says_all_of_it() -> None:
    rendered = PROVIDER.render_request(ASKED, SETTING)
    assert rendered.target == b"/audio/speech"
    assert json.loads(rendered.body) == {
        "model": "tts-x",
        "input": "Hello",
        "voice": "nova",
        "response_format": "pcm",
        "instructions": "Whisper.",
    }
    assert not rendered.lost


def test_a_request_without_a_voice_gets_the_stock_one() -> None:
    body = json.loads(PROVIDER.render_request(SpeechRequest("Hello"), SETTING).body)
    assert body == {"model": "tts-x", "input": "Hello", "voice": "alloy"}


def test_a_relayed_request_keeps_every_other_byte() -> None:
    body = b'{ "input":"H\\u00e9llo", "speed": 1.50,\n"model" : "main/tts-x","voice":"Kore", "own":{"a":1}}'
    assert PROVIDER.relay_request is not None
    rendered = PROVIDER.relay_request(body, SpeechRequest("Héllo", "alloy"), SETTING)
    assert rendered.body == body.replace(b"main/tts-x", b"tts-x").replace(b"Kore", b"alloy")


def test_a_relayed_request_keeps_a_voice_that_is_no_name() -> None:
    body = b'{"model":"tts-x","input":"Hello","voice":{"id":"voice_1"}}'
    assert PROVIDER.relay_request is not None
    assert PROVIDER.relay_request(body, SpeechRequest("Hello"), SETTING).body is body


@pytest.mark.parametrize(
    ("content_type", "asked", "media_type"),
    [
        (b"audio/mpeg", "pcm", "audio/mpeg"),
        (b"audio/pcm;rate=16000", "pcm", "audio/pcm;rate=16000"),
        (b"", "wav", "audio/wav"),
        (b"application/octet-stream", None, "audio/mpeg"),
        (b"binary/octet-stream", "pcm", "audio/pcm"),
        (b"application/octet-stream; charset=x", "unheard-of", "audio/mpeg"),
    ],
)
def test_the_media_type_is_the_answers_own_else_that_of_what_was_asked(
    content_type: bytes, asked: str | None, media_type: str
) -> None:
    reply = heard(b"sound", content_type, SpeechRequest("Hello", format=asked))
    assert reply == SpeechReply(b"sound", media_type)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"error":{"message":"no"}}', b"application/json"),
        (b"<html>", b"text/html; charset=utf-8"),
        (b"", b"audio/mpeg"),
        (b"x", b"audio/\xff"),
        (b"", b"text/event-stream"),
        (b"data: {}\n\n", b"text/event-stream"),
        (b"data: nonsense\n\n", b"text/event-stream"),
        (b'data: {"type":"speech.audio.delta","audio":"!"}\n\n', b"text/event-stream"),
        (events(delta(b"a"), {"type": "error", "message": "busy"}), b"text/event-stream"),
    ],
)
def test_what_is_no_sound_is_broken(body: bytes, content_type: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        heard(body, content_type)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


def test_sound_in_events_is_put_together_with_what_it_cost() -> None:
    body = events(
        delta(b"one "),
        delta(b"two"),
        {"type": "speech.audio.done", "usage": {"input_tokens": 3, "output_tokens": 9, "total_tokens": 12}},
    )
    reply = heard(body, b"text/event-stream; charset=utf-8", SpeechRequest("Hello", format="opus"))
    assert reply == SpeechReply(b"one two", "audio/opus", usage=TokenUsage(3, 9))


def test_the_client_gets_the_sound_and_its_media_type() -> None:
    reply = SpeechReply(b"sound", "audio/L16;codec=pcm;rate=24000")
    assert CLIENT.render_reply(reply, ReplyContext("req_1", "m", 0)) is reply.audio
    assert CLIENT.content_type(reply) == b"audio/L16;codec=pcm;rate=24000"
