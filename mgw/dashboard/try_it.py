"""``POST /v1/dashboard/try``: lets the page "Try it" send its next request as the client that has signed in.

The page sends prompts to the gateway's own routes, where they are requests like any other client's.  All that
is special is how it gets in where a gateway key is required: see :mod:`mgw.clients.try_it`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from twisted.web.server import Request

from mgw.clients.try_it import (
    SECONDS,
    is_try_it_offered,
    key_hash_of,
    make_token,
    raw_key,
    try_it_cookie,
)
from mgw.config.dashboard import edge_keys_of_dashboard
from mgw.config.settings import Config
from mgw.dashboard.access import Access
from mgw.dashboard.cookies import set_cookie
from mgw.dashboard.responses import NO_STORE, send_nothing
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import DIGEST_PREFIX, Secret
from mgw.routing.match import unknown_endpoint
from mgw.routing.routes import is_dashboard_api_denied

_OFF = "; the page is off: to turn it on, set dashboard.try_it to true"
_KEY_WANTED = "requests of this session require a gateway key: enter one, or send Authorization: Bearer <key>"


@dataclass(slots=True)
class TryIt:
    """Whom the page sends requests as.

    :param wall: returns unix seconds.
    """

    access: Access
    wall: Callable[[], float]
    _is_offered: bool = False
    _needs_key: bool = True
    _clients: dict[str, tuple[str, Secret]] = field(default_factory=dict, repr=False)
    """The names of clients and their keys, by the first digits of the digests of those."""

    def use(self, config: Config) -> None:
        """Follow another configuration from now on."""
        is_denied = is_dashboard_api_denied(config.routes.deny)
        self._is_offered = is_try_it_offered(config, is_api_denied=is_denied)
        self._needs_key = config.edge_auth.enabled
        self._clients = {}
        if not self._is_offered or not self._needs_key:
            return
        keys = edge_keys_of_dashboard(config.dashboard, config.edge_auth)
        names = {key.key: key.name for key in keys.named if key.key is not None}
        for key in keys.secrets:
            key_hash = key_hash_of(raw_key(key))
            self._clients[key_hash] = names.get(key, f"{DIGEST_PREFIX}{key_hash}"), key

    def describe(self, request: Request) -> Mapping[str, str] | None:
        """Say whom the page of a browser sends requests as; ``None``: there is no such page."""
        if not self._is_offered:
            return None
        if not self._needs_key:
            return {"as": "anyone"}
        client = self._client_of(request)
        return {"as": "key"} if client is None else {"as": "client", "client": client[0]}

    def begin(self, request: Request) -> None:
        """Set the cookie with which the page may send a request.

        :raises GatewayError: ``UNKNOWN_ROUTE`` where the page is off, ``ORIGIN`` for any other page, and
            ``EDGE_KEY`` for a session that is of no gateway key.
        """
        if not self._is_offered:
            raise unknown_endpoint(request.path.decode("latin-1"), _OFF)
        self.access.check_own_page(request)
        headers = [NO_STORE]
        if self._needs_key:
            client = self._client_of(request)
            if client is None:
                raise GatewayError(Reason.EDGE_KEY, _KEY_WANTED)
            secure = self.access.is_secure(request)
            token = make_token(raw_key(client[1]), self.wall())
            headers.append(set_cookie(try_it_cookie(secure=secure), token, SECONDS, secure=secure))
        send_nothing(request, 204, headers)

    def _client_of(self, request: Request) -> tuple[str, Secret] | None:
        key_hash = self.access.session_key_of(request)
        return None if key_hash is None else self._clients.get(key_hash)
