"""Decide where a request goes and how it is handled: the first half of the pipeline.

Nothing here waits unless a body is large, on disk or coded: :func:`plan_for` then waits for a thread.
"""

from __future__ import annotations

from functools import partial
from operator import contains
from typing import Final

from mgw.bodies.source import BodySource, body_size
from mgw.bodies.spliced import SplicedBody
from mgw.credentials.signed_again import Again
from mgw.credentials.subscription.rewrite import BodyRewrite
from mgw.dialects import dialect_of
from mgw.dialects.foreign_history import TAG_BYTES
from mgw.dialects.refusal import AnswerError
from mgw.exchange.answering_model import AnsweringModel
from mgw.exchange.attempts import Attempts
from mgw.exchange.body import (
    COPIED_BYTES,
    LIST_MARKER,
    RequestBody,
    ask_for_usage,
    decode_body,
    find_nested_models,
    find_other_models,
    has_foreign_history,
    open_body,
    renamed_body,
    strip_foreign_history,
)
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import SEARCHED_BYTES, SMALL_BYTES, maybe_offload
from mgw.exchange.passthrough import Passthrough
from mgw.exchange.refusals import early_stream_of, read_refusal
from mgw.exchange.response import BufferedResponse, FullResponse, Plan, read_body
from mgw.exchange.restricted_body import open_restricted_body, read_small_restricted
from mgw.exchange.rewritten_names import RenamedPassthrough
from mgw.exchange.rewritten_urls import UrlRewriter, url_rewriter_for
from mgw.exchange.ruled_body import change_body, change_small_body, rules_for
from mgw.exchange.spoken import count_spoken, request_audio
from mgw.exchange.target_resolution import check_allowed, check_price, resolve_target, rewrite_models
from mgw.exchange.translation import Translation, TranslationBuilder
from mgw.exchange.upstream_head import known_target_of, relayed_head, vendor_call_of
from mgw.exchange.upstream_headers import forwarded_headers
from mgw.exchange.wired import WiredRequest, asks_for_stream, readable_headers, with_findings
from mgw.memo.client_request import ClientRequest
from mgw.memo.known_target import KnownTarget, UpstreamHead
from mgw.nouns.errors import GatewayError, Reason
from mgw.routing.model_source import ModelAt
from mgw.routing.resolve import Target, check_capability, is_translated
from mgw.routing.route import Route, Treatment
from mgw.upstream.client import UpstreamResponse
from mgw.upstream.wires.wire import ProviderWire
from mgw.usage.event import MAX_TEXT
from mgw.wire.byte_search import LONG_BYTES, holds
from mgw.wire.headers import value_of
from mgw.wire.json_spans import find_model, replace_spans

_BAD_REQUEST: Final = 400


def plan_known(
    exchange: Exchange, request: ClientRequest, body: bytes | BodySource
) -> Plan | FullResponse | None:
    """Plan a request like one that came before, or return ``None``; nothing waits.

    Only the body and the lines of a new head are looked at; all else, and what it raises, is as in
    :func:`plan_for`.
    """
    route, memo = exchange.route, exchange.generation.memo
    findings = memo.findings.get(request.head_number)
    is_known = request.is_uncoded and route.is_remembered and (findings is not None or memo.targets)
    if not is_known or not isinstance(body, bytes) or len(body) > SEARCHED_BYTES:
        return None
    if exchange.client is None or not exchange.client.fits:
        found = find_model(body) if route.names_one_model else None
    else:
        opened = read_small_restricted(exchange, request, body)
        if opened is None:
            return None
        found = opened.model
    asked = request.path_model if found is None else found.value
    relayed = None if findings is None else findings.relayed.get(asked)
    if relayed is None:
        target = memo.find_target(route, request, asked)
        if not isinstance(target, KnownTarget):
            return None if target is None else _translate_known(exchange, request, target, body)
        relayed = _relay_known(exchange, request, asked, target)
    known, head = relayed
    has = holds if len(body) > LONG_BYTES else contains
    may_list = known.takes_list and (found is None or not found.is_alone)
    repeats = found is not None and found.spans[1:] and exchange.client is not None  # for a limit on money
    if repeats or has(body, TAG_BYTES) or (may_list and has(body, LIST_MARKER)):
        return None
    exchange.asked_model, exchange.target = asked, known.target
    if found is not None and known.model_literal is not None:
        rename = replace_spans if len(body) <= COPIED_BYTES else renamed_body
        body = rename(body, found.spans, known.model_literal)
    plan = Passthrough(route, known.target, request, body, known.keepalive_seconds, None, head)
    plan.reads_errors = exchange.generation.error_messages
    return plan if exchange.generation.body_rules is None else change_small_body(exchange, plan)


