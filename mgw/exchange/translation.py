"""Different family: the request is parsed and rendered for the provider, and the response for the client.

Source: contract 8.1 to 8.5.  What becomes of a request is known before it goes
up, so the names of what was dropped stand in the head of the response.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from mgw.canonical.caching import add_breakpoints
from mgw.canonical.conversation import Conversation
from mgw.canonical.reply import TokenUsage
from mgw.config.translation import Base64Embeddings, HostedTools, ResponsesUpstream
from mgw.credentials.provider import Credential
from mgw.credentials.signing import Signing
from mgw.credentials.subscription.rewrite import BodyRewrite
from mgw.dialects import client_side_of, dialect_of, provider_side_of
from mgw.dialects.dialect import (
    DEFAULT_OPTIONS,
    ClientOperation,
    ClientSide,
    Parsed,
    ProviderOperation,
    ProviderSide,
    Rendered,
    RenderOptions,
    ReplyContext,
    ReplyOptions,
    ReplySource,
    RequestContext,
)
from mgw.dialects.last_event import LastEvent
from mgw.dialects.provider_dialect import AskedProvider, choose_dialect
from mgw.dialects.speech import choose_voice
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import LARGE_BYTES, SMALL_BYTES, takes_long
from mgw.exchange.response import BufferedResponse, EarlyStream, Estimate, FullResponse, StreamingResponse
from mgw.exchange.response_translation import (
    ESTIMATED,
    MAX_ERROR_BYTES,
    JsonTranslation,
    ResponseTranslation,
    StreamTranslation,
    first_names,
    gateway_headers_for,
)
from mgw.exchange.ruled_body import rules_for
from mgw.exchange.text_response import TextResponse
from mgw.exchange.translated_request import translated_head, wired_head
from mgw.exchange.upstream_head import render_head, render_signed_head
from mgw.exchange.upstream_headers import secrets_sent
from mgw.exchange.wired import WiredRequest
from mgw.memo.client_request import ClientRequest
from mgw.memo.known_target import UpstreamHead
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.families import FAMILIES
from mgw.nouns.model_row import ModelRow, without_addresses
from mgw.nouns.vocabulary import ChatTools, ThroughResponses
from mgw.routing.resolve import Target
from mgw.routing.route import Treatment
from mgw.tokens.estimate import estimate_tokens
from mgw.upstream.client import ResponseSink, Upstream, UpstreamResponse
from mgw.upstream.wires.wire import ProviderWire
from mgw.usage.event import MAX_TEXT
from mgw.wire.headers import RawHeaders, value_of
from mgw.wire.json_document import has_more_values
from mgw.wire.json_spans import apply_edits
from mgw.wire.media_types import JSON

MAX_OBJECTS: Final = 100_000
"""More than any history of an agent has: ten thousand calls with their results have sixty thousand."""
MAX_VALUES: Final = 400_000
"""The same of all values, whatever they are."""
_NEVER: Final = ThroughResponses.NEVER  # to look a member up takes three times as long
_NO_TOOLS: Final = ChatTools.NEVER
_WITH_TOOLS: Final = frozenset({Treatment.CHAT, Treatment.COUNT})
_CACHE_AUTO: Final = b"x-gateway-cache-auto"

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(slots=True, eq=False, repr=False)
class Translation:
    """One request translated into another family's dialect, and the translation of its response."""

    target: Target
    request: ClientRequest
    head: UpstreamHead
    body: bytes
    response: ResponseTranslation
    wired: WiredRequest | None = None
    """How the provider's wire has the request, where that is not as the dialect has it."""
    early_stream: EarlyStream | None = None
    """What the client of a stream may hear before the provider answers."""
    retry: TranslationBuilder | None = None
    """Builds the same without thoughts of earlier turns, where it has any that a provider may refuse."""

    def rewired(self, wired: WiredRequest, body: bytes) -> Translation:
        """Return how the same request is sent in another way."""
        head = UpstreamHead(self.head.method, self.target.provider, self.head.upstream_target, wired.headers)
        return dataclasses.replace(self, head=head, body=body, wired=wired)

    def is_refused_for_thoughts(self, status: int, body: bytes) -> bool:
        """Whether the provider's refusal is about thoughts of earlier turns."""
        provider = self.response.provider
        if provider.refuses_thoughts is None or len(body) > MAX_ERROR_BYTES:
            return False
        return provider.refuses_thoughts(provider.parse_error(status, body))

    def send(
        self,
        credential: Credential,
        upstream: Upstream,
        sink: ResponseSink,
        *,
        fresh: bool,
        signing: Signing | None,
    ) -> Callable[[], None] | None:
        """Send the request with one credential, as :meth:`mgw.upstream.client.Upstream.start` says.

        :raises GatewayError: ``MALFORMED``, where it cannot be written.
        """
        self.response.set_secrets((credential.key, *secrets_sent(self.target.provider, credential)))
        size, values = len(self.body), self.request.values
        if signing is None:
            head = render_head(self.head, credential, upstream, size, values)
        else:
            head = render_signed_head(self.head, (credential, signing), upstream, size, values)
        return upstream.send(self.head.method, head, self.body, sink, fresh=fresh)

    def client_response(
        self, response: UpstreamResponse, *, may_try_again: bool = False
    ) -> StreamingResponse | BufferedResponse:
        """Return the response for the client.

        :param may_try_again: whether a stream is held back until it says something, not just until it begins.
        :raises GatewayError: ``UPSTREAM_BROKEN`` for a response that nothing can be made of.
        """
        unframed = self.wired is not None and self.wired.unframe(response)
        return self.response.client_response(response, may_try_again=may_try_again, unframed=unframed)


