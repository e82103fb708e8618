"""Realtime sessions in memory: opened, and closed by both sides."""

from __future__ import annotations

import re
import time
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha1
from typing import Final

from mgw.wire.whole_frames import render_close
from tests.support.in_memory.gateway import PORTS, MemoryGateway
from tests.support.in_memory.reactor import MemoryConnection
from tests.support.wires import CHAT

_KEY: Final = re.compile(rb"(?i)sec-websocket-key: (\S+)\r\n")
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BY_CLIENT: Final = render_close(1000, "", bytes(4))
_BY_PROVIDER: Final = render_close(1000, "")
_MOST_TURNS: Final = 10_000
_TURN_SECONDS: Final = 0.001


class NoSessionError(Exception):
    """The gateway did not open a session."""


@dataclass(slots=True)
class OpenSession:
    """Both ends of a session."""

    client: MemoryConnection
    provider: MemoryConnection


def open_session(gateway: MemoryGateway, request: bytes) -> OpenSession:
    """Have a client open a session.

    :raises NoSessionError: it was refused.
    """
    client = gateway.connect()
    before = gateway.reactor.connections.get(PORTS[CHAT])
    client.receive(request)
    _wait_for_dial(gateway, before)
    provider = gateway.provider(CHAT)
    if before is None:
        del gateway.reactor.connections[PORTS[CHAT]]
    else:
        gateway.reactor.connections[PORTS[CHAT]] = before  # the one for requests
    found = _KEY.search(provider.take())
    if found is None:
        raise NoSessionError(client.take())
    accept = b64encode(sha1(found[1] + _MAGIC).digest())
    head = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %b\r\n\r\n" % accept
    provider.receive(b"HTTP/1.1 101 Switching Protocols\r\n" + head)
    said = client.take()
    if not said.startswith(b"HTTP/1.1 101 "):
        raise NoSessionError(said)
    return OpenSession(client, provider)


def close_session(gateway: MemoryGateway, session: OpenSession) -> bool:
    """Close a session from its client's side; return whether both sides had a close frame."""
    session.client.receive(_BY_CLIENT)
    session.provider.receive(_BY_PROVIDER)
    to_client, to_provider = session.client.take(), session.provider.take()
    gateway.reactor.turn()  # the provider's connection ends with it
    session.client.close()
    return to_client.endswith(_BY_PROVIDER) and to_provider.endswith(_BY_CLIENT)


def _wait_for_dial(gateway: MemoryGateway, before: MemoryConnection | None) -> None:
    """Wait until the provider is dialled: for the first session a thread imports what it needs."""
    for _ in range(_MOST_TURNS):
        if gateway.reactor.connections.get(PORTS[CHAT]) is not before:
            return
        gateway.reactor.turn()
        time.sleep(_TURN_SECONDS)
    raise NoSessionError("the provider was not dialled")
