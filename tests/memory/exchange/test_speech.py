"""Speech between two families, from the request to the last byte, with both ends in memory."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from mgw.exchange import response
from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event import Outcome
from mgw.wire.headers import RawHeaders, value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, answered

Json = Any  # JSON of whatever type
OBSERVED = THREE_FAMILIES + "observe_dropped_fields: true\n"
VOICES = OBSERVED + "translation: {voices: {gemini: {alloy: Puck, anna: Leda}, openai: {Puck: verse}}}\n"
SPEECH = "/v1/audio/speech"
GENERATE = "/v1beta/models/main/tts-x:generateSpeech"
VERSION: RawHeaders = [(b"anthropic-version", b"2023-06-01")]
L16 = "audio/L16;codec=pcm;rate=24000"
SAMPLES = bytes(range(250)) * 8


def asked(model: str = "gem/gem-tts", **fields: Json) -> bytes:
    return json.dumps({"model": model, "input": "Hello", "voice": "alloy", **fields}).encode()


def spoken(*parts: Json, **beside: Json) -> bytes:
    """An answer of Google's."""
    body = {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 9},
        "modelVersion": "gem-real",
        **beside,
    }
    return answered(json.dumps(body).encode())


def blob(audio: bytes = SAMPLES, media_type: str = L16) -> Json:
    return {"inlineData": {"mimeType": media_type, "data": b64encode(audio).decode()}}


def failure_of(work: Deferred[None]) -> GatewayError:
    failures: list[Any] = []
    _ = work.addErrback(failures.append)
    assert isinstance(failures[0].value, GatewayError)
    return failures[0].value


# OpenAI's clients, Google's providers ---------------------------------------------------------------------


def test_openais_client_hears_google() -> None:
    pipeline = Pipeline(OBSERVED)
    client, _ = pipeline.ask(
        SPEECH,
        asked(instructions="Whisper.", response_format="pcm", speed=1.5, stream_format="sse", extra={"a": 1}),
    )
    line, headers, body = pipeline.received()
    assert line == b"POST /v1beta/models/gem-tts:generateContent HTTP/1.1"
    assert value_of(headers, b"x-goog-api-key") == b"AIza-0004"
    assert value_of(headers, b"accept") == b"*/*"
    assert value_of(headers, b"content-type") == b"application/json"
    assert json.loads(body) == {
        "contents": [{"role": "user", "parts": [{"text": "Whisper.\n\nHello"}]}],
        "generationConfig": {
            "responseModalities": ["AUDIO"],
            "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}},
        },
    }
    pipeline.connection.send(spoken(blob(SAMPLES[:100]), blob(SAMPLES[100:])))
    assert client.body == SAMPLES
    assert value_of(client.headers, b"content-type") == L16.encode()
    assert value_of(client.headers, b"content-length") == b"%d" % len(SAMPLES)
    assert value_of(client.headers, b"x-gateway-dropped-fields") == b"extra, speed, stream_format"
    assert client.finished
    event = pipeline.event()
    assert (event.route, event.modality, event.dialect) == ("audio_speech", "audio_speech", "openai")
    assert (event.tokens_in, event.tokens_out, event.stream) == (3, 9, False)
    assert (event.status, event.http_status) == (Outcome.OK, 200)
    assert event.dropped_fields == ("extra", "speed", "stream_format")


def test_a_wave_file_is_a_head_before_the_unchanged_samples() -> None:
    pipeline = Pipeline(OBSERVED)
    client, _ = pipeline.ask(SPEECH, asked(response_format="wav"))
    pipeline.connection.send(spoken(blob()))
    assert client.body[:4] + client.body[8:16] == b"RIFFWAVEfmt "
    assert client.body[44:] == SAMPLES
    assert int.from_bytes(client.body[24:28], "little") == 24_000
    assert value_of(client.headers, b"content-type") == b"audio/wav"
    assert value_of(client.headers, b"x-gateway-dropped-fields") is None


@pytest.mark.parametrize(
    ("fields", "dropped"), [({}, None), ({"response_format": "mp3"}, b"response_format")], ids=str
)
def test_who_wants_another_format_gets_what_there_is(fields: Json, dropped: bytes | None) -> None:
    pipeline = Pipeline(OBSERVED)
    client, _ = pipeline.ask(SPEECH, asked(**fields))
    pipeline.connection.send(spoken(blob()))
    assert (client.status, client.body) == (200, SAMPLES)
    assert value_of(client.headers, b"content-type") == L16.encode()
    assert value_of(client.headers, b"x-gateway-dropped-fields") == dropped


def test_a_file_of_the_providers_own_goes_as_it_is() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(SPEECH, asked(response_format="wav"))
    pipeline.connection.send(spoken(blob(b"RIFF....WAVE", "audio/wav")))
    assert client.body == b"RIFF....WAVE"
    assert value_of(client.headers, b"content-type") == b"audio/wav"