def _relay_known(
    exchange: Exchange, request: ClientRequest, asked: str | None, target: KnownTarget
) -> tuple[KnownTarget, UpstreamHead]:
    """Return a target with the head for it, and remember both for this head of the client's."""
    memo = exchange.generation.memo
    exchange.asked_model, exchange.target = asked, target.target
    check_allowed(exchange, target.target)
    head = relayed_head(memo, target, request)
    if request.head_number in memo.findings:
        memo.keep_relayed(request, asked, target, head)
    return target, head


def _translate_known(
    exchange: Exchange, request: ClientRequest, target: Target, body: bytes
) -> Plan | FullResponse | None:
    exchange.asked_model = target.asked_model
    exchange.target = target
    check_allowed(exchange, target)
    builder = TranslationBuilder(exchange, request, target, body)
    if builder.is_large:
        return None
    plan = builder.build()
    builder.record_findings()
    return plan


async def plan_for(
    exchange: Exchange, request: ClientRequest, body: bytes | BodySource
) -> Plan | FullResponse:
    """Decide where the request goes, and what becomes of it on the way.

    :raises GatewayError: see :mod:`mgw.exchange.body`, :mod:`mgw.exchange.target_resolution` and
        :mod:`mgw.exchange.translation`; ``NOT_IMPLEMENTED`` for a row that no provider serves.
    """
    if exchange.route.treatment is Treatment.REFUSE:
        raise not_implemented(exchange.route.path)
    if exchange.route.unstored is not None and exchange.route.unstored in request.raw_path:
        raise _not_stored()
    opened = await _open(exchange, request, body)
    if opened.has_many_models:
        target = await exchange.offload(partial(resolve_target, exchange, request, opened))
    else:
        target = resolve_target(exchange, request, opened)
    if is_translated(exchange.route, target):
        return await _translation(exchange, request, target, opened)
    return await _passthrough(exchange, request, target, opened)


async def plan_fallback(
    exchange: Exchange, request: ClientRequest, body: bytes | BodySource, attempts: Attempts
) -> Plan | FullResponse | None:
    """Plan a request anew for the next target of its alias that can take it; ``None``: there is none."""
    target_before, key_hash, request_id = exchange.target, exchange.key_hash, exchange.upstream_request_id
    dropped_fields, body_rules = exchange.dropped_fields, exchange.body_rules
    while attempts.targets:
        target = attempts.begin_fallback()
        exchange.retarget(target)
        try:
            check_capability(exchange.route, target, exchange.generation.config.translation)
            check_allowed(exchange, target)
            check_price(exchange, target)
            opened = await _open(exchange, request, body)
            if is_translated(exchange.route, target):
                return await _translation(exchange, request, target, opened, keep=False)
            return await _passthrough(exchange, request, target, opened, keep=False)
        except GatewayError:  # it cannot be asked for this: perhaps another can
            continue
    exchange.target, exchange.key_hash, exchange.upstream_request_id = target_before, key_hash, request_id
    exchange.dropped_fields, exchange.body_rules = dropped_fields, body_rules
    return None


async def plan_without_thoughts(
    exchange: Exchange,
    plan: Translation,
    builder: TranslationBuilder,
    response: UpstreamResponse,
    refused: BufferedResponse,
) -> Plan | FullResponse:
    """Plan the same request without thoughts if it was refused for them, else return the response.

    :raises GatewayError: as :func:`mgw.exchange.response.read_body` does.
    """
    body = await read_body(exchange, response, refused.max_bytes)
    if not plan.is_refused_for_thoughts(response.status, body):
        return refused.complete(body)
    other = await maybe_offload(exchange.offload, builder.build_without_thoughts, large=builder.is_large)
    builder.record_findings()
    exchange.received.first_byte_at = None  # that was of a response which nobody gets
    return other


async def _open(exchange: Exchange, request: ClientRequest, body: bytes | BodySource) -> RequestBody:
    """Read the body as far as its route needs it, and find the models in it."""
    if exchange.is_restricted and exchange.route.may_name_models:
        return await open_restricted_body(exchange, request, body)
    return await open_body(exchange, request, body)


def not_implemented(path: str) -> GatewayError:
    """Return the refusal of a row that no provider serves (contract 4.6)."""
    message = (
        f"{path} is not implemented: the gateway does not store conversations. Keep the state in the "
        "client, or use stored responses (/v1/responses) and files (/v1/files)"
    )
    return GatewayError(Reason.NOT_IMPLEMENTED, message)


def _not_stored() -> GatewayError:
    """Return the refusal of what is asked of a translated response later (contract 11.2)."""
    message = "responses to translated requests are not stored: keep the response in the client"
    return GatewayError(Reason.UNKNOWN_ROUTE, message, param="response_id", code="response_not_found")


