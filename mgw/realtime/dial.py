"""Connect to a session's provider: its address, the headers, the credentials in turn, and retries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twisted.internet.task import deferLater

from mgw.clients.client_refusals import model_not_priced
from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.credentials.signing import NO_BODY, Signing
from mgw.exchange.attempts import (
    Attempts,
    Step,
    Trouble,
    attempts_for,
    key_for_fallback,
    trouble_of_error,
    trouble_of_status,
)
from mgw.exchange.exchange import Exchange
from mgw.exchange.refusals import refusal_error
from mgw.exchange.response import FullResponse
from mgw.exchange.target_resolution import check_allowed, check_price, has_known_price, resolve_model
from mgw.exchange.upstream_head import known_target_of, vendor_call_of
from mgw.exchange.upstream_headers import forwarded_headers, provider_headers, secrets_sent
from mgw.memo.client_request import ClientRequest
from mgw.memo.known_target import KnownTarget
from mgw.nouns.errors import GatewayError
from mgw.nouns.secret import overwritten
from mgw.realtime.connect_socket import connect_socket
from mgw.realtime.handshake import ClientHandshake
from mgw.realtime.upstream_socket import Answer, SwitchedUpstream, UpstreamRefusal
from mgw.routing.resolve import Target, check_capability
from mgw.wire.headers import RawHeaders, retry_after_of

_UNAUTHORIZED: Final = 401
_OF_BODIES: Final = frozenset({b"accept", b"accept-encoding", b"content-type", b"content-encoding"})
"""Headers that speak of a body, of which a handshake has none."""


def target_of(exchange: Exchange, request: ClientRequest, asked: str | None) -> Target:
    """Return where a session goes whose request names the model: the very same as for one like it before.

    :raises GatewayError: as :func:`~mgw.exchange.target_resolution.resolve_model` does.
    """
    route, memo = exchange.route, exchange.generation.memo
    known = memo.find_target(route, request, asked)
    if isinstance(known, KnownTarget):
        exchange.asked_model, exchange.target = asked, known.target
        check_allowed(exchange, known.target)
        return known.target
    target = resolve_model(exchange, request, asked)
    wire = exchange.generation.upstreams[target.provider.name].wire
    memo.keep_target(route, request, known_target_of(route, target, request, wire, None))
    return target


async def dial(
    exchange: Exchange, request: ClientRequest, target: Target, subprotocols: Sequence[str]
) -> Answer:
    """Ask the provider to switch protocols, again or another one where the table of attempts says so.

    The exchange's target is the one that has answered.

    :raises GatewayError: no credential is to be had, or the provider cannot be reached.
    """
    attempts, key = attempts_for(exchange, target, creates_nothing=True), request.key
    if exchange.client is not None and exchange.client.limits:
        target, key = _priced_target(exchange, target, attempts, key)
    while True:
        answer: Answer | None = None
        failure: GatewayError | None = None
        try:
            answer = await _dial_target(exchange, request, target, subprotocols, key)
        except GatewayError as error:
            failure = error
        if attempts is None or isinstance(answer, SwitchedUpstream):
            break
        trouble, failed = _trouble_of(answer, failure, attempts), target
        step = attempts.next_step(trouble)
        if step is Step.FALL_BACK and (other := _next_target(exchange, attempts)) is not None:
            target = other
            exchange.retarget(other)
            key = key_for_fallback(other, request.key)
        elif step is not Step.REPEAT or trouble is None:
            break
        if isinstance(answer, UpstreamRefusal):
            failure = refusal_error(failed.provider.row.dialect, answer.status, answer.body)
        exchange.attempt_failed(failed, failure)
        if step is Step.REPEAT and trouble is not None:
            await deferLater(exchange.clock, attempts.begin_repetition(trouble, exchange.generation.chance()))
    if failure is not None:
        raise failure
    assert answer is not None
    return answer


def _priced_target(
    exchange: Exchange, target: Target, attempts: Attempts | None, key: ClientKey | None
) -> tuple[Target, ClientKey | None]:
    """Return the first target whose price is known, if the client's limits need that, with its key.

    :raises GatewayError: ``MODEL_NOT_PRICED``.
    """
    if has_known_price(exchange, target):
        return target, key
    other = None if attempts is None else _next_target(exchange, attempts)
    if other is None:
        raise model_not_priced(target.asked_model or "")
    exchange.retarget(other)
    return other, key_for_fallback(other, key)


def _trouble_of(answer: Answer | None, failure: GatewayError | None, attempts: Attempts) -> Trouble | None:
    if isinstance(answer, UpstreamRefusal):
        return trouble_of_status(answer.status, retry_after_of(answer.headers), attempts.rule)
    return None if failure is None else trouble_of_error(failure, attempts)


def _next_target(exchange: Exchange, attempts: Attempts) -> Target | None:
    """Return the next target that has sessions of this kind; the exchange keeps its own."""
    while attempts.targets:
        target = attempts.begin_fallback()
        try:
            check_capability(exchange.route, target, exchange.generation.config.translation)
            check_allowed(exchange, target)
            check_price(exchange, target)
        except GatewayError:
            continue
        return target
    return None


async def _dial_target(
    exchange: Exchange,
    request: ClientRequest,
    target: Target,
    subprotocols: Sequence[str],
    key: ClientKey | None,
) -> Answer:
    """Ask one provider to switch protocols, with another credential where it refuses one.

    :raises GatewayError: as :func:`dial` does.
    """
    generation, name = exchange.generation, target.provider.name
    credentials, upstream = generation.credentials_for(name, request.token), generation.upstreams[name]
    model = target.upstream_model
    credential = credentials.ready(key, model) or await credentials.obtain(key, model)
    renewed = False
    while True:
        exchange.key_hash = credential.key_hash or None
        exchange.credential = credential
        exchange.attempts += 1
        address, path = upstream.address, _path_of(exchange, request, target)
        headers = _headers(exchange, request, target, credential, path)
        handshake = ClientHandshake(address.host, address.port, path, headers, subprotocols)
        answer = await connect_socket(upstream, handshake, exchange.wheel)
        if isinstance(answer, SwitchedUpstream):
            return answer
        status = answer.status
        is_settled = renewed and status == _UNAUTHORIZED and credential.account is None
        if not credentials.refusable(status) or is_settled:
            return _without_secrets(answer, target, credential)
        attempts = exchange.attempts - exchange.given_up
        refusal = CredentialRefusal(
            status, answer.headers, model, answer.body, attempts=attempts, renewed=renewed
        )
        another = await credentials.refused(credential, refusal)
        if another is None:
            return _without_secrets(answer, target, credential)
        renewed = renewed or status == _UNAUTHORIZED
        credential = another


def _path_of(exchange: Exchange, request: ClientRequest, target: Target) -> bytes:
    """Return the path and the query of the handshake."""
    known = exchange.generation.memo.find_target(exchange.route, request, target.asked_model)
    if isinstance(known, KnownTarget) and known.target is target:
        return known.upstream_target
    wire = exchange.generation.upstreams[target.provider.name].wire
    return wire.call(target.provider, vendor_call_of(exchange.route, target, request)).target


def full_response(refusal: UpstreamRefusal) -> FullResponse:
    """Return the response of a client whose upgrade the provider refuses: its status, and what it said."""
    kept = [pair for pair in refusal.headers if pair[0].lower() != b"content-length"]
    return FullResponse(refusal.status, kept, refusal.body)


def _headers(
    exchange: Exchange, request: ClientRequest, target: Target, credential: Credential, path: bytes
) -> RawHeaders:
    headers = forwarded_headers(request.headers, exchange.route.family, target)
    headers = [pair for pair in headers if pair[0].lower() not in _OF_BODIES]
    headers = provider_headers(headers, target.provider, credential)
    if credential.signer is None:
        return headers
    address = exchange.generation.upstreams[target.provider.name].address
    host = f"{address.host}:{address.port}".encode()  # a handshake always says the port
    return Signing(credential.signer, NO_BODY, exchange.now()).signed(b"GET", path, headers, host)


def _without_secrets(refusal: UpstreamRefusal, target: Target, credential: Credential) -> UpstreamRefusal:
    """Return a refusal that does not repeat the operator's credential (contract 6.10)."""
    secrets = secrets_sent(target.provider, credential)
    headers = [(name, overwritten(value, secrets)) for name, value in refusal.headers]
    return UpstreamRefusal(refusal.status, headers, overwritten(refusal.body, secrets))