@dataclass(slots=True, eq=False, repr=False)
class TranslationBuilder:
    """Builds one translation."""

    exchange: Exchange
    request: ClientRequest
    target: Target
    body: bytes
    """The body without any content coding."""
    client: ClientSide = field(init=False)
    provider: ProviderSide = field(init=False)
    _wire: ProviderWire = field(init=False)
    _dropped: Sequence[str] = field(init=False, default=())
    _not_sent: Sequence[str] = field(init=False, default=())
    """What the host would not take, as usage events name it."""
    _changed_by: int | None = field(init=False, default=None)
    _rendered_bytes: int = field(init=False, default=0)
    _characters: int | None = field(init=False, default=None)
    _thoughts: bool = True

    def __post_init__(self) -> None:
        self._wire = self.exchange.generation.upstreams[self.target.provider.name].wire
        self.client = client_side_of(self.exchange.route.dialect)
        self.provider = provider_side_of(self.target.provider.row.dialect)

    @property
    def is_large(self) -> bool:
        """Whether understanding the request takes so long that others should not wait for it."""
        has_rules = self.exchange.generation.body_rules is not None
        return takes_long(self.body, SMALL_BYTES if has_rules else LARGE_BYTES)

    def build(self) -> Translation | FullResponse:
        """Return the translation, or the response where no provider is needed; may run in any thread.

        :raises GatewayError: ``MALFORMED`` for what the client's dialect does not know, or the target cannot
            do at all; ``UNSUPPORTED_BY_KIND``.
        """
        if has_more_values(self.body, MAX_OBJECTS, MAX_VALUES):
            most = f"{MAX_OBJECTS} JSON objects and {MAX_VALUES} JSON values"
            message = f"a translated request may have at most {most}"
            raise GatewayError(Reason.MALFORMED, message)
        try:
            return _TREATMENTS[self.exchange.route.treatment](self)
        except RecursionError:
            raise GatewayError(Reason.MALFORMED, "the body is nested too deeply") from None

    def build_without_thoughts(self) -> Translation:
        """Return the translation anew, without thoughts of earlier turns; in any thread, as :meth:`build`."""
        self._thoughts = False
        translation = self.build()
        assert isinstance(translation, Translation), "what was sent once can be sent again"
        return translation

    def record_findings(self) -> None:
        """Tell the exchange what :meth:`build` found.

        :raises GatewayError: ``OVERLOADED``.
        """
        self.exchange.dropped_fields = [*self._dropped, *self._not_sent] if self._not_sent else self._dropped
        self.exchange.characters = self._characters
        self.exchange.body_rules = self._changed_by
        self.exchange.reserve(self._rendered_bytes)

    def _translate_chat(self) -> Translation:
        parsed = self.client.text.parse_request(self.body, self._request_context())
        conversation, cache_targets = self._add_breakpoints(parsed.request)
        options = self._choose_provider_side(conversation, self._render_options())
        rendered = self.provider.text.render_request(conversation, options)
        gateway_headers = self._gateway_headers(parsed.dropped(rendered), cache_targets)
        return self._translation(rendered, self._text_response(parsed, rendered, gateway_headers))

    def _choose_provider_side(self, conversation: Conversation, options: RenderOptions) -> RenderOptions:
        """Take the dialect in which the provider is asked; return the options for it.

        :raises GatewayError: as :func:`mgw.dialects.provider_dialect.choose_dialect` does.
        """
        provider, row = self.target.provider, options.row
        is_usual = row.through_responses is _NEVER and row.chat_tools is not _NO_TOOLS
        if is_usual and provider.missing_api is None:
            return options  # as most models are: this is asked for every request
        asked = AskedProvider(provider.row, provider.dialects, row)
        foreign = self.exchange.generation.config.translation.responses.upstream is ResponsesUpstream.FOREIGN
        dialect = choose_dialect(conversation, self.exchange.route.family, asked, foreign=foreign)
        if dialect is self.provider.dialect:
            return options
        self.provider = provider_side_of(dialect)
        return replace(options, row=row.on_responses)

    def _text_response(
        self, parsed: Parsed[Conversation], rendered: Rendered, gateway_headers: RawHeaders
    ) -> ResponseTranslation:
        client, provider, seed = self.client, self.provider, self.exchange.request_id
        context = self._reply_context(parsed.reply_options)
        # Nothing here keeps the rendered body, which need not live as long.
        text = TextResponse(client, provider, seed, rendered.renamed, context, wrapped=rendered.wrapped)
        stops, name = self.exchange.generation.unknown_stops, self.target.provider.name

        def on_unknown_stop(word: str) -> None:
            stops.note(name, word)

        def report_stops() -> None:
            for word in text.unknown_stops:
                on_unknown_stop(word)

        if not parsed.request.stream:
            buffered = JsonTranslation(client, provider, seed, gateway_headers, text.convert)
            buffered.on_complete = report_stops
            return buffered
        keepalive = self.exchange.generation.config.stream_keepalive
        streamed = StreamTranslation(
            client,
            provider,
            seed,
            gateway_headers,
            text.convert,
            parse=text.parse,
            reader=text.reader,
            new_writer=partial(client.stream_writer, context),
            names=rendered.renamed,
            on_unknown_stop=on_unknown_stop,
            last_event=LastEvent(dialect_of(self.exchange.route.dialect).stream_events.last),
            keepalive_seconds=None if keepalive is None else keepalive.interval,
            candidates=parsed.request.candidates or 1,
        )
        streamed.on_complete = report_stops
        return streamed

    def _translate_count(self) -> Translation | FullResponse:
        client, provider = self.client.count, self.provider.count
        if client is None:
            raise self._unsupported()
        parsed = client.parse_request(self.body, self._request_context())
        if provider is None:
            return self._estimated(client, parsed)
        translation = self._translate_buffered(client, provider, parsed)
        if self._wire.estimates_counts:
            estimated = partial(self._estimated, client, parsed)
            translation.response.estimate = Estimate(estimated, self.is_large)
        return translation

    @property
    def estimate(self) -> Estimate:
        """What answers a count without the provider."""
        return Estimate(self._estimate, self.is_large)

    def _estimate(self) -> FullResponse:
        if (client := self.client.count) is None:
            raise self._unsupported()
        return self._estimated(client, client.parse_request(self.body, self._request_context()))

    def _estimated(
        self, client: ClientOperation[Conversation, TokenUsage], parsed: Parsed[Conversation]
    ) -> FullResponse:
        usage = TokenUsage(tokens_in=estimate_tokens(parsed.request, self._render_options().row.tokens))
        headers = [(b"Content-Type", JSON), ESTIMATED, *self._gateway_headers(parsed.unread)]
        return FullResponse(200, headers, client.render_reply(usage, self._reply_context()))

    def _translate_embedding(self) -> Translation:
        client, provider = self.client.embedding, self.provider.embedding
        if client is None or provider is None:
            raise self._unsupported()
        encoding = self.exchange.generation.config.translation.base64_embeddings
        encodes = encoding is Base64Embeddings.ENCODE
        parsed = client.parse_request(self.body, replace(self._request_context(), base64_vectors=encodes))
        return self._translate_buffered(client, provider, parsed)

    def _translate_speech(self) -> Translation:
        client, provider = self.client.speech, self.provider.speech
        if client is None or provider is None:
            raise self._unsupported()
        parsed = client.parse_request(self.body, self._request_context())
        self._characters = len(parsed.request.text)
        voice = parsed.request.voice
        if voice is not None:
            overrides = self.exchange.generation.config.translation.voices.get(self.target.family, {})
            voice = choose_voice(voice, self.provider.voices, overrides)
            parsed = replace(parsed, request=replace(parsed.request, voice=voice))
        return self._translate_buffered(client, provider, parsed)

    def _translate_buffered(
        self,
        client: ClientOperation[Request, Response],
        provider: ProviderOperation[Request, Response],
        parsed: Parsed[Request],
    ) -> Translation:
        """Translate a request whose response is translated once it is whole."""
        request, options = parsed.request, self._render_options()
        dropped = frozenset[str]()
        if provider.relay_request is not None and client.body_of is self.target.family:
            rendered = provider.relay_request(self.body, request, options)
        else:
            rendered = provider.render_request(request, options)
            dropped = parsed.dropped(rendered)
        seed, context = self.exchange.request_id, self._reply_context(parsed.reply_options)

        def convert(body: bytes, content_type: bytes) -> tuple[bytes, bytes, TokenUsage]:
            reply = provider.parse_reply(body, ReplySource(seed, content_type, request))
            return client.render_reply(reply, context), client.content_type(reply), provider.usage(reply)

        response = JsonTranslation(
            self.client, self.provider, seed, self._gateway_headers(dropped), convert, provider.accept
        )
        return self._translation(rendered, response)

    def _reply_context(self, options: ReplyOptions = DEFAULT_OPTIONS) -> ReplyContext:
        model = (self.target.upstream_model or "").removeprefix("models/")
        return ReplyContext(self.exchange.request_id, model, int(self.exchange.wall), options)

    def _translation(self, rendered: Rendered, response: ResponseTranslation) -> Translation:
        rewrites = self.exchange.generation.rewrites
        if rewrites and (rewrite := rewrites.get(self.target.provider.name)) is not None:
            rendered = self._rewrite(rendered, response, rewrite)
        sent = self.exchange, self.request, self.target, rendered, response.accept
        wire, body, wired, rules = self._wire, rendered.body, None, None
        if self.exchange.generation.body_rules is not None:
            rules = rules_for(self.exchange, self.target, self.provider.dialect)
        if wire.edits is None and wire.unframe is None and wire.error is None:
            head = translated_head(*sent)
            if rules is not None:
                body, self._changed_by = rules.apply(body)
        else:
            head, wired, body = wired_head(*sent, rules)
            self._changed_by = wired.changed_by
            response.read_host_error = wire.error
            if self.exchange.generation.config.observe_dropped_fields:
                self._not_sent = [name[:MAX_TEXT] for name in wired.dropped]
        self._rendered_bytes = len(body)
        retry = self if rendered.thoughts else None
        early = response.early_stream if type(response) is StreamTranslation else None
        return Translation(self.target, self.request, head, body, response, wired, early, retry)

    def _rewrite(self, rendered: Rendered, response: ResponseTranslation, rewrite: BodyRewrite) -> Rendered:
        """Return a request as the profile of the provider's accounts wants it."""
        rewriting = dialect_of(self.provider.dialect).rewriting
        if rewriting is None or self.exchange.route.treatment not in _WITH_TOOLS:
            return rendered
        user_agent = value_of(self.request.headers, b"user-agent")
        if rewrite.names is not None:
            response.restore_names(rewriting.tool_places, rewrite.names)
        edits = rewrite.edits(rewriting, rendered.body, user_agent)
        return replace(rendered, body=apply_edits(rendered.body, edits))

    def _add_breakpoints(self, conversation: Conversation) -> tuple[Conversation, tuple[str, ...]]:
        auto = self.exchange.generation.config.caching.auto_breakpoints
        if not auto.enabled or not self.target.provider.row.takes_breakpoints:
            return conversation, ()
        setting = value_of(self.request.headers, _CACHE_AUTO)
        if setting is not None and setting.strip().lower() == b"off":
            return conversation, ()
        targets = frozenset(target.value for target in auto.targets)
        return add_breakpoints(conversation, targets, auto.min_chars)

    def _gateway_headers(self, dropped: Set[str], cache_targets: tuple[str, ...] = ()) -> RawHeaders:
        if dropped and self.exchange.generation.config.observe_dropped_fields:
            self._dropped = [name[:MAX_TEXT] for name in first_names(dropped)]
        family, request_id = self.exchange.route.family, self.exchange.request_id
        return gateway_headers_for(family, request_id, self._dropped, cache_targets)

    def _request_context(self) -> RequestContext:
        route, responses = self.exchange.route, self.exchange.generation.config.translation.responses
        drop_hosted_tools = responses.hosted_tools is HostedTools.DROP
        model, raw_query = self.target.asked_model or "", self.request.raw_query
        return RequestContext(model, route.in_pieces, raw_query, drop_hosted_tools)

    def _render_options(self) -> RenderOptions:
        generation, provider = self.exchange.generation, self.target.provider
        model = self.target.upstream_model or ""
        version = None
        for name in FAMILIES[self.target.family].version_headers:
            version = value_of(self.request.headers, name) or version
        return RenderOptions(
            model=model,
            kind=provider.kind,
            row=self._row(model),
            default_max_tokens=generation.config.translation.default_max_tokens,
            max_tokens_field=provider.max_tokens_field,
            stream_usage=provider.stream_usage,
            extra_fields=frozenset(provider.extra_fields),
            chat_template=provider.chat_template,
            on_vertex=provider.is_vertex,
            version=None if version is None else version.decode("latin-1"),
            thoughts=self._thoughts,
        )

    def _row(self, model: str) -> ModelRow:
        """Return what is known of the model where it is asked."""
        row = self.exchange.generation.models.row(model, self.target.family)
        return row if self.target.provider.row.fetches_addresses else without_addresses(row)

    def _unsupported(self) -> GatewayError:
        message = f"{self.exchange.route.path} is not translated for providers of kind {self.target.kind}"
        return GatewayError(Reason.UNSUPPORTED_BY_KIND, message, param="model")


_TREATMENTS: Final = {
    Treatment.CHAT: TranslationBuilder._translate_chat,
    Treatment.COUNT: TranslationBuilder._translate_count,
    Treatment.EMBED: TranslationBuilder._translate_embedding,
    Treatment.SPEECH: TranslationBuilder._translate_speech,
}
