"""Dial the provider of a session: its address, the headers, and the credentials in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mgw.credentials.provider import Credential, Refusal
from mgw.exchange.exchange import Exchange
from mgw.exchange.prepared_request import upstream_target
from mgw.exchange.request import ClientRequest
from mgw.exchange.response import FullResponse
from mgw.exchange.upstream_headers import forwarded_headers, provider_headers, secrets_sent
from mgw.realtime.handshake import ClientHandshake
from mgw.realtime.upstream_socket import Answer, SwitchedUpstream, UpstreamRefusal, connect_socket
from mgw.routing.resolve import Target
from mgw.secret import overwritten
from mgw.wire.headers import RawHeaders

_UNAUTHORIZED: Final = 401
_OF_BODIES: Final = frozenset({b"accept", b"accept-encoding", b"content-type", b"content-encoding"})
"""Headers that speak of a body, of which a handshake has none."""


async def dial(
    exchange: Exchange, request: ClientRequest, target: Target, subprotocols: Sequence[str]
) -> Answer:
    """Ask the provider to switch protocols, with another credential where it refuses one.

    :raises GatewayError: no credential is to be had, or the provider cannot be reached.
    """
    generation, name = exchange.generation, target.provider.name
    credentials, upstream = generation.credentials[name], generation.upstreams[name]
    model = target.upstream_model
    credential = credentials.ready(request.key, model) or await credentials.obtain(request.key, model)
    renewed = False
    while True:
        exchange.key_hash = credential.key_hash or None
        exchange.attempts += 1
        headers = _headers(exchange, request, target, credential)
        address, path = upstream.address, upstream_target(exchange.route, target, request)
        handshake = ClientHandshake(address.host, address.port, path, headers, subprotocols)
        answer = await connect_socket(upstream, handshake, exchange.wheel)
        if isinstance(answer, SwitchedUpstream):
            return answer
        status = answer.status
        is_settled = renewed and status == _UNAUTHORIZED and credential.account is None
        if not credentials.refusable(status) or is_settled:
            return _without_secrets(answer, target, credential)
        refusal = Refusal(status, answer.headers, model, answer.body, attempts=exchange.attempts)
        another = await credentials.refused(credential, refusal)
        if another is None:
            return _without_secrets(answer, target, credential)
        renewed = renewed or status == _UNAUTHORIZED
        credential = another


def full_response(refusal: UpstreamRefusal) -> FullResponse:
    """Return the response of a client whose upgrade the provider refuses: its status, and what it said."""
    kept = [pair for pair in refusal.headers if pair[0].lower() != b"content-length"]
    return FullResponse(refusal.status, kept, refusal.body)


def _headers(
    exchange: Exchange, request: ClientRequest, target: Target, credential: Credential
) -> RawHeaders:
    headers = forwarded_headers(request, exchange.route.family, target)
    headers = [pair for pair in headers if pair[0].lower() not in _OF_BODIES]
    return provider_headers(headers, target.provider, credential)


def _without_secrets(refusal: UpstreamRefusal, target: Target, credential: Credential) -> UpstreamRefusal:
    """Return a refusal that does not repeat the operator's credential (contract 6.10)."""
    secrets = secrets_sent(target.provider, credential)
    headers = [(name, overwritten(value, secrets)) for name, value in refusal.headers]
    return UpstreamRefusal(refusal.status, headers, overwritten(refusal.body, secrets))
