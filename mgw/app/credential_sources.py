"""What keeps the credentials that outlive a generation, with requests to token endpoints of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mgw.config.proxy import ProxyAddress
from mgw.credentials.sources import CredentialSources, open_sources
from mgw.credentials.token_request import MAX_RESPONSE_BYTES, REQUEST_SECONDS
from mgw.upstream.client import UpstreamLimits

if TYPE_CHECKING:
    from mgw.reactor.treq_client import HTTPClient

_TOKEN_LIMITS: Final = UpstreamLimits(connect=10.0, first_byte=REQUEST_SECONDS, idle=REQUEST_SECONDS)
"""The limits of token endpoints; the whole response must have come in that time."""


def build_sources(reactor: Any) -> CredentialSources:  # Any: a reactor has no one type
    """Return the sources of credentials of a process."""

    def open_http(proxy: ProxyAddress | None) -> tuple[HTTPClient, Callable[[], None]]:
        from mgw.upstream.agent import build_agent, client_over  # here, since treq takes long to import

        agent = build_agent(reactor, _TOKEN_LIMITS, MAX_RESPONSE_BYTES, proxy=proxy)
        return client_over(agent), agent.close

    return open_sources(reactor, open_http, os.environ)
