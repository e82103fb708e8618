"""Speech for clients of Anthropic's dialect: OpenAI's request, and a message in response.

Anthropic has no such route; the request and the response are the gateway's own (contract 4.25).  Beside
its sound the message has the fields of every message, so that the SDK's ``Message`` reads it.
"""

from __future__ import annotations

from typing import Final

from msgspec.json import Encoder

from mgw.canonical.speech import SpeechReply
from mgw.dialects.anthropic.reply import render_envelope, render_stop
from mgw.dialects.anthropic.usage import render_usage
from mgw.dialects.dialect import ClientOperation, ReplyContext
from mgw.dialects.speech import parse_speech
from mgw.nouns.vocabulary import Family

_ENCODER: Final = Encoder()  # writes bytes as base64


def render_reply(reply: SpeechReply, context: ReplyContext) -> bytes:
    """Render the message."""
    source = {"type": "base64", "media_type": reply.media_type, "data": reply.audio}
    message = {
        **render_envelope(reply.id, reply.model, context),
        "content": [{"type": "audio", "source": source}],
        **render_stop(reply.stop, None, calls=False, refused=False),
        "usage": render_usage(reply.usage),
    }
    return _ENCODER.encode(message)


CLIENT: Final = ClientOperation(parse_speech, render_reply, body_of=Family.OPENAI)
"""The clients' side of speech."""
