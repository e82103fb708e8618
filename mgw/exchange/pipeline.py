"""The system as one function: one request, from its model to the last byte of its response."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred

from mgw.credentials.provider import CredentialProvider
from mgw.credentials.static import OptionalCredential
from mgw.dialects import client_side_of
from mgw.errors import GatewayError, Reason
from mgw.exchange.attempts import send
from mgw.exchange.body import (
    RequestBody,
    decode_body,
    find_nested_models,
    open_body,
    strip_foreign_history,
    transform,
)
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import maybe_offload
from mgw.exchange.passthrough import Passthrough
from mgw.exchange.request import ClientRequest, ResponseChannel
from mgw.exchange.response import (
    BufferedResponse,
    ClientResponse,
    FullResponse,
    Plan,
    read_body,
    respond,
    send_full,
)
from mgw.exchange.rewritten_urls import url_rewriter_for
from mgw.exchange.target_resolution import resolve_target, rewrite_models
from mgw.exchange.translation import Translation, TranslationBuilder
from mgw.routing.resolve import Target
from mgw.routing.route import ModelAt, Treatment, UrlRewrite
from mgw.upstream.client import Upstream, UpstreamResponse
from mgw.wire.target import query_value

_BAD_REQUEST: Final = 400


async def serve(exchange: Exchange, request: ClientRequest, channel: ResponseChannel) -> None:
    """Answer a request, and leave its usage event behind.

    :raises GatewayError: a refusal that the caller says in the client's dialect if nothing was sent yet.
    """
    async with exchange:
        plan = await plan_for(exchange, request)
        if isinstance(plan, FullResponse):
            await send_full(exchange, plan, channel)
            return
        name = plan.target.provider.name
        upstream, credentials = exchange.generation.upstreams[name], _credentials_for(exchange, request, name)
        send_plan = partial(_send_plan, exchange, request, upstream, credentials)
        response = await send_plan(plan)
        try:
            client_response: ClientResponse = plan.client_response(response)
            if isinstance(plan, Translation) and plan.retry is not None and response.status == _BAD_REQUEST:
                response, client_response = await _retry_without_thoughts(exchange, plan, response, send_plan)
            del plan, request, send_plan  # a stream may last for hours, and nothing needs its request now
            if isinstance(client_response, FullResponse):
                await send_full(exchange, client_response, channel)
            else:
                await respond(exchange, response, client_response, channel)
        finally:
            response.cancel()  # nothing happens where the body was read to its end


async def _send_plan(
    exchange: Exchange, request: ClientRequest, upstream: Upstream, provider: CredentialProvider, plan: Plan
) -> UpstreamResponse:
    return await send(exchange, request, plan.upstream_request, upstream, provider)


async def _retry_without_thoughts(
    exchange: Exchange,
    plan: Translation,
    response: UpstreamResponse,
    send_plan: Callable[[Plan], Coroutine[Deferred[Any], Any, UpstreamResponse]],
) -> tuple[UpstreamResponse, ClientResponse]:
    """Send a request again without thoughts if it was refused for them, before anything is written.

    :raises GatewayError: as :func:`~mgw.exchange.attempts.send` does.
    """
    refused = plan.client_response(response)
    assert isinstance(refused, BufferedResponse), "a refusal is no stream"
    body = await read_body(exchange, response, refused.max_bytes)
    if plan.retry is None or not plan.is_refused_for_thoughts(response.status, body):
        return response, refused.complete(body)
    builder = plan.retry
    other = await maybe_offload(exchange.offload, builder.build_without_thoughts, large=builder.is_large)
    builder.record_findings()
    exchange.first_byte_at = None  # that was of a response which nobody gets
    response = await send_plan(other)
    try:
        return response, other.client_response(response)
    except GatewayError:
        response.cancel()
        raise


async def plan_for(exchange: Exchange, request: ClientRequest) -> Plan | FullResponse:
    """Decide where the request goes, and what becomes of it on the way.

    :raises GatewayError: see :mod:`mgw.exchange.body`, :mod:`mgw.exchange.target_resolution` and
        :mod:`mgw.exchange.translation`; ``NOT_IMPLEMENTED`` for a row that no provider serves.
    """
    if exchange.route.treatment is Treatment.REFUSE:
        raise not_implemented(exchange.route.path)
    body = await open_body(exchange, request)
    resolve = partial(resolve_target, exchange, request, body)
    target = await maybe_offload(exchange.offload, resolve, large=body.has_many_models)
    if target.family is not exchange.route.family:
        return await _translation(exchange, request, target, body)
    return await _passthrough(exchange, request, target, body)


def not_implemented(path: str) -> GatewayError:
    """Return the refusal of a row that no provider serves (contract 4.6)."""
    message = (
        f"{path} is not implemented: the gateway does not store conversations. Keep the state in the "
        "client, or use stored responses (/v1/responses) and files (/v1/files)"
    )
    return GatewayError(Reason.NOT_IMPLEMENTED, message)


async def _translation(
    exchange: Exchange, request: ClientRequest, target: Target, body: RequestBody
) -> Plan | FullResponse:
    decoded = body.decoded
    if exchange.route.model_at is not ModelAt.BODY or decoded is None:
        assert isinstance(request.body, bytes), "rows that are translated keep their body in memory"
        decoded = await decode_body(exchange, request, request.body)
    builder = TranslationBuilder(exchange, request, target, decoded)
    plan = await maybe_offload(exchange.offload, builder.build, large=builder.is_large)
    builder.record_findings()
    return plan


async def _passthrough(
    exchange: Exchange, request: ClientRequest, target: Target, body: RequestBody
) -> Passthrough:
    route, generation = exchange.route, exchange.generation
    repeats = route.model_at is ModelAt.PATH and route.body_models and not body.nested
    if repeats and target.upstream_model != request.path_model:
        body = await find_nested_models(exchange, request)
    body = await strip_foreign_history(exchange, body)
    if route.treatment is Treatment.SPEECH:
        body = await _request_audio(exchange, request, body)
    rewrite = partial(_rewrite, exchange, request, target, body)
    await maybe_offload(exchange.offload, rewrite, large=body.has_many_models)
    keepalive = generation.config.stream_keepalive
    return Passthrough(
        route,
        target,
        request,
        body,
        keepalive.interval if keepalive is not None and keepalive.passthrough else None,
        url_rewriter_for(exchange, request, target),
    )


def _rewrite(exchange: Exchange, request: ClientRequest, target: Target, body: RequestBody) -> None:
    rewrite_models(exchange, request, target, body)
    if body.has_many_models:
        body.upstream_body()  # so many edits take their time, too


async def _request_audio(exchange: Exchange, request: ClientRequest, body: RequestBody) -> RequestBody:
    speech = client_side_of(exchange.route.family).speech
    if speech is None or speech.natively is None:
        return body
    return await transform(exchange, request, speech.natively)


def _credentials_for(exchange: Exchange, request: ClientRequest, provider: str) -> CredentialProvider:
    """Return the credentials for a provider; the chunks of an upload need none, their URL is enough."""
    credentials = exchange.generation.credentials[provider]
    if exchange.route.url_rewrite is UrlRewrite.UPLOAD_URL and query_value(request.raw_query, "upload_id"):
        return OptionalCredential(credentials)
    return credentials
