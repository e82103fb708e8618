"""Which requests from web pages a gateway without edge auth accepts, if they come from its own machine.

Such a gateway adds the operator's keys to whatever comes.  A page of another site can ask it, too: by its
address on this machine, which the browser calls another origin, or by a name of the page's own that leads to
127.0.0.1 once the page is open, which the browser takes for the same origin.  The ``Origin`` gives the first
away, the ``Host`` the second.  Clients that are no browsers send no origin, and a name that means this
machine or its network.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from mgw.clients.peers import is_loopback
from mgw.config.listen import Listen
from mgw.config.settings import Config
from mgw.http.request_head import RequestHead
from mgw.nouns.errors import GatewayError, Reason
from mgw.routing.match import MatchedRoute
from mgw.routing.route import Treatment
from mgw.routing.routes import GUARDED_ROUTES
from mgw.wire.headers import RawHeaders, values_of

_HOST: Final = re.compile(rb"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,255}))(?::[0-9]{1,5})?")
_PAGE: Final = re.compile(rb"https?:(?://)?(.*)", re.IGNORECASE)
_OPAQUE: Final = b"null"
_NO_SITE: Final = (".localhost", ".local", ".internal")
"""Below these there are no sites of the Internet (RFC 6761, RFC 6762, ICANN's resolution of July 2024)."""
_ANY: Final = "*"
_PROBED: Final = frozenset({"healthz", "readyz"})
"""What monitors ask, under whatever name."""

_FOREIGN_HOST: Final = (
    "without edge_auth, clients on the gateway's machine must use an IP address or a local name, since any "
    "web page could point its own host name here: set public_url to the address that clients use, such as "
    "that of a proxy on this machine, or turn on edge_auth"
)
_FOREIGN_ORIGIN: Final = (
    "pages from this origin may not use a gateway without edge_auth: add the origin to cors.origins, set "
    "public_url if the page is behind the same proxy as the gateway, or turn on edge_auth"
)


class KeylessRules:
    """The rules of one configuration without edge auth.

    :param rejected: counts a refusal.
    """

    def __init__(self, config: Config, rejected: Callable[[str], None]) -> None:
        self._rejected: Final = rejected
        listen = config.listen.host if isinstance(config.listen, Listen) else ""
        public = urlsplit(config.public_url or "").hostname or ""
        self._own: Final = {name.lower() for name in (listen, public) if name}
        self._allowed: Final = config.cors.origins

    def admit(self, matched: MatchedRoute | GatewayError, head: RequestHead, peer: str) -> bool:
        """Let a request in; say whether it may come from this machine, too.

        :raises GatewayError: ``MISDIRECTED`` or ``ORIGIN``, where it comes from this machine and must not.
        """
        opens_session = False
        if isinstance(matched, MatchedRoute):
            name = matched.route.name
            if name in _PROBED or (name in GUARDED_ROUTES and matched.fault is None):
                return True  # the dashboard has rules of its own
            opens_session = matched.route.treatment is Treatment.REALTIME and head.upgrade is not None
        fault = self._find_fault(head.headers, opens_session=opens_session)
        if fault is not None and is_loopback(peer):
            self._rejected("origin")
            raise fault
        return fault is None

    def _find_fault(self, headers: RawHeaders, *, opens_session: bool) -> GatewayError | None:
        """Return the refusal of a request that a browser on this machine must not send.

        :param opens_session: whether it opens a WebSocket, for whose origin there are rules of their own.
        """
        hosts = [_name_of(value) for value in values_of(headers, b"host")]
        if not all(name is not None and self._is_local(name) for name in hosts):
            return GatewayError(Reason.MISDIRECTED, _FOREIGN_HOST, param="Host")
        if opens_session:
            return None
        for origin in values_of(headers, b"origin"):
            if not self._may_ask(origin, hosts):
                return GatewayError(Reason.ORIGIN, _FOREIGN_ORIGIN, param="Origin")
        return None

    def _is_local(self, name: str) -> bool:
        return "." not in name or name in self._own or name.endswith(_NO_SITE) or _is_address(name)

    def _may_ask(self, origin: bytes, hosts: list[str | None]) -> bool:
        """Whether a page may ask, or what states its origin is no page of the web."""
        if _ANY in self._allowed or origin.decode("latin-1").lower() in self._allowed:
            return True
        page = _PAGE.fullmatch(origin)
        if page is None:
            return origin.strip().lower() != _OPAQUE
        name = _name_of(page[1])
        if name is None:
            return False
        if name in hosts or name in self._own:
            return True
        return _is_this_machine(name) and any(host is not None and _is_this_machine(host) for host in hosts)


def _name_of(host: bytes) -> str | None:
    """Return a host without its port, in lower case; ``None`` where it is not plainly one."""
    match = _HOST.fullmatch(host)
    if match is None:
        return None
    address, name = match.groups()
    return (name.removesuffix(b".") if address is None else address).decode("ascii").lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_this_machine(name: str) -> bool:
    """Whether a name can mean nothing but this machine."""
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)
