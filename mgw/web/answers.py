"""What the gateway says itself: a refusal in the client's dialect, or an answer of its own."""

from __future__ import annotations

from typing import Final

from mgw.dialects import codec_of
from mgw.errors import GatewayError, Reason
from mgw.exchange.client import Client
from mgw.vocabulary import Dialect
from mgw.web.writing import phrase
from mgw.wire.headers import RawHeaders

JSON: Final = b"application/json"


def send(client: Client, status: int, content_type: bytes, body: bytes, headers: RawHeaders) -> None:
    """Send a whole answer."""
    head: RawHeaders = [
        (b"Content-Type", content_type),
        (b"Content-Length", b"%d" % len(body)),
        *headers,
    ]
    client.start(status, phrase(status), head)
    client.write(body)
    client.finish()


def refuse(client: Client, error: GatewayError, dialect: Dialect, request_id: str) -> None:
    """Say a refusal in the shape of a dialect (decisions, part 6)."""
    headers: RawHeaders = [(b"X-Gateway-Request-Id", request_id.encode())]
    if error.retry_after is not None:
        headers.append((b"Retry-After", b"%d" % max(1, round(error.retry_after))))
    if error.allow:
        headers.append((b"Allow", ", ".join(error.allow).encode()))
    if error.reason is Reason.NO_WEBSOCKET:  # RFC 9110 15.5.22, 7.8: what is wanted instead
        headers += [(b"Upgrade", b"HTTP/1.1"), (b"Connection", b"Upgrade")]
    if error.reason is Reason.EDGE_KEY:
        headers.append((b"WWW-Authenticate", b'Bearer realm="mgw"'))  # RFC 9110 15.5.2
    send(client, error.status, JSON, codec_of(dialect).error_body(error, request_id), headers)
