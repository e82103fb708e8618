"""The system as one function: one request, from its model to the last byte of its answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred

from mgw.credentials.provider import CredentialProvider
from mgw.credentials.unkeyed import Unkeyed
from mgw.dialects import client_side_of
from mgw.errors import GatewayError, Reason
from mgw.exchange.addresses import turning_of
from mgw.exchange.aiming import aim, place_models
from mgw.exchange.aside import done
from mgw.exchange.attempts import send
from mgw.exchange.client import Client, ClientRequest
from mgw.exchange.content import Content, changed, cleaned, decoded_body, read, reread
from mgw.exchange.delivery import Gathered, Plan, Streamed, Whole, deliver, gather, give
from mgw.exchange.exchange import Exchange
from mgw.exchange.passthrough import Passthrough
from mgw.exchange.translation import Translating, Translation
from mgw.routing.resolve import Target
from mgw.routing.route import ModelAt, Treatment, UrlRewrite
from mgw.upstream.client import Answer, Upstream
from mgw.wire.target import query_value

_REFUSED: Final = 400


async def serve(exchange: Exchange, request: ClientRequest, client: Client) -> None:
    """Answer a request, and leave its usage event behind.

    :raises GatewayError: a refusal that the caller says in the client's dialect if nothing was sent yet.
    """
    async with exchange:
        plan = await plan_for(exchange, request)
        if isinstance(plan, Whole):
            await give(exchange, plan, client)
            return
        name = plan.target.provider.name
        upstream, source = exchange.generation.upstreams[name], _source(exchange, request, name)
        sent = partial(_sent, exchange, request, upstream, source)
        answer = await sent(plan)
        try:
            how: Streamed | Gathered | Whole = plan.delivery(answer)
            if isinstance(plan, Translation) and plan.again is not None and answer.status == _REFUSED:
                answer, how = await _once_more(exchange, plan, answer, sent)
            del plan, request, sent  # a stream may last for hours, and nothing needs its request any more
            if isinstance(how, Whole):
                await give(exchange, how, client)
            else:
                await deliver(exchange, answer, how, client)
        finally:
            answer.abandon()  # nothing happens where the body was read to its end


async def _sent(
    exchange: Exchange, request: ClientRequest, upstream: Upstream, source: CredentialProvider, plan: Plan
) -> Answer:
    return await send(exchange, request, plan.upstream_request, upstream, source)


async def _once_more(
    exchange: Exchange,
    plan: Translation,
    answer: Answer,
    sent: Callable[[Plan], Coroutine[Deferred[Any], Any, Answer]],
) -> tuple[Answer, Streamed | Gathered | Whole]:
    """Send a request again without thoughts if it was refused for them, before anything is written.

    :raises GatewayError: as :func:`~mgw.exchange.attempts.send` does.
    """
    refused = plan.delivery(answer)
    assert isinstance(refused, Gathered), "a refusal is no stream"
    body = await gather(exchange, answer, refused.max_bytes)
    if plan.again is None or not plan.is_refused_for_thoughts(answer.status, body):
        return answer, refused.complete(body)
    other = await done(exchange.aside, plan.again.without_thoughts, large=plan.again.is_large)
    plan.again.account()
    exchange.first_byte_at = None  # that was of an answer which nobody gets
    answer = await sent(other)
    try:
        return answer, other.delivery(answer)
    except GatewayError:
        answer.abandon()
        raise


async def plan_for(exchange: Exchange, request: ClientRequest) -> Plan | Whole:
    """Decide where the request goes, and what becomes of it on the way.

    :raises GatewayError: see :mod:`mgw.exchange.content`, :mod:`mgw.exchange.aiming` and
        :mod:`mgw.exchange.translation`; ``NOT_IMPLEMENTED`` for a row that no provider serves.
    """
    if exchange.route.treatment is Treatment.REFUSE:
        raise not_implemented(exchange.route.path)
    content = await read(exchange, request)
    aiming = partial(aim, exchange, request, content)
    target = await done(exchange.aside, aiming, large=content.is_heavy)
    if target.family is not exchange.route.family:
        return await _translation(exchange, request, target, content)
    return await _passthrough(exchange, request, target, content)


def not_implemented(path: str) -> GatewayError:
    """Return the refusal of a row that no provider serves (contract 4.6)."""
    message = (
        f"{path} is not implemented: the gateway does not store conversations. Keep the state in the "
        "client, or use stored responses (/v1/responses) and files (/v1/files)"
    )
    return GatewayError(Reason.NOT_IMPLEMENTED, message)


async def _translation(
    exchange: Exchange, request: ClientRequest, target: Target, content: Content
) -> Plan | Whole:
    body = content.decoded
    if exchange.route.model_at is not ModelAt.BODY or body is None:
        assert isinstance(request.body, bytes), "rows that are translated keep their body in memory"
        body = await decoded_body(exchange, request, request.body)
    translating = Translating(exchange, request, target, body)
    plan = await done(exchange.aside, translating.plan, large=translating.is_large)
    translating.account()
    return plan


async def _passthrough(
    exchange: Exchange, request: ClientRequest, target: Target, content: Content
) -> Passthrough:
    route, generation = exchange.route, exchange.generation
    repeats = route.model_at is ModelAt.PATH and route.body_models and not content.nested
    if repeats and target.upstream_model != request.path_model:
        content = await reread(exchange, request)
    content = await cleaned(exchange, content)
    if route.treatment is Treatment.SPEECH:
        content = await _asking_for_sound(exchange, request, content)
    placing = partial(_place, exchange, request, target, content)
    await done(exchange.aside, placing, large=content.is_heavy)
    keepalive = generation.config.stream_keepalive
    return Passthrough(
        route,
        target,
        request,
        content,
        keepalive.interval if keepalive is not None and keepalive.passthrough else None,
        turning_of(exchange, request, target),
    )


def _place(exchange: Exchange, request: ClientRequest, target: Target, content: Content) -> None:
    place_models(exchange, request, target, content)
    if content.is_heavy:
        content.outgoing()  # so many edits take their time, too


async def _asking_for_sound(exchange: Exchange, request: ClientRequest, content: Content) -> Content:
    speech = client_side_of(exchange.route.family).speech
    if speech is None or speech.natively is None:
        return content
    return await changed(exchange, request, speech.natively)


def _source(exchange: Exchange, request: ClientRequest, provider: str) -> CredentialProvider:
    """Return who we are to a provider; the chunks of an upload need nobody, their address says it all."""
    source = exchange.generation.credentials[provider]
    if exchange.route.url_rewrite is UrlRewrite.UPLOAD_URL and query_value(request.raw_query, "upload_id"):
        return Unkeyed(source)
    return source
