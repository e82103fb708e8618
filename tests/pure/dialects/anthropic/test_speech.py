"""Speech for clients of Anthropic's dialect."""

from __future__ import annotations

import json
from base64 import b64decode

from anthropic.types import Message, Usage

from mgw.canonical.reply import StopReason, TokenUsage
from mgw.canonical.speech import SpeechReply
from mgw.dialects.anthropic.speech import CLIENT
from mgw.dialects.dialect import ReplyContext
from mgw.nouns.vocabulary import Family

ANSWERING = ReplyContext("req_1", "tts-x", 0)


def test_the_response_is_a_message_with_the_sound_in_it() -> None:
    reply = SpeechReply(b"\x00\xff", "audio/mpeg", "up_1", "tts-real", StopReason.END, TokenUsage(3, 9))
    assert CLIENT.content_type(reply) == b"application/json"
    assert json.loads(CLIENT.render_reply(reply, ANSWERING)) == {
        "id": "up_1",
        "type": "message",
        "role": "assistant",
        "model": "tts-real",
        "content": [
            {
                "type": "audio",
                "source": {"type": "base64", "media_type": "audio/mpeg", "data": "AP8="},
            }
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 3,
            "output_tokens": 9,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def test_what_is_not_known_is_made_up_as_in_every_message() -> None:
    message = json.loads(CLIENT.render_reply(SpeechReply(b"sound", "audio/wav"), ANSWERING))
    assert (message["id"], message["model"]) == ("msg_req_1", "tts-x")
    assert message["usage"]["input_tokens"] == 0


def test_the_sdk_reads_the_message() -> None:
    body = json.loads(CLIENT.render_reply(SpeechReply(b"sound", "audio/wav"), ANSWERING))
    message = Message.construct(**body)
    assert Usage.model_validate(body["usage"], strict=True).output_tokens == 0
    (block,) = message.model_dump(warnings=False)["content"]
    assert b64decode(block["source"]["data"]) == b"sound"


def test_the_request_is_openais() -> None:
    assert CLIENT.body_of is Family.OPENAI
