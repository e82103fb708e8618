"""The one place that imports the reactor, which installs it."""

from __future__ import annotations

from typing import Any

from mgw.config.listen import EndpointText
from mgw.config.settings import Config
from mgw.reactor.lean_start import without_openssl


def install_reactor(config: Config) -> Any:  # Any: a reactor has no one type
    """Return the reactor, installed by now; it knows TLS only where Twisted itself is to listen with it."""
    if isinstance(config.listen, EndpointText) and config.listen.may_bring_tls:
        from twisted.internet import reactor  # here, since importing it installs one

        return reactor
    with without_openssl():
        from twisted.internet import endpoints, reactor  # noqa: F401  endpoints look for pyOpenSSL, too

        return reactor
