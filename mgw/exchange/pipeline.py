"""The system as one function: one request, from its model to the last byte of its answer."""

from __future__ import annotations

from mgw.dialects.history import TAG_BYTES, clean_history
from mgw.exchange.attempts import send
from mgw.exchange.client import Client, ClientRequest
from mgw.exchange.delivery import Plan, Whole, deliver, give
from mgw.exchange.exchange import Exchange
from mgw.exchange.passthrough import PROVIDER, Content, Passthrough, missing_model
from mgw.exchange.translation import Translating
from mgw.routing.capabilities import pass_gate
from mgw.routing.resolve import Target
from mgw.routing.route import ModelAt, Treatment
from mgw.wire.encodings import decoded
from mgw.wire.headers import value_of, values_of
from mgw.wire.nested import find_nested
from mgw.wire.splice import find_model
from mgw.wire.target import query_value

_WITH_HISTORY = frozenset({Treatment.CONVERSE, Treatment.COUNT})


async def serve(exchange: Exchange, request: ClientRequest, client: Client) -> None:
    """Answer a request, and leave its usage event behind.

    :raises GatewayError: a refusal that the caller says in the client's dialect if nothing was sent yet.
    """
    async with exchange:
        plan = plan_for(exchange, request)
        if isinstance(plan, Whole):
            await give(exchange, plan, client)
            return
        name = plan.target.provider.name
        upstream, source = exchange.generation.upstreams[name], exchange.generation.credentials[name]
        answer = await send(exchange, request, plan.upstream_request, upstream, source)
        try:
            how = plan.delivery(answer)
            del plan, request  # a stream may last for hours, and nothing needs its request any more
            await deliver(exchange, answer, how, client)
        finally:
            answer.abandon()  # nothing happens where the body was read to its end


def plan_for(exchange: Exchange, request: ClientRequest) -> Plan | Whole:
    """Decide where the request goes, and what becomes of it on the way.

    :raises GatewayError: see :func:`read`, :func:`aim` and :mod:`mgw.exchange.translation`.
    """
    content = read(exchange, request)
    target = aim(exchange, request, content)
    if target.family is not exchange.route.family:
        body = content.decoded if exchange.route.model_at is ModelAt.BODY else _decoded(exchange, request)
        return Translating(exchange, request, target, body).plan()
    if exchange.route.body_models and target.upstream_model != request.path_model:
        content = reread(exchange, request)
    base_path = exchange.generation.upstreams[target.provider.name].base_path
    keepalive = exchange.generation.config.stream_keepalive
    return Passthrough(
        exchange.route,
        target,
        request,
        cleaned(exchange, content),
        base_path,
        keepalive.interval if keepalive is not None and keepalive.passthrough else None,
    )


def read(exchange: Exchange, request: ClientRequest) -> Content:
    """Decode the body where it is looked at, and find the model in it.

    :raises GatewayError: ``MALFORMED`` or ``BODY_TOO_LARGE``.
    """
    if exchange.route.model_at is not ModelAt.BODY:
        return Content(request.body, request.body, None)
    body = _decoded(exchange, request)
    return Content(request.body, body, find_model(body), encoded=body is not request.body)


def reread(exchange: Exchange, request: ClientRequest) -> Content:
    """Find where the body repeats the model of the path, which is about to be replaced.

    :raises GatewayError: ``MALFORMED`` or ``BODY_TOO_LARGE``.
    """
    body = _decoded(exchange, request)
    found = tuple(find_nested(body, exchange.route.body_models))
    return Content(request.body, body, None, found, encoded=body is not request.body)


def cleaned(exchange: Exchange, content: Content) -> Content:
    """Cut out of a history what the gateway itself wrote for another family (decisions, part 5).

    Nothing of it concerns a body that is not looked at because of its content coding.
    """
    route = exchange.route
    if route.treatment not in _WITH_HISTORY or TAG_BYTES not in content.decoded:
        return content
    if not exchange.generation.config.translation.clean_history:
        return content
    body = clean_history(route.dialect, content.decoded)
    if body is content.decoded:
        return content
    model = None if content.model is None else find_model(body)
    repeated = tuple(find_nested(body, route.body_models)) if content.repeated else ()
    return Content(content.sent, body, model, repeated, content.encoded, cleaned=True)


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
