"""Speech between families: every field that its clients can say, and what becomes of it.

The fields are those of the vendors' own types, as for conversations (:mod:`tools.translation.field_cases`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from openai.types.audio.speech_create_params import SpeechCreateParams

from mgw.canonical.reply import UpstreamError
from mgw.canonical.speech import SpeechReply, SpeechRequest
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import (
    ClientOperation,
    ProviderOperation,
    RenderOptions,
    ReplyContext,
    ReplySource,
    RequestContext,
)
from mgw.dialects.refusal import AnswerError
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.families import text_dialect
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family, Kind
from tools.translation.field_cases import Body, Client
from tools.translation.sdk_types import Shape, generate_content, of

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


def asker_of(family: Family) -> ClientOperation[SpeechRequest, SpeechReply]:
    """Return the client's side."""
    asker = client_side_of(text_dialect(family)).speech
    assert asker is not None
    return asker


def giver_of(family: Family) -> ProviderOperation[SpeechRequest, SpeechReply]:
    """Return the provider's side."""
    giver = provider_side_of(text_dialect(family)).speech
    assert giver is not None
    return giver


def setting_of(family: Family) -> RenderOptions:
    """Return what a renderer is told."""
    return RenderOptions("a-model", KINDS[family], ModelRow("*", family, "-"))


@dataclass(frozen=True)
class Sent:
    """A request that was translated."""

    up: Body
    """What goes up."""
    reported: frozenset[str]


def sent(client: Family, provider: Family, body: bytes) -> Sent | GatewayError:
    """Return a request's translation."""
    try:
        parsed = asker_of(client).parse_request(body, RequestContext("a-model"))
        rendered = giver_of(provider).render_request(parsed.request, setting_of(provider))
    except GatewayError as error:
        if error.reason is not Reason.MALFORMED:
            raise
        return error
    assert not rendered.lost
    return Sent(msgspec.json.decode(rendered.body), parsed.dropped(rendered))


@dataclass(frozen=True)
class Spoken:
    """Speech as the client gets it."""

    body: bytes
    content_type: bytes


def told(client: Family, provider: Family, body: bytes, content_type: bytes) -> Spoken | UpstreamError:
    """Return an answer as the client gets it; raises what a provider's answer may raise."""
    asked: Any = (
        b'{"input":"Hello"}' if client is not Family.GEMINI else b'{"contents":[{"parts":[{"text":"a"}]}]}'
    )
    wanted = asker_of(client).parse_request(asked, RequestContext("a-model")).request
    source = ReplySource("seed", content_type, replace(wanted, format="wav"))
    try:
        reply = giver_of(provider).parse_reply(body, source)
    except AnswerError as refused:
        return refused.error
    context = ReplyContext("req_1", "a-model", 0)
    return Spoken(asker_of(client).render_reply(reply, context), asker_of(client).content_type(reply))