async def _translation(
    exchange: Exchange, request: ClientRequest, target: Target, body: RequestBody, *, keep: bool = True
) -> Plan | FullResponse:
    """Translate a request; ``keep`` what leads to the target for other requests."""
    decoded = body.decoded
    if exchange.route.models.at is not ModelAt.BODY or decoded is None:
        assert isinstance(body.original, bytes), "rows that are translated keep their body in memory"
        decoded = await decode_body(exchange, request, body.original)
    if keep and exchange.route.is_remembered:
        exchange.generation.memo.keep_target(exchange.route, request, target)
    builder = TranslationBuilder(exchange, request, target, decoded)
    plan = await maybe_offload(exchange.offload, builder.build, large=builder.is_large)
    builder.record_findings()
    return plan


async def _passthrough(
    exchange: Exchange, request: ClientRequest, target: Target, body: RequestBody, *, keep: bool = True
) -> Plan:
    """Pass a request on; ``keep`` what leads to the target for other requests."""
    route, wire = exchange.route, exchange.generation.upstreams[target.provider.name].wire
    rewrites = exchange.generation.rewrites
    if rewrites and target.provider.name in rewrites and _is_rewritable(route):
        return await _rewritten(exchange, request, target, body, rewrites[target.provider.name])
    asked = dialect_of(route.dialect).asked_usage if target.provider.meter_streams else None
    if keep and route.is_remembered and not body.encoded and wire.is_plain and asked is None:
        return await _remembered(exchange, request, target, body)
    repeats = route.models.at is ModelAt.PATH and route.models.paths and not body.nested
    if repeats and not exchange.is_restricted and target.upstream_model != request.path_model:
        body = await find_nested_models(exchange, request, body.original)
    if has_foreign_history(exchange, body):
        body = await strip_foreign_history(exchange, body)
    await find_other_models(exchange, target, body)
    if route.treatment is Treatment.SPEECH:
        if exchange.generation.prices is not None:
            exchange.characters = await count_spoken(exchange, body)
        body = await request_audio(exchange, request, body)
    rewrite = partial(_rewrite, exchange, request, target, body)
    await maybe_offload(exchange.offload, rewrite, large=body.has_many_models)
    is_asked = asked is not None and await ask_for_usage(exchange, body, asked)
    rewriter = url_rewriter_for(exchange, request, target)
    plan = _passthrough_of(exchange, request, target, body, rewriter=rewriter)
    if asked is not None and is_asked:
        plan.readable, plan.remover = True, asked.remover
    await _put_on_wire(exchange, plan)
    return plan


async def _remembered(exchange: Exchange, request: ClientRequest, target: Target, body: RequestBody) -> Plan:
    """Pass a request on, and keep all that leads to the target and what is sent there but the body."""
    if has_foreign_history(exchange, body):
        body = await strip_foreign_history(exchange, body)
    await find_other_models(exchange, target, body)
    rewrite_models(exchange, request, target, body)
    route, memo = exchange.route, exchange.generation.memo
    wire = exchange.generation.upstreams[target.provider.name].wire
    known = known_target_of(route, target, request, wire, _keepalive_seconds(exchange))
    memo.keep_target(route, request, known)
    head = relayed_head(memo, known, request)
    if not request.content_codings:
        memo.keep_relayed(request, target.asked_model, known, head)
    plan = _passthrough_of(exchange, request, target, body, head=head)
    if exchange.generation.body_rules is not None:
        await change_body(exchange, plan)
    return plan


async def _put_on_wire(exchange: Exchange, plan: Passthrough) -> None:
    """Change a request into what the hosts of its provider take, where that is not as the dialect has it.

    :raises GatewayError: they cannot take it.
    """
    request, body = plan.request, plan.body
    wire = exchange.generation.upstreams[plan.target.provider.name].wire
    if wire.is_plain:
        if not wire.serves_all:  # refused now, before a credential is asked for
            wire.call(plan.target.provider, vendor_call_of(plan.route, plan.target, request))
        if exchange.generation.body_rules is not None:
            await change_body(exchange, plan)
        return
    if isinstance(body, SplicedBody):
        body = body.joined()
    text = body if isinstance(body, bytes) else b""
    if text and request.content_codings and not plan.reencoded:
        text = await decode_body(exchange, request, text)
        plan.reencoded = True
    wired_by = partial(_wired, exchange, plan, wire, text)
    wired, edited = await maybe_offload(exchange.offload, wired_by, large=len(text) > SMALL_BYTES)
    if isinstance(body, bytes):
        plan.body = edited
    plan.wired, exchange.body_rules = wired, wired.changed_by
    _report_dropped(exchange, wired)
    keepalive = exchange.generation.config.stream_keepalive
    if wire.is_silent and keepalive is not None:
        plan.keepalive_seconds = keepalive.interval
        if wired.vendor_call.stream:
            plan.early_stream = early_stream_of(exchange, keepalive.interval)
    if wire.estimates_counts and exchange.route.treatment is Treatment.COUNT:
        plan.estimate = TranslationBuilder(exchange, request, plan.target, text).estimate


