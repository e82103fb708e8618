"""Checks of ``Host`` and ``Origin``: whether a request comes from the dashboard's own page.

Sources: RFC 9110 7.2 (Host), RFC 6454 7 (Origin), RFC 6761 6.3 (names below ``localhost``).
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from mgw.clients.peers import is_loopback

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,255}))(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"(https?)://(.+)")
_MAX_PORT: Final = 65535
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Host(Struct, frozen=True):
    """A host and a port, as a client names them."""

    name: str
    """In lower case, without brackets."""
    port: int | None
    """``None``: that of the scheme."""

    @property
    def is_loopback(self) -> bool:
        """Whether the name can mean nothing but this machine."""
        return self.name == "localhost" or self.name.endswith(".localhost") or is_loopback(self.name)


class Origin(Struct, frozen=True):
    """The origin of a page."""

    scheme: str
    name: str
    """Of the host, in lower case, without brackets."""
    port: int

    def is_at(self, host: Host, *, secure: bool) -> bool:
        """Whether the page came from a host.

        :param secure: whether it is served over TLS, as far as we know; a proxy may add it.
        """
        port = _DEFAULT_PORTS[self.scheme] if host.port is None else host.port
        return (self.name, self.port) == (host.name, port) and (self.scheme == "https" or not secure)


def parse_host(text: str) -> Host | None:
    """Read a ``Host``; ``None`` where it is not plainly one."""
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    port = None if match[3] is None else int(match[3])
    if port is not None and port > _MAX_PORT:
        return None
    return Host((match[1] or match[2]).lower(), port)


def parse_origin(text: str) -> Origin | None:
    """Read an ``Origin``; ``None`` for one that is opaque (``null``) or of another scheme."""
    match = _ORIGIN.fullmatch(text)
    host = None if match is None else parse_host(match[2])
    if match is None or host is None:
        return None
    return Origin(match[1], host.name, _DEFAULT_PORTS[match[1]] if host.port is None else host.port)
