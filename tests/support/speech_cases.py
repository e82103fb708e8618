"""Speech between families: every field that its clients can say, and what becomes of it.

The fields are those of the vendors' own types, as for conversations (:mod:`tests.support.field_cases`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec
from openai.types.audio.speech_create_params import SpeechCreateParams

from mgw.canonical.reply import UpstreamError
from mgw.dialects import translator_of
from mgw.dialects.model_row import ModelRow
from mgw.dialects.speech import contained
from mgw.dialects.translator import Answering, Setting, SpeechAsker, SpeechGiver, Spoken
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Family, Kind
from tests.support.field_cases import Body, Client
from tests.support.sdk_types import Shape, generate_content, of

KINDS: Final = {Family.OPENAI: Kind.OPENAI, Family.GEMINI: Kind.GEMINI}
HELLO: Final[Body] = {"parts": [{"text": "Hello"}]}


@cache
def speech() -> Shape:
    """Return OpenAI's request of speech."""
    return of(SpeechCreateParams)


def _around_speech(body: Body) -> Body:
    return {"model": "a-model", "input": "Hello", **body}


def _around_contents(body: Body) -> Body:
    return {**body, "contents": [HELLO, *body.get("contents", [])]}


SPEECH: Final = Client("speech", Family.OPENAI, speech, _around_speech, "input")
GENERATE_SPEECH: Final = Client(
    "generateSpeech", Family.GEMINI, generate_content, _around_contents, "contents"
)


def asker_of(family: Family) -> SpeechAsker:
    """Return the client's side."""
    asker = translator_of(family).speech_asker
    assert asker is not None
    return asker


def giver_of(family: Family) -> SpeechGiver:
    """Return the provider's side."""
    giver = translator_of(family).speech_giver
    assert giver is not None
    return giver


def setting_of(family: Family) -> Setting:
    """Return what a renderer is told."""
    return Setting("a-model", KINDS[family], ModelRow("*", family, "-"))


@dataclass(frozen=True)
class Sent:
    """A request that was translated."""

    up: Body
    """What goes up."""
    reported: frozenset[str]


def sent(client: Family, provider: Family, body: bytes) -> Sent | GatewayError:
    """Return a request's translation."""
    try:
        wanted, ledger = asker_of(client).parse_request(body)
        rendered = giver_of(provider).render_request(wanted, setting_of(provider))
    except GatewayError as error:
        if error.reason is not Reason.MALFORMED:
            raise
        return error
    assert not rendered.lost
    return Sent(msgspec.json.decode(rendered.body), ledger.unread())


def told(client: Family, provider: Family, body: bytes, content_type: bytes) -> Spoken | UpstreamError:
    """Return an answer as the client gets it; raises what a provider's answer may raise."""
    asked: Any = (
        b'{"input":"Hello"}' if client is not Family.GEMINI else b'{"contents":[{"parts":[{"text":"a"}]}]}'
    )
    wanted, _ = asker_of(client).parse_request(asked)
    reply = giver_of(provider).parse_reply(body, content_type, wanted)
    if isinstance(reply, UpstreamError):
        return reply
    return asker_of(client).render_reply(contained(reply, "wav"), Answering("req_1", "a-model", 0))
