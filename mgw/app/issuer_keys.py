"""Put together what fetches the keys of issuers; imported where a configuration has an issuer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, Final

from mgw.clients.tokens.key_set import MAX_SET_BYTES
from mgw.config.proxy import ProxyAddress
from mgw.credentials.recent_secrets import RecentSecrets
from mgw.identity.issuers import IssuerKeys
from mgw.identity.jwks_fetch import HttpKeyFetch, OpenHttp
from mgw.identity.jwks_file import LOOK_SECONDS, JwksFile
from mgw.identity.key_feed import FetchingFeed, KeyFetch, TellKeys
from mgw.identity.key_refresh import FETCH_SECONDS, OVER_HTTP, Pace
from mgw.identity.key_source import KeySource
from mgw.reactor.daemon_threads import DaemonThreads
from mgw.reactor.treq_client import HTTPClient
from mgw.upstream.agent import build_agent, client_over
from mgw.upstream.client import UpstreamLimits
from mgw.upstream.tls import client_context
from mgw.workers.channel import RequestSender
from mgw.workers.shared_issuer_keys import SupervisorKeys

_LIMITS: Final = UpstreamLimits(connect=FETCH_SECONDS, first_byte=FETCH_SECONDS, idle=FETCH_SECONDS)
"""All of a fetch must be done in that time."""
OF_FILE: Final = Pace(asked=LOOK_SECONDS, longest_retry=LOOK_SECONDS)


def open_feed(reactor: Any, recent: RecentSecrets, tell_others: TellKeys) -> FetchingFeed:  # Any: a reactor
    """Return what fetches keys in this process.

    :param recent: is told of the bearer tokens with which keys are fetched.
    """
    computing = DaemonThreads(reactor, "mgw-jwks")

    def open_fetch(source: KeySource) -> KeyFetch:
        threads = DaemonThreads(reactor, "mgw-jwks-files")  # its own: the disk of another source may hang
        run = threads.defer
        if source.jwks_file is not None:
            return KeyFetch(JwksFile(source.jwks_file, run, computing.defer), OF_FILE, threads.stop)
        fetch = HttpKeyFetch(source, _open_http(reactor, threads), run, computing.defer, recent.note)
        return KeyFetch(fetch, OVER_HTTP, threads.stop)

    return FetchingFeed(reactor, monotonic, open_fetch, tell_others, computing.stop)


def fetching_keys(reactor: Any, feed: FetchingFeed) -> IssuerKeys:  # Any: as above
    """Return the keys of issuers of the process that fetches them."""
    return IssuerKeys(reactor, monotonic, feed, on_stale=feed.log_stale)


def supervisor_keys(reactor: Any, channel: RequestSender) -> SupervisorKeys:  # Any: as above
    """Return what has the keys in a worker."""
    return SupervisorKeys(reactor, monotonic, channel, DaemonThreads(reactor, "mgw-jwks"))


def shared_keys(reactor: Any, feed: SupervisorKeys) -> IssuerKeys:  # Any: as above
    """Return the keys of issuers of a worker."""
    return IssuerKeys(reactor, monotonic, feed)


def _open_http(reactor: Any, threads: DaemonThreads) -> OpenHttp:  # Any: as above
    async def open_http(
        ca_file: str | None, proxy: ProxyAddress | None
    ) -> tuple[HTTPClient, Callable[[], None]]:
        # Read each time: the authorities of a cluster may change, and connections do not last longer.
        context = None if ca_file is None else await threads.defer(partial(client_context, ca_file))
        agent = build_agent(reactor, _LIMITS, MAX_SET_BYTES, context, proxy)
        return client_over(agent), agent.close

    return open_http
