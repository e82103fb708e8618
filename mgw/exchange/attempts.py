"""Send a request upstream, with every retry that comes before the first byte to the client.

Two things lead to a second attempt: a pooled connection that turns out closed before any byte of a response
came (for requests that create nothing, or carry an ``Idempotency-Key``), and a credential that the upstream
refuses while its source has another; after a 401 one other (contract 3.13).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mgw.credentials.provider import Credential, CredentialProvider
from mgw.exchange.exchange import Exchange
from mgw.exchange.request import ClientRequest
from mgw.upstream.client import Upstream, UpstreamFailure, UpstreamRequest, UpstreamResponse
from mgw.wire.headers import value_of

_UNAUTHORIZED: Final = 401
_REQUEST_IDS: Final = frozenset(
    {b"x-request-id", b"request-id", b"x-goog-request-id", b"apim-request-id", b"x-ms-request-id"}
)
"""OpenAI and most hosts of its API, Anthropic, Google, Azure."""
_ID: Final = re.compile(rb"[!-~]{1,128}").fullmatch


async def send(
    exchange: Exchange,
    request: ClientRequest,
    render: Callable[[Credential], UpstreamRequest],
    upstream: Upstream,
    source: CredentialProvider,
) -> UpstreamResponse:
    """Return the head of the upstream's response, its body still unread.

    :param render: makes the upstream request from a credential; called once per credential.
    :raises GatewayError: where no credential can be had, or the upstream fails before its head.
    """
    credential = await source.obtain(request.key)
    repeatable = exchange.route.repeatable or value_of(request.headers, b"idempotency-key") is not None
    renewed = False
    while True:
        exchange.key_hash = credential.key_hash or None
        response = await _open(exchange, upstream, render(credential), repeatable=repeatable)
        exchange.upstream_request_id = request_id_of(response)
        if not source.refusable(response.status) or (renewed and response.status == _UNAUTHORIZED):
            return response
        try:
            another = await source.refused(credential, response.status, retry_after_of(response))
        except BaseException:
            response.cancel()
            raise
        if another is None:
            return response
        renewed = renewed or response.status == _UNAUTHORIZED
        response.cancel()
        credential = another


async def _open(
    exchange: Exchange, upstream: Upstream, request: UpstreamRequest, *, repeatable: bool
) -> UpstreamResponse:
    exchange.attempts += 1
    try:
        return await upstream.open(request)
    except UpstreamFailure as failure:
        if not (failure.stale and repeatable):
            raise
    exchange.attempts += 1
    return await upstream.open(request, fresh=True)


def request_id_of(response: UpstreamResponse) -> str | None:
    """Return the provider's own id of the exchange, where its head has a plausible one."""
    for name, value in response.headers:
        if name.lower() in _REQUEST_IDS:
            return value.decode("ascii") if _ID(value) else None
    return None


def retry_after_of(response: UpstreamResponse) -> float | None:
    """Return ``Retry-After`` in seconds where it is a number of them (RFC 9110 10.2.3), else ``None``."""
    value = value_of(response.headers, b"retry-after")
    if value is None or not value.strip().isdigit():
        return None
    return float(value)
