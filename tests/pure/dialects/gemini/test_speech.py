"""Speech, both ways."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest
from google.genai.types import GenerateContentResponse

from mgw.canonical.reply import StopReason, TokenUsage, UpstreamError
from mgw.canonical.speech import SpeechReply, SpeechRequest
from mgw.dialects.dialect import Parsed, RenderOptions, ReplyContext, ReplySource, RequestContext
from mgw.dialects.gemini.speech import CLIENT, PROVIDER
from mgw.dialects.refusal import AnswerError
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family, Kind

Json = Any  # JSON of whatever type
SETTING = RenderOptions("gem-tts", Kind.GEMINI, ModelRow("*", Family.GEMINI, "x"))
L16 = "audio/L16;codec=pcm;rate=24000"
HELLO: Json = [{"role": "user", "parts": [{"text": "Hello"}]}]


def parse(contents: Json = HELLO, **fields: Json) -> tuple[SpeechRequest, Parsed[SpeechRequest]]:
    found = CLIENT.parse_request(json.dumps({"contents": contents, **fields}).encode(), RequestContext("m"))
    return found.request, found


def parse_voice(speech: Json) -> tuple[SpeechRequest, Parsed[SpeechRequest]]:
    return parse(generationConfig={"speechConfig": speech})


def voice_config(name: str) -> Json:
    return {"prebuiltVoiceConfig": {"voiceName": name}}


def test_a_request_is_understood() -> None:
    request, found = parse(
        model="models/x",
        systemInstruction={"parts": [{"text": "Whisper."}, {"text": "Slowly."}]},
        generationConfig={
            "responseModalities": ["AUDIO"],
            "responseMimeType": "audio/wav",
            "speechConfig": {"voiceConfig": voice_config("Kore")},
        },
    )
    assert request == SpeechRequest("Hello", "Kore", "Whisper.\nSlowly.", "wav")
    assert found.unread == frozenset()


def test_who_says_no_format_gets_raw_samples() -> None:
    assert parse()[0] == SpeechRequest("Hello", format="pcm")


def test_snake_case_is_read_alike() -> None:
    request, found = parse(
        system_instruction={"parts": [{"text": "Whisper."}]},
        generation_config={
            "response_modalities": ["AUDIO"],
            "speech_config": {"voice_config": {"prebuilt_voice_config": {"voice_name": "Kore"}}},
        },
    )
    assert request == SpeechRequest("Hello", "Kore", "Whisper.", "pcm")
    assert found.unread == frozenset()


def test_all_words_of_the_user_are_spoken_in_their_order() -> None:
    request, found = parse(
        [
            {"parts": [{"text": "One"}, {"text": ""}, {"text": "two"}]},
            {"role": "model", "parts": [{"text": "What else?"}]},
            {"role": "user", "parts": [{"text": "a thought", "thought": True}, {"text": "three"}]},
        ]
    )
    assert request.text == "One\ntwo\nthree"
    assert found.unread == {"contents[model]", "contents[].parts[thought]"}


def test_a_single_content_and_part_need_no_list() -> None:
    assert parse({"parts": {"text": "Hello"}})[0].text == "Hello"


def test_what_is_not_said_in_words_is_reported() -> None:
    _, found = parse(
        [
            {
                "role": "user",
                "parts": [{"text": "Hello"}, {"inlineData": {"mimeType": "image/png", "data": ""}}],
            }
        ],
        tools=[{"googleSearch": {}}],
        generationConfig={"temperature": 1, "speechConfig": {"languageCode": "en-US"}},
        safetySettings=[],
    )
    assert found.unread == {
        "contents[].parts[].inlineData",
        "generationConfig.temperature",
        "generationConfig.speechConfig.languageCode",
        "safetySettings",
        "tools",
    }


def test_of_several_speakers_the_first_speaks_and_that_is_reported() -> None:
    speakers = [
        {"speaker": "A", "voiceConfig": voice_config("Puck")},
        {"speaker": "B", "voiceConfig": voice_config("Kore")},
    ]
    request, found = parse_voice({"multiSpeakerVoiceConfig": {"speakerVoiceConfigs": speakers}})
    assert request.voice == "Puck"
    assert found.unread == {"generationConfig.speechConfig.multiSpeakerVoiceConfig"}


def test_the_one_speaker_comes_before_several() -> None:
    several = {"speakerVoiceConfigs": [{"voiceConfig": voice_config("Puck")}]}
    assert (
        parse_voice({"voiceConfig": voice_config("Kore"), "multiSpeakerVoiceConfig": several})[0].voice
        == "Kore"
    )


def test_a_voice_may_be_named_at_once() -> None:
    request, found = parse_voice({"voiceConfig": {"voice": "Kore"}})
    assert (request.voice, found.unread) == ("Kore", frozenset())


def test_a_voice_of_the_clients_own_is_reported() -> None:
    request, found = parse_voice({"voiceConfig": {"replicatedVoiceConfig": {"mimeType": "audio/wav"}}})
    assert request.voice is None
    assert found.unread == {"generationConfig.speechConfig.voiceConfig.replicatedVoiceConfig"}


@pytest.mark.parametrize(
    ("media_type", "name"),
    [
        ("audio/wav", "wav"),
        ("audio/mpeg", "mp3"),
        ("audio/ogg; codecs=opus", "opus"),
        ("audio/aac", "aac"),
        ("audio/flac", "flac"),
        ("audio/L16;rate=24000", "pcm"),
    ],
)
def test_formats_have_openais_names(media_type: str, name: str) -> None:
    for config in (
        {"responseMimeType": media_type},
        {"responseFormat": [{"audio": {"mimeType": media_type}}]},
    ):
        request, found = parse(generationConfig=config)
        assert (request.format, found.unread) == (name, frozenset())


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        ({"responseMimeType": "text/plain"}, "generationConfig.responseMimeType"),
        ({"responseModalities": ["TEXT"]}, "generationConfig.responseModalities"),
        ({"responseModalities": ["TEXT", "AUDIO"]}, "generationConfig.responseModalities"),
        (
            {"responseFormat": [{"audio": {"mimeType": "audio/midi"}}]},
            "generationConfig.responseFormat[].audio.mimeType",
        ),
        (
            {"responseFormat": [{"audio": {"sampleRate": 8000}}]},
            "generationConfig.responseFormat[].audio.sampleRate",
        ),
        ({"responseFormat": [{"image": {}}]}, "generationConfig.responseFormat[].image"),
    ],
)
def test_what_no_format_can_say_is_reported(config: Json, reported: str) -> None:
    request, found = parse(generationConfig=config)
    assert request.format == "pcm"
    assert found.unread == {reported}


@pytest.mark.parametrize(
    "contents",
    [
        [],
        [{"role": "user", "parts": []}],
        [{"role": "user", "parts": [{"text": " "}]}],
        [{"role": "model", "parts": [{"text": "Hello"}]}],
        [{"role": "user", "parts": [{"inlineData": {"mimeType": "audio/wav", "data": ""}}]}],
        None,
    ],
)
def test_a_request_without_words_is_refused(contents: Json) -> None:
    with pytest.raises(GatewayError) as caught:
        parse(contents)
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, "contents")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"contents": 5}, "contents"),
        ({"contents": [{"role": "narrator", "parts": []}]}, "contents[0].role"),
        ({"contents": [{"parts": [{"text": 5}]}]}, "contents[0].parts[0].text"),
        ({"contents": HELLO, "generationConfig": []}, "generationConfig"),
        (
            {"contents": HELLO, "generationConfig": {"speechConfig": {"voiceConfig": "Kore"}}},
            "generationConfig.speechConfig.voiceConfig",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(body: Json, param: str) -> None:
    with pytest.raises(GatewayError) as caught:
        CLIENT.parse_request(json.dumps(body).encode(), RequestContext("m"))
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, param)


def test_googles_clients_read_the_answer() -> None:
    reply = SpeechReply(b"\x00\xff", "audio/mpeg", usage=TokenUsage(3, 9))
    body = CLIENT.render_reply(reply, ReplyContext("req_1", "tts-x", 0))
    assert CLIENT.content_type(reply) == b"application/json"
    found = GenerateContentResponse.model_validate_json(body)
    assert found.candidates is not None
    assert found.candidates[0].finish_reason == "STOP"
    assert found.parts is not None
    (part,) = found.parts
    assert part.inline_data is not None
    assert (part.inline_data.mime_type, part.inline_data.data) == ("audio/mpeg", b"\x00\xff")
    assert (found.model_version, found.response_id) == ("tts-x", "req_1")
    assert found.usage_metadata is not None
    assert found.usage_metadata.total_token_count == 12


def test_an_answer_says_nothing_of_counts_that_nobody_knows() -> None:
    body = CLIENT.render_reply(SpeechReply(b"x", "audio/mpeg"), ReplyContext("req_1", "tts-x", 0))
    assert "usageMetadata" not in json.loads(body)


def test_instructions_go_before_the_text() -> None:
    rendered = PROVIDER.render_request(SpeechRequest("Hello", "Kore", "Whisper.", "mp3"), SETTING)
    assert rendered.target == b"/models/gem-tts:generateContent"
    assert json.loads(rendered.body) == {
        "contents": [{"role": "user", "parts": [{"text": "Whisper.\n\nHello"}]}],
        "generationConfig": {
            "responseModalities": ["AUDIO"],
            "speechConfig": {"voiceConfig": voice_config("Kore")},
        },
    }


def test_who_names_no_voice_gets_googles_own() -> None:
    body = json.loads(PROVIDER.render_request(SpeechRequest("Hello"), SETTING).body)
    assert body["generationConfig"] == {"responseModalities": ["AUDIO"]}


def blob(audio: bytes, media_type: str = L16) -> Json:
    return {"inlineData": {"mimeType": media_type, "data": b64encode(audio).decode()}}


def response(*parts: Json, **beside: Json) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **beside}]}


def parse_reply(body: Json) -> SpeechReply | UpstreamError:
    source = ReplySource("seed", b"application/json", SpeechRequest("Hello"))
    try:
        return PROVIDER.parse_reply(json.dumps(body).encode(), source)
    except AnswerError as refused:
        return refused.error


def test_the_sound_is_decoded_and_keeps_its_media_type() -> None:
    body = response(blob(b"sound"), finishReason="STOP") | {
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 9},
        "modelVersion": "gem-real",
        "responseId": "up_1",
    }
    assert parse_reply(body) == SpeechReply(
        b"sound", L16, "up_1", "gem-real", StopReason.END, TokenUsage(3, 9)
    )


def test_parts_of_one_type_are_joined_in_order() -> None:
    words = [{"text": "thinking", "thought": True}, blob(b"one "), {"text": "and"}, blob(b"two", L16.lower())]
    found = parse_reply(response(*words))
    assert isinstance(found, SpeechReply)
    assert (found.audio, found.media_type) == (b"one two", L16)


def test_an_answer_that_was_cut_off_says_so() -> None:
    found = parse_reply(response(blob(b"one"), finishReason="MAX_TOKENS"))
    assert isinstance(found, SpeechReply)
    assert found.stop is StopReason.LENGTH


def test_url_safe_base64_is_read_alike() -> None:
    data = urlsafe_b64encode(b"\xfb\xff\xfe").decode().rstrip("=")
    found = parse_reply(response({"inlineData": {"mimeType": L16, "data": data}}))
    assert isinstance(found, SpeechReply)
    assert found.audio == b"\xfb\xff\xfe"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "The prompt was blocked: SAFETY."),
        ({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "No."}}, "No."),
        (response(finishReason="PROHIBITED_CONTENT"), "The model refused to speak: PROHIBITED_CONTENT."),
        (response(finishReason="SAFETY", finishMessage="Not that."), "Not that."),
    ],
)
def test_a_refusal_to_speak_is_an_error_that_asking_again_does_not_help(body: Json, words: str) -> None:
    assert parse_reply(body) == UpstreamError(400, words, "content_filter")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "no candidates"),
        ([], "not a generateContent response"),
        ({"candidates": []}, "no candidates"),
        ({"error": {"message": "too busy"}}, "too busy"),
        (response(finishReason="OTHER"), "(OTHER)"),
        (response(), "no reason given"),
        (response({"text": "Hello"}, finishReason="STOP"), "answered with text"),
        (response(blob(b"")), "no audio"),
        (response(blob(b"x", "image/png")), "no audio"),
        (response(blob(b"x", "audio/wav\r\nX-Evil: 1")), "no audio"),
        (response({"inlineData": {"data": "eA=="}}), "no audio"),
        (response({"inlineData": {"mimeType": L16, "data": "!!"}}), "not valid base64"),
        (response(blob(b"x"), blob(b"x", "audio/wav")), "several media types"),
    ],
    ids=str,
)
def test_an_answer_without_sound_is_broken(body: Json, words: str) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_reply(body)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN
    assert words in caught.value.message
