"""Responses of the dashboard's parts, through Twisted's request object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.headers import RawHeaders

if TYPE_CHECKING:
    from twisted.web.server import Request  # no more than its type: see mgw.dashboard.recorder

Query = Mapping[str, str]
"""The parameters of a query, each once."""
Answer = Mapping[str, Any] | bytes  # Any: JSON
"""What is to be rendered as JSON, or has been."""

JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream"
NO_STORE: Final = (b"Cache-Control", b"no-store")
_NO_SNIFF: Final = (b"X-Content-Type-Options", b"nosniff")
_MOST_PARAMETERS: Final = 64
_NO_BODY: Final = frozenset({204, 304})


def send(
    request: Request, status: int, content_type: bytes, body: bytes, headers: RawHeaders | None = None
) -> None:
    """Send a whole response, which nobody may keep unless its headers say so."""
    request.defaultContentType = None
    request.setResponseCode(status)
    head = [_NO_SNIFF, *(headers or [NO_STORE])]
    if status not in _NO_BODY:
        head.append((b"Content-Length", b"%d" % len(body)))
    if body:
        head.append((b"Content-Type", content_type))
    for name, value in head:
        request.responseHeaders.addRawHeader(name, value)
    request.write(body)
    request.finish()


def send_json(request: Request, answer: Answer, status: int = 200) -> None:
    """Send an answer of the API."""
    body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
    send(request, status, JSON, body)


def send_nothing(request: Request, status: int = 204, headers: RawHeaders | None = None) -> None:
    """Send a response without a body."""
    send(request, status, b"", b"", headers)


def query_of(request: Request) -> Query:
    """Return the parameters of a request; of several with one name the last counts.

    :raises GatewayError: ``MALFORMED``.
    """
    raw_query = request.uri.partition(b"?")[2].decode("latin-1")
    try:
        return dict(parse_qsl(raw_query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        message = f"the query has more than {_MOST_PARAMETERS} parameters"
        raise GatewayError(Reason.MALFORMED, message) from None


def body_of(request: Request) -> dict[str, Any]:  # Any: JSON
    """Return the JSON object that a request holds, or an empty one where it has no body.

    :raises GatewayError: ``MALFORMED``.
    """
    data = b"" if request.content is None else request.content.read()
    if not data:
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise GatewayError(Reason.MALFORMED, "the body must be a JSON object") from None
