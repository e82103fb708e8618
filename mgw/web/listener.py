"""Where the gateway listens."""

from __future__ import annotations

import socket
from typing import Any, Final

from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint, serverFromString
from twisted.internet.interfaces import IStreamServerEndpoint

from mgw.config.listen import EndpointText, Listen

BACKLOG: Final = 1024


def endpoint_of(listen: Listen | EndpointText, reactor: Any) -> IStreamServerEndpoint:  # Any: many interfaces
    """Return the endpoint that a ``listen`` setting means; an empty host is every interface."""
    if isinstance(listen, EndpointText):
        endpoint: IStreamServerEndpoint = serverFromString(reactor, listen.text)
        return endpoint
    if ":" in listen.host or (not listen.host and socket.has_dualstack_ipv6()):
        return TCP6ServerEndpoint(reactor, listen.port, BACKLOG, listen.host or "::")
    return TCP4ServerEndpoint(reactor, listen.port, BACKLOG, listen.host)
