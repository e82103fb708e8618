"""The handshake of a WebSocket (RFC 6455 4.2): who asks for one, what is refused, and the 101."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Final

from wsproto.extensions import Extension, PerMessageDeflate

from mgw_sim.api import ApiError, WebSocketResponse
from mgw_sim.faults import Faults
from mgw_sim.http.parser import Head, render_head

_ACCEPT_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 1.3
_VERSION: Final = "13"
UPGRADE_HEADERS: Final = (("Upgrade", "websocket"), ("Sec-WebSocket-Version", _VERSION))
"""What a 426 says (RFC 9110 15.5.22, RFC 6455 4.2.2)."""


def asks_for_websocket(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a request wants to become a WebSocket (RFC 9110 7.8); header names in lower case."""
    return (
        method == "GET"
        and "websocket" in _words(headers.get("upgrade", ""))
        and "upgrade" in _words(headers.get("connection", ""))
    )


def check_upgrade(headers: Mapping[str, str]) -> None:
    """Raise the ApiError for an upgrade that breaks RFC 6455 4.2.1."""
    if headers.get("sec-websocket-version") != _VERSION:
        raise ApiError(426, f"This server supports only version {_VERSION} of the WebSocket protocol.")
    try:
        key = base64.b64decode(headers.get("sec-websocket-key", ""), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != 16:
        raise ApiError(400, "Sec-WebSocket-Key must be 16 bytes in base64.")


def offered_subprotocols(headers: Mapping[str, str]) -> tuple[str, ...]:
    """What the client offers, in its order."""
    offers = headers.get("sec-websocket-protocol", "").split(",")
    return tuple(offer.strip() for offer in offers if offer.strip())


def _words(value: str) -> set[str]:
    return {word.strip().lower() for word in value.split(",")}


def render_accept(head: Head, response: WebSocketResponse, faults: Faults) -> tuple[bytes, list[Extension]]:
    """The bytes of the 101, and the extensions that hold from there on (RFC 6455 4.2.2)."""
    key = head.value(b"sec-websocket-key") or b""
    if "bad-accept" in faults:
        key = key[::-1]
    digest = hashlib.sha1(key + _ACCEPT_SUFFIX).digest()  # noqa: S324  RFC 6455 4.2.2 wants SHA-1
    headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
        ("Server", "mgw-sim"),
        *response.headers,
    ]
    if response.subprotocol is not None:
        headers.append(("Sec-WebSocket-Protocol", response.subprotocol))
    extensions: list[Extension] = []
    offer = (head.value(b"sec-websocket-extensions") or b"").decode("latin-1").partition(",")[0].strip()
    if "deflate" in faults and offer.startswith(PerMessageDeflate.name):
        deflate = PerMessageDeflate()
        accepted = "; ".join(filter(None, (deflate.name, str(deflate.accept(offer) or ""))))
        headers.append(("Sec-WebSocket-Extensions", accepted))
        extensions.append(deflate)
    return render_head("HTTP/1.1", response.status, "Switching Protocols", headers), extensions
