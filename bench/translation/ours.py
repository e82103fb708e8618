"""The gateway's side: what it does between the client's bytes and the provider's, without sockets.

A translation is what :mod:`mgw.exchange.translation` does with the dialects; where client and provider speak
one wire, it is what passing through does: the model is found and replaced, the answer's bytes are metered.
"""

from __future__ import annotations

from collections.abc import Callable

from mgw import __version__
from mgw.dialects import dialect_of
from mgw.dialects.dialect import (
    DEFAULT_OPTIONS,
    ClientSide,
    ProviderSide,
    RenderOptions,
    ReplyContext,
    ReplySource,
    RequestContext,
)
from mgw.dialects.models import Models
from mgw.exchange.passing_filters import PassthroughFilter
from mgw.nouns.vocabulary import DialectName, Kind
from mgw.wire.json_spans import find_string, replace_string
from tests.support.wires import ANTHROPIC, CHAT, GEMINI, MODELS

Work = Callable[[], bytes]

_DIALECTS = {CHAT: DialectName.OPENAI_CHAT, ANTHROPIC: DialectName.ANTHROPIC, GEMINI: DialectName.GEMINI}
_KINDS = {CHAT: Kind.OPENAI, ANTHROPIC: Kind.ANTHROPIC, GEMINI: Kind.GEMINI}
_SEED = "req_0123456789abcdef0123456789abcdef"
_JSON = b"application/json"
_EVENTS = b"text/event-stream"


class Ours:
    """The side that is measured."""

    version = f"mgw {__version__}"

    def __init__(self) -> None:
        self._models = Models()

    def request(self, client: str, provider: str, body: bytes) -> Work | None:
        model = MODELS[provider]
        if client == provider:
            return None if client == GEMINI else lambda: _with_model(body, model)  # there the path has it
        asked = _client(client).text.parse_request
        told = _provider(provider).text.render_request
        dialect, kind = _DIALECTS[provider], _KINDS[provider]

        def work() -> bytes:
            parsed = asked(body, RequestContext("bench"))
            setting = RenderOptions(model, kind, self._models.row(model, dialect.family))
            rendered = told(parsed.request, setting)
            parsed.dropped(rendered)
            return rendered.body

        return work

    def answer(self, client: str, provider: str, asked: bytes, body: bytes) -> Work | None:
        if client == provider:
            return lambda: _passed(client, _JSON, [body])
        understood, told = _provider(provider).text.parse_reply, _client(client).text.render_reply
        return lambda: told(
            understood(body, ReplySource(_SEED)),
            ReplyContext(_SEED, MODELS[provider], 1_782_900_000, DEFAULT_OPTIONS),
        )

    def stream(self, client: str, provider: str, asked: bytes, events: list[bytes]) -> Work | None:
        if client == provider:
            return lambda: _passed(client, _EVENTS, events)
        reader, writer = _provider(provider).stream_reader, _client(client).stream_writer
        context = RequestContext("bench", stream=True, raw_query=b"alt=sse")
        options = _client(client).text.parse_request(asked, context).reply_options
        answering = ReplyContext(_SEED, MODELS[provider], 1_782_900_000, options)

        def work() -> bytes:
            understood, told = reader(_SEED), writer(answering)
            out = [told.write(understood.feed(event)) for event in events]
            return b"".join([*out, told.write(understood.finish()), told.finish()])

        return work


def side() -> Ours:
    """Make the side."""
    return Ours()


def _client(wire: str) -> ClientSide:
    client = dialect_of(_DIALECTS[wire]).client
    assert client is not None
    return client


def _provider(wire: str) -> ProviderSide:
    provider = dialect_of(_DIALECTS[wire]).provider
    assert provider is not None
    return provider


def _with_model(body: bytes, model: str) -> bytes:
    found = find_string(body)
    assert found is not None
    return replace_string(body, found, model)


def _passed(wire: str, content_type: bytes, pieces: list[bytes]) -> bytes:
    passing = PassthroughFilter(dialect_of(_DIALECTS[wire]).meter(content_type))
    return b"".join([*map(passing.feed, pieces), passing.finish()])