@pytest.mark.parametrize(
    ("voice", "sent", "dropped"),
    [
        ("alloy", "Puck", None),
        ("Anna", "Leda", None),
        ("echo", "Achird", None),
        ("kore", "Kore", None),
        ("New", "New", None),
        ({"id": "voice_1"}, None, b"voice"),
        (None, None, None),
    ],
    ids=str,
)
def test_voices_go_by_the_operators_table_then_by_ours(
    voice: Json, sent: str | None, dropped: bytes | None
) -> None:
    pipeline = Pipeline(VOICES)
    client, _ = pipeline.ask(SPEECH, asked(voice=voice))
    config = json.loads(pipeline.received()[2])["generationConfig"].get("speechConfig")
    pipeline.connection.send(spoken(blob()))
    found = config and config["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"]
    assert found == sent
    assert value_of(client.headers, b"x-gateway-dropped-fields") == dropped


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"input": 5}, "input"), ({"voice": 5}, "voice"), ({"input": None}, "input")],
    ids=str,
)
@pytest.mark.parametrize("headers", [[], VERSION], ids=["openai", "anthropic"])
def test_what_is_wrong_is_refused_before_anybody_is_asked(
    fields: Json, param: str, headers: RawHeaders
) -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask(SPEECH, asked(**fields), headers=headers)
    error = failure_of(work)
    assert (error.reason, error.param) == (Reason.MALFORMED, param)
    assert pipeline.endpoint.connections == []
    assert pipeline.event().http_status == 400


def test_an_answer_without_sound_is_a_502() -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(SPEECH, asked())
    pipeline.connection.send(spoken({"text": "Hello! AIza-0004"}))
    error = failure_of(work)
    assert error.reason is Reason.UPSTREAM_BROKEN
    assert "no audio" in error.message
    assert not client.started
    assert (pipeline.event().status, pipeline.event().http_status) == (Outcome.UPSTREAM_ERROR, 502)


def test_what_google_refuses_to_say_is_an_error_of_the_clients_dialect() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(SPEECH, asked())
    blocked = {"blockReason": "SAFETY", "blockReasonMessage": "not with AIza-0004"}
    pipeline.connection.send(answered(json.dumps({"promptFeedback": blocked}).encode()))
    assert client.status == 400
    assert json.loads(client.body)["error"] == {
        "message": "not with [key]",
        "type": "invalid_request_error",
        "param": None,
        "code": "content_filter",
    }
    assert (pipeline.event().status, pipeline.event().http_status) == (Outcome.UPSTREAM_ERROR, 400)


@pytest.mark.parametrize(
    ("headers", "kind"),
    [([], "rate_limit_error"), (VERSION, "rate_limit_error")],
    ids=["openai", "anthropic"],
)
def test_googles_errors_are_told_in_the_clients_dialect(headers: RawHeaders, kind: str) -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(SPEECH, asked(), headers=headers)
    error = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    pipeline.connection.send(answered(json.dumps(error).encode(), b"429 Too Many Requests"))
    assert client.status == 429
    parsed = json.loads(client.body)
    assert (parsed["error"]["message"], parsed["error"]["type"]) == ("slow down", kind)
    assert ("type" in parsed) is bool(headers)


def test_too_much_sound_is_a_502(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "MAX_BUFFERED_BYTES", 1_000)
    pipeline = Pipeline()
    _, work = pipeline.ask(SPEECH, asked())
    pipeline.connection.send(spoken(blob()))
    assert failure_of(work).reason is Reason.UPSTREAM_BROKEN


# Clients of Anthropic's dialect ---------------------------------------------------------------------------


def test_anthropics_client_hears_google() -> None:
    pipeline = Pipeline(OBSERVED)
    client, _ = pipeline.ask(SPEECH, asked(response_format="wav", speed=2), headers=VERSION)
    line, headers, _ = pipeline.received()
    assert line == b"POST /v1beta/models/gem-tts:generateContent HTTP/1.1"
    assert value_of(headers, b"anthropic-version") is None
    pipeline.connection.send(spoken(blob(), responseId="up_1"))
    message = json.loads(client.body)
    assert value_of(client.headers, b"content-type") == b"application/json"
    assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "gem-real")
    (content,) = message["content"]
    assert (content["type"], content["source"]["type"]) == ("audio", "base64")
    assert content["source"]["media_type"] == "audio/wav"
    assert b64decode(content["source"]["data"])[44:] == SAMPLES
    assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (3, 9)
    assert value_of(client.headers, b"x-gateway-dropped-fields") == b"speed"
    assert pipeline.event().route == "anthropic_audio_speech"
    assert pipeline.event().dialect == "anthropic"


