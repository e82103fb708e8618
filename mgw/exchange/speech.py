"""A provider's speech told in the client's dialect, once all of it has come.

Where the provider refuses to say a text with a status of success, the client gets the refusal as an error:
sound has no other place for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from mgw.canonical.reply import UpstreamError
from mgw.canonical.speech import SpeechRequest
from mgw.dialects.speech import contained
from mgw.dialects.translator import Answering, SpeechAsker, SpeechGiver
from mgw.exchange.delivery import Gathered, Whole
from mgw.exchange.retelling import Telling
from mgw.upstream.client import Answer
from mgw.wire.headers import value_of

_ANYTHING: Final = b"*/*"
"""Sound, or an error in JSON."""


@dataclass(slots=True)
class SpeechTelling(Telling):
    """Sound, in whatever the client's dialect carries it."""

    asker: SpeechAsker
    giver: SpeechGiver
    wanted: SpeechRequest
    answering: Answering

    @property
    def accept(self) -> bytes:
        """Whatever sound there is."""
        return _ANYTHING

    def delivery(self, answer: Answer) -> Gathered:
        """Tell the answer once it is whole."""
        content_type = value_of(answer.headers, b"content-type") or b""
        return self.gathered(answer, partial(self._told, content_type))

    def _told(self, content_type: bytes, body: bytes) -> Whole:
        reply = self.giver.parse_reply(body, content_type, self.wanted)
        if isinstance(reply, UpstreamError):
            return self.refusal(reply, [])
        spoken = self.asker.render_reply(contained(reply, self.wanted.format), self.answering)
        headers = [(b"Content-Type", spoken.content_type), *self.reported]
        return Whole(200, headers, spoken.body, reply.usage)
