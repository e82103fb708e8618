"""The system as one function: one request, from its model to the last byte of its answer."""

from __future__ import annotations

from mgw.exchange.attempts import send
from mgw.exchange.client import Client, ClientRequest
from mgw.exchange.exchange import Exchange
from mgw.exchange.passthrough import PROVIDER, Content, Passthrough, is_stream, missing_model
from mgw.exchange.relay import relay
from mgw.routing.capabilities import pass_gate
from mgw.routing.resolve import Target
from mgw.routing.route import ModelAt
from mgw.upstream.client import Answer
from mgw.wire.encodings import decoded
from mgw.wire.headers import RawHeaders, value_of, values_of
from mgw.wire.nested import find_nested
from mgw.wire.splice import find_model
from mgw.wire.target import query_value


async def serve(exchange: Exchange, request: ClientRequest, client: Client) -> None:
    """Answer a request, and leave its usage event behind.

    :raises GatewayError: a refusal that the caller says in the client's dialect if nothing was sent yet.
    """
    async with exchange:
        plan = plan_for(exchange, request)
        name = plan.target.provider.name
        upstream, source = exchange.generation.upstreams[name], exchange.generation.credentials[name]
        answer = await send(exchange, request, plan.upstream_request, upstream, source)
        try:
            headers, body_filter = plan.answer_headers(answer), plan.filter(answer)
            del plan, request  # a stream may last for hours, and nothing needs its request any more
            start(exchange, headers, answer, client)
            await relay(exchange, answer, body_filter, client)
        finally:
            answer.abandon()  # nothing happens where the body was read to its end


def plan_for(exchange: Exchange, request: ClientRequest) -> Passthrough:
    """Decide where the request goes, and what becomes of it on the way.

    :raises GatewayError: see :func:`read` and :func:`aim`.
    """
    content = read(exchange, request)
    target = aim(exchange, request, content)
    if exchange.route.body_models and target.upstream_model != request.path_model:
        content = reread(exchange, request)
    base_path = exchange.generation.upstreams[target.provider.name].base_path
    return Passthrough(exchange.route, target, request, content, base_path)


def read(exchange: Exchange, request: ClientRequest) -> Content:
    """Decode the body where it is looked at, and find the model in it.

    :raises GatewayError: ``MALFORMED`` or ``BODY_TOO_LARGE``.
    """
    if exchange.route.model_at is not ModelAt.BODY:
        return Content(request.body, request.body, None)
    body = _decoded(exchange, request)
    return Content(request.body, body, find_model(body))


def reread(exchange: Exchange, request: ClientRequest) -> Content:
    """Find where the body repeats the model of the path, which is about to be replaced.

    :raises GatewayError: ``MALFORMED`` or ``BODY_TOO_LARGE``.
    """
    body = _decoded(exchange, request)
    return Content(request.body, body, None, tuple(find_nested(body, exchange.route.body_models)))


def _decoded(exchange: Exchange, request: ClientRequest) -> bytes:
    encodings = values_of(request.headers, b"content-encoding")
    if not encodings:
        return request.body
    body = decoded(request.body, b",".join(encodings), exchange.generation.config.max_body_bytes)
    exchange.hold(len(body))
    return body


def aim(exchange: Exchange, request: ClientRequest, content: Content) -> Target:
    """Resolve the model and pass the gate.

    :raises GatewayError: see :mod:`mgw.routing.resolve` and :mod:`mgw.routing.capabilities`.
    """
    route, resolver = exchange.route, exchange.generation.resolver
    asked = request.path_model if content.model is None else content.model.value
    exchange.asked_model = asked
    if asked is not None:
        target = resolver.resolve(asked, route.family)
    elif route.model_optional:
        target = Target(resolver.chosen(_provider_in(request), route.family), None, None)
    else:
        raise missing_model(route)
    exchange.target = target
    pass_gate(route, target)
    return target


def _provider_in(request: ClientRequest) -> str | None:
    header = value_of(request.headers, b"x-provider")
    return query_value(request.raw_query, PROVIDER) or (None if header is None else header.decode("latin-1"))


def start(exchange: Exchange, headers: RawHeaders, answer: Answer, client: Client) -> None:
    """Send the head of the answer to the client."""
    headers.append((b"X-Gateway-Request-Id", exchange.request_id.encode()))
    exchange.http_status = answer.status
    exchange.stream = is_stream(exchange.route, answer)
    client.start(answer.status, answer.reason, headers)