def _wired(
    exchange: Exchange, plan: Passthrough, wire: ProviderWire, text: bytes
) -> tuple[WiredRequest, bytes]:
    route, request, target = plan.route, plan.request, plan.target
    vendor_call = vendor_call_of(route, target, request, stream=route.in_pieces or asks_for_stream(text))
    if wire.edits is not None:
        vendor_call = with_findings(exchange, target, vendor_call)
    headers = readable_headers(forwarded_headers(request.headers, route.family, target))
    names = route.dialect, target.provider.row.dialect, exchange.request_id, target.provider
    call = wire.call(target.provider, vendor_call)
    rules = None if exchange.generation.body_rules is None else rules_for(exchange, target)
    return WiredRequest(wire, vendor_call, call, headers, *names, rules=rules).edit(text)


def _report_dropped(exchange: Exchange, wired: WiredRequest) -> None:
    if wired.dropped and exchange.generation.config.observe_dropped_fields:
        exchange.dropped_fields = [name[:MAX_TEXT] for name in wired.dropped]


async def plan_without_refused(
    exchange: Exchange, plan: Plan, wired: WiredRequest, refusal: UpstreamResponse | GatewayError
) -> Plan | None:
    """Plan the same request without what a refusal is about, if that can be left out; remember it anyway.

    ``None``: it is about something else, or it is the second one.

    :param refusal: a response, or what the host said in place of a stream.
    """
    if isinstance(refusal, UpstreamResponse):
        error = await read_refusal(wired, refusal) if refusal.status == _BAD_REQUEST else None
    else:
        error = refusal.error if isinstance(refusal, AnswerError) else None
    refused = frozenset() if error is None else wired.refused_by(error)
    if not refused:
        return None
    upstream, model = exchange.generation.upstreams[plan.target.provider.name], plan.target.upstream_model
    upstream.refused_words.note(model or "", refused, exchange.clock.seconds())
    if wired.is_second:
        return None
    large = body_size(plan.body) > SMALL_BYTES
    again, body = await maybe_offload(exchange.offload, partial(wired.without, refused), large=large)
    exchange.received.first_byte_at = None  # that was of a response which nobody gets
    exchange.generation.signed_again.note(plan.target.provider_name, Again.BETAS)
    exchange.body_rules = again.changed_by
    _report_dropped(exchange, again)
    return plan.rewired(again, body)


def _is_rewritable(route: Route) -> bool:
    """Whether a profile may change more in a route's requests than the model."""
    return route.is_rewritable and dialect_of(route.dialect).rewriting is not None


async def _rewritten(
    exchange: Exchange, request: ClientRequest, target: Target, body: RequestBody, rewrite: BodyRewrite
) -> Plan:
    """Pass a request on as the profile of the provider's accounts wants it."""
    if has_foreign_history(exchange, body):
        body = await strip_foreign_history(exchange, body)
    await find_other_models(exchange, target, body)
    rewrite_models(exchange, request, target, body)
    text, rewriting = body.decoded, dialect_of(exchange.route.dialect).rewriting
    assert text is not None, "rows that are rewritten are looked at"
    assert rewriting is not None, "nothing else is rewritten"
    find = partial(rewrite.edits, rewriting, text, value_of(request.headers, b"user-agent"))
    body.edits += await maybe_offload(exchange.offload, find, large=len(text) > SMALL_BYTES)
    plan = _passthrough_of(exchange, request, target, body)
    await _put_on_wire(exchange, plan)
    if rewrite.names is None:
        return plan
    plan.readable = True
    return RenamedPassthrough(plan, rewriting.tool_places, rewrite.names)


def _passthrough_of(
    exchange: Exchange,
    request: ClientRequest,
    target: Target,
    body: RequestBody,
    *,
    rewriter: UrlRewriter | None = None,
    head: UpstreamHead | None = None,
) -> Passthrough:
    content, reencoded = body.upstream_body()
    seconds = _keepalive_seconds(exchange)
    plan = Passthrough(
        exchange.route,
        target,
        request,
        content,
        seconds,
        rewriter,
        head,
        reencoded=reencoded,
        reads_errors=exchange.generation.error_messages,
    )
    if body.listed:
        plan.answering = AnsweringModel(exchange, frozenset((*body.listed, target.upstream_model or "")))
    return plan


def _keepalive_seconds(exchange: Exchange) -> float | None:
    keepalive = exchange.generation.config.stream_keepalive
    return keepalive.interval if keepalive is not None and keepalive.passthrough else None


def _rewrite(exchange: Exchange, request: ClientRequest, target: Target, body: RequestBody) -> None:
    rewrite_models(exchange, request, target, body)
    if body.has_many_models:
        body.upstream_body()  # so many edits take their time, too
