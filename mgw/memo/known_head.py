"""The head of a client's request once it was checked, matched with a route and let in by edge auth."""

from __future__ import annotations

from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mgw.clients.client import Client
from mgw.credentials.provider import CallerToken, ClientKey
from mgw.http.cors_headers import CorsHeaders
from mgw.http.head_key import RepeatedHead
from mgw.http.request_head import RequestHead
from mgw.memo.client_request import ClientRequest
from mgw.routing.match import MatchedRoute
from mgw.wire.headers import RawHeaders

CHECKED_EACH_TIME: Final = 0.0
"""A moment that has always passed: what came in with a token for a short time is never known."""


class Caller(Struct, frozen=True):
    """A client that may come in."""

    key: ClientKey | None
    """The client's own credential for the provider."""
    raw_query: bytes | None
    """The query without the credentials that stood in it."""
    headers: RawHeaders
    """The headers, without any that repeats an edge key where no credential belongs."""
    flaw: str | None = None
    """What is wrong with a credential that could not be used."""
    client: Client | None = None
    """The client whose edge key opened the gate; ``None`` where nobody needs one."""
    known_until: float | None = None
    """The moment from which the same head must be checked again, in unix seconds; ``None``: there is none."""
    known_ends: float = inf
    """The same moment on a clock that nobody sets, where that is known."""
    token: CallerToken | None = None
    """The token of an identity provider that opened the gate."""


class KnownHead(Struct, frozen=True, eq=False):
    """What is known of a head that may come in."""

    head: RequestHead
    matched: MatchedRoute
    caller: Caller
    raw_path: bytes
    max_body_bytes: int
    """The largest body that the request may have."""
    client_request: ClientRequest
    """The request as the exchange sees it, which all with this head share."""
    cors: CorsHeaders | None = None
    """What the responses say of the origin of a web page; ``None``: nothing."""
    repeated: RepeatedHead | None = None
    """How to recognise the next request with this head, where that is easy."""

    def with_values(self, values: tuple[bytes, ...]) -> KnownHead:
        """Return the same for a request with its own values of the headers that vary."""
        return replace(self, client_request=self.client_request.with_values(values))

    def __repr__(self) -> str:  # headers and queries hold credentials
        return f"KnownHead({self.head!r})"


def known_head_of(
    head: RequestHead,
    matched: MatchedRoute,
    caller: Caller,
    raw_path: bytes,
    max_body_bytes: int,
    cors: CorsHeaders | None = None,
) -> KnownHead:
    """Return what is known of a head that may come in.

    :param max_body_bytes: the configured limit; a route may have a lower one.
    """
    limit = matched.route.max_body_bytes
    request = ClientRequest(
        method=head.method,
        raw_path=raw_path,
        raw_query=caller.raw_query,
        headers=caller.headers,
        path_model=matched.model,
        version=matched.version,
        key=caller.key,
        token=caller.token,
        deployment=matched.deployment,
        of_azure=matched.of_azure,
        is_uncoded=not head.is_coded,
    )
    if limit is None or limit > max_body_bytes:
        limit = max_body_bytes
    return KnownHead(head, matched, caller, raw_path, limit, request, cors)
