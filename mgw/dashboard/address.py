"""The address of the dashboard, on one line for the log, ``mgw check`` and the demo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from mgw.clients.peers import is_loopback
from mgw.config.dashboard import edge_keys_of_dashboard, tokens_open
from mgw.config.listen import EndpointText, Listen
from mgw.config.settings import Config
from mgw.routing.match import is_denied
from mgw.routing.routes import DASHBOARD_ROUTES

_PAGE: Final = DASHBOARD_ROUTES[0]
_PATH: Final = "/ui"
_DENIED: Final = "the dashboard is off: routes.deny lists it"
_UNIX: Final = "unix:"
_ALL: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  nobody binds it here
"""What listens on all interfaces, whose name for a browser on this machine is localhost."""
_KEYS_OF_CLIENTS: Final = ", for the keys of edge_auth that have neither models nor limits"
_KEYS_OF_GROUPS: Final = ", for the keys of edge_auth in one of dashboard.groups"
_CLIENTS_OF_GROUPS: Final = ", for the keys and tokens of clients in one of dashboard.groups"
_LOCAL: Final = ", for clients on this machine only: dashboard.keys is not set"
_NOBODY: Final = ", which no client can open until dashboard.keys is set"


def why_no_dashboard(config: Config) -> str | None:
    """Return why the page is not served."""
    if config.dashboard.why_off is not None:
        return config.dashboard.why_off
    return _DENIED if is_denied(_PAGE, config.routes.deny) else None


def describe_dashboard(config: Config, urls: Sequence[str]) -> str:
    """Say where the dashboard is, or why there is none.

    :param urls: where the gateway listens: ``http://host:port``, or ``unix:`` and a path; none: that is
        not known.
    """
    reason = why_no_dashboard(config)
    if reason is not None:
        return reason
    where = ", ".join(map(_page_at, urls)) or _PATH
    return f"dashboard at {where}{_who_may_open_it(config, urls)}"


def listening_urls(config: Config) -> list[str]:
    """Return where a configuration makes the gateway listen, as far as it says so."""
    listen = config.listen
    if isinstance(listen, EndpointText):
        kind, _, rest = listen.text.partition(":")
        return [f"{_UNIX}{rest.partition(':')[0]}"] if kind == "unix" else []
    if not listen.port:
        return []
    scheme = "http" if config.tls is None else "https"
    return [f"{scheme}://{Listen(listen.host or '::', listen.port)}"]


def _page_at(url: str) -> str:
    if url.startswith(_UNIX):
        return f"{_PATH} over {url}"
    parts = urlsplit(url)
    is_everywhere = (parts.hostname or "") in _ALL
    return f"{parts.scheme}://localhost:{parts.port}{_PATH}" if is_everywhere else f"{url}{_PATH}"


def _who_may_open_it(config: Config, urls: Sequence[str]) -> str:
    """Return what there is to know about keys."""
    if config.dashboard.keys:
        return ""
    if tokens_open(config.dashboard, config.edge_auth):
        return _CLIENTS_OF_GROUPS
    has_key_files = config.edge_auth.enabled and config.edge_auth.keys_dir is not None
    if has_key_files or edge_keys_of_dashboard(config.dashboard, config.edge_auth).keys:
        return _KEYS_OF_GROUPS if config.dashboard.groups else _KEYS_OF_CLIENTS
    hosts = [urlsplit(url).hostname or "" for url in urls]  # none: a UNIX socket
    if not hosts or all(host == "localhost" or is_loopback(host) for host in hosts):
        return ""
    return _LOCAL if any(host in _ALL for host in hosts) else _NOBODY
