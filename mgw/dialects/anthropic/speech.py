"""Speech for clients of Anthropic's dialect: OpenAI's request, answered as a message.

Anthropic has no such route; the request and the answer are the gateway's own (decisions, part 4).  What the
message says beside its sound is what every message says, so that the SDK's ``Message`` reads it.
"""

from __future__ import annotations

from typing import Final

from msgspec.json import Encoder

from mgw.canonical.speech import SpeechReply
from mgw.dialects.anthropic import usage
from mgw.dialects.anthropic.reply import frame
from mgw.dialects.anthropic.stops import written_stop
from mgw.dialects.speech import parse_speech
from mgw.dialects.translator import Answering, SpeechAsker, Spoken
from mgw.vocabulary import Family

_ENCODER: Final = Encoder()  # writes bytes as base64
_JSON: Final = b"application/json"


def render_reply(reply: SpeechReply, answering: Answering) -> Spoken:
    """Write the message."""
    source = {"type": "base64", "media_type": reply.media_type, "data": reply.audio}
    message = {
        **frame(reply.id, reply.model, answering),
        "content": [{"type": "audio", "source": source}],
        **written_stop(reply.stop, None, calls=False, refused=False),
        "usage": usage.rendered(reply.usage),
    }
    return Spoken(_ENCODER.encode(message), _JSON)


ASKER: Final = SpeechAsker(parse_speech, render_reply, Family.OPENAI)
"""The client's side of speech."""