def test_anthropics_client_hears_openai_through_its_own_bytes() -> None:
    pipeline = Pipeline(VOICES)
    body = b'{ "input":"H\\u00e9llo","model":"tts-x", "voice" : "Puck","speed":1.50, "own":[1,2] }'
    client, _ = pipeline.ask(SPEECH, body.replace(b'"tts-x"', b'"main/tts-x"'), headers=VERSION)
    line, headers, sent = pipeline.received()
    assert line == b"POST /v1/audio/speech HTTP/1.1"
    assert value_of(headers, b"authorization") == b"Bearer sk-main-0001"
    assert sent == body.replace(b"Puck", b"verse")
    pipeline.connection.send(answered(b"\x00\xffsound", content_type=b"audio/mpeg"))
    message = json.loads(client.body)
    source = message["content"][0]["source"]
    assert (source["media_type"], b64decode(source["data"])) == ("audio/mpeg", b"\x00\xffsound")
    assert (message["id"], message["model"]) == ("msg_req_1", "tts-x")
    assert value_of(client.headers, b"x-gateway-dropped-fields") is None
    event = pipeline.event()
    assert (event.tokens_in, event.dropped_fields, event.status) == (None, None, Outcome.OK)


def test_a_bare_model_of_anthropics_client_is_openais() -> None:
    pipeline = Pipeline()
    pipeline.ask(SPEECH, asked("tts-x"), headers=VERSION)
    assert pipeline.received()[0] == b"POST /v1/audio/speech HTTP/1.1"
    assert pipeline.received()[2] == asked("tts-x")


def test_anthropics_client_gets_sound_whole_that_it_asked_for_in_events() -> None:
    pipeline = Pipeline(OBSERVED)
    client, _ = pipeline.ask(SPEECH, asked("main/tts-x", stream_format="sse"), headers=VERSION)
    events = (
        b'data: {"type":"speech.audio.delta","audio":"b25lIA=="}\n\n'
        b'data: {"type":"speech.audio.delta","audio":"dHdv"}\n\n'
        b'data: {"type":"speech.audio.done","usage":{"input_tokens":3,"output_tokens":9}}\n\n'
    )
    pipeline.connection.send(answered(events, content_type=b"text/event-stream"))
    message = json.loads(client.body)
    assert b64decode(message["content"][0]["source"]["data"]) == b"one two"
    assert message["usage"]["output_tokens"] == 9
    assert (pipeline.event().tokens_out, pipeline.event().stream) == (9, False)


# Google's clients -----------------------------------------------------------------------------------------


def contents(**fields: Json) -> bytes:
    return json.dumps({"contents": [{"parts": [{"text": "Hello"}, {"text": "there"}]}], **fields}).encode()


def test_googles_client_hears_openai() -> None:
    pipeline = Pipeline(OBSERVED)
    voice = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}
    config = {"responseModalities": ["AUDIO"], "speechConfig": voice, "temperature": 1}
    system = {"parts": [{"text": "Whisper."}]}
    client, _ = pipeline.ask(GENERATE, contents(generationConfig=config, systemInstruction=system))
    line, _, body = pipeline.received()
    assert line == b"POST /v1/audio/speech HTTP/1.1"
    assert json.loads(body) == {
        "model": "tts-x",
        "input": "Hello\nthere",
        "voice": "alloy",
        "response_format": "pcm",
        "instructions": "Whisper.",
    }
    pipeline.connection.send(answered(SAMPLES, content_type=b"audio/pcm"))
    answer = json.loads(client.body)
    (candidate,) = answer["candidates"]
    (part,) = candidate["content"]["parts"]
    assert part["inlineData"]["mimeType"] == "audio/pcm"
    assert b64decode(part["inlineData"]["data"]) == SAMPLES
    assert (candidate["finishReason"], answer["modelVersion"]) == ("STOP", "tts-x")
    assert value_of(client.headers, b"content-type") == b"application/json"
    assert value_of(client.headers, b"x-gateway-dropped-fields") == b"generationConfig.temperature"
    assert pipeline.event().route == "generate_speech"


def test_googles_client_without_words_is_refused() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask(GENERATE, b'{"contents":[{"parts":[{"text":""}]}]}')
    assert failure_of(work).param == "contents"
    assert pipeline.endpoint.connections == []


def test_openais_errors_are_told_to_googles_client() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(GENERATE, contents())
    error = {"error": {"message": "no such voice", "type": "invalid_request_error", "code": None}}
    pipeline.connection.send(answered(json.dumps(error).encode(), b"400 Bad Request"))
    parsed = json.loads(client.body)["error"]
    assert (client.status, parsed["message"], parsed["status"]) == (400, "no such voice", "INVALID_ARGUMENT")


def test_a_provider_that_answers_in_json_has_not_spoken() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask(GENERATE, contents())
    pipeline.connection.send(answered(b"{}"))
    error = failure_of(work)
    assert error.reason is Reason.UPSTREAM_BROKEN
    assert "application/json" in error.message
