"""What the gateway says itself: a refusal in the client's dialect, or an answer of its own."""

from __future__ import annotations

from typing import Final

from mgw.dialects import dialect_of
from mgw.errors import GatewayError, Reason
from mgw.exchange.request import ResponseChannel
from mgw.http.response_writer import date_header, reason_phrase
from mgw.vocabulary import DialectName
from mgw.wire.headers import RawHeaders

JSON: Final = b"application/json"
NO_STORE: Final = (b"Cache-Control", b"no-store")
_FINAL: Final = frozenset({400, 401, 403, 404, 405, 413, 426, 501})
"""Refusals that a repetition cannot change; the vendors' SDKs repeat some of them unless they are told."""
_NO_RETRY: Final = (b"x-should-retry", b"false")


def send(client: ResponseChannel, status: int, content_type: bytes, body: bytes, headers: RawHeaders) -> None:
    """Send a whole answer; its ``Date`` is among the headers."""
    head: RawHeaders = [
        (b"Content-Type", content_type),
        (b"Content-Length", b"%d" % len(body)),
        *headers,
    ]
    client.start(status, reason_phrase(status), head)
    client.write(body)
    client.finish()


def refuse(
    client: ResponseChannel, error: GatewayError, dialect: DialectName, request_id: str, wall: float
) -> None:
    """Say a refusal in the shape of a dialect (contract 6.1, 6.4).

    :param wall: unix seconds, now.
    """
    headers: RawHeaders = [(b"X-Gateway-Request-Id", request_id.encode()), date_header(wall), NO_STORE]
    if error.status in _FINAL:
        headers.append(_NO_RETRY)
    if error.retry_after is not None:
        headers.append((b"Retry-After", b"%d" % max(1, round(error.retry_after))))
    if error.allow:
        headers.append((b"Allow", ", ".join(error.allow).encode()))
    if error.reason is Reason.NO_WEBSOCKET:  # RFC 9110 15.5.22, 7.8: what is wanted instead
        headers += [(b"Upgrade", b"HTTP/1.1"), (b"Connection", b"Upgrade")]
    if error.reason is Reason.EDGE_KEY:
        headers.append((b"WWW-Authenticate", b'Bearer realm="mgw"'))  # RFC 9110 15.5.2
    send(client, error.status, JSON, dialect_of(dialect).error_body(error, request_id), headers)
