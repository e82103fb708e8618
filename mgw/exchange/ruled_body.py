"""Bodies that are changed on their way to a provider by the operator's rules (contract 5.21)."""

from __future__ import annotations

from functools import partial

from mgw.bodies.source import BodySource, body_size, read_all
from mgw.bodies.spliced import SplicedBody
from mgw.exchange.body import decode_body
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import SMALL_BYTES, maybe_offload
from mgw.exchange.passthrough import Passthrough
from mgw.nouns.vocabulary import DialectName
from mgw.routing.body_rules import MatchingRules
from mgw.routing.resolve import Target


def rules_for(
    exchange: Exchange, target: Target, translated: DialectName | None = None
) -> MatchingRules | None:
    """Return the rules for a request; ``None``: its body stays as it is.

    :param translated: the dialect that it is translated into; ``None``: it is passed on.
    """
    rules, client = exchange.generation.body_rules, exchange.client
    if rules is None:
        return None
    return rules.find(exchange.route, target, None if client is None else client.name, translated)


def change_small_body(exchange: Exchange, plan: Passthrough) -> Passthrough | None:
    """Have a request sent with its body as the rules have it; ``None``: that takes a thread.

    The body is in memory and has no coding.

    :raises GatewayError: as :meth:`mgw.routing.body_rules.MatchingRules.apply` does.
    """
    matching, body = rules_for(exchange, plan.target), plan.body
    if matching is None:
        return plan
    if not isinstance(body, bytes):
        assert isinstance(body, SplicedBody), "it is in memory"
        if body.size > SMALL_BYTES:
            return None
        body = body.joined()
    if len(body) > SMALL_BYTES:
        return None
    changed, exchange.body_rules = matching.apply(body)
    if changed is not body:
        plan.body = changed
    return plan


async def change_body(exchange: Exchange, plan: Passthrough) -> None:
    """Have a request sent with its body as the rules have it; unchanged, it keeps its coding.

    :raises GatewayError: as above; ``BODY_TOO_LARGE`` or ``OVERLOADED``.
    """
    matching = rules_for(exchange, plan.target)
    if matching is None:
        return
    body, codings = await _read(exchange, plan.body), plan.request.content_codings
    is_coded = bool(codings) and not plan.reencoded
    if is_coded:
        body = await decode_body(exchange, plan.request, body)
    change = partial(matching.apply, body)
    text, exchange.body_rules = await maybe_offload(exchange.offload, change, large=len(body) > SMALL_BYTES)
    if text is body:
        return
    exchange.reserve(len(text))
    plan.body = text
    if is_coded:
        plan.reencoded, plan.head = True, None  # a remembered head names the coding


async def _read(exchange: Exchange, body: bytes | BodySource) -> bytes:
    if isinstance(body, bytes):
        return body
    exchange.reserve(body_size(body))
    if isinstance(body, SplicedBody):
        return await maybe_offload(exchange.offload, body.joined, large=body.size > SMALL_BYTES)
    return await read_all(body)
