"""Admitted heads: checked, matched with a route, and accepted by edge auth.

What the ordinary functions found of a head is kept with it, so that the next request with the same head need
not be read, matched and authenticated again.  This is the memory of one configuration: another table of
routes or other keys begin with an empty one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from mgw.exchange.request import ClientRequest
from mgw.http.head_key import HeadKey, PlainHead
from mgw.http.request_head import HTTP_1_0, RequestHead
from mgw.routing.match import MatchedRoute
from mgw.web.edge_auth import Caller

MAX_HEADS: Final = 512
MAX_KEYS_BYTES: Final = 512 * 1024
"""How many are kept, and how long their keys may be together.  What is known of one is several times as long,
and so is what is sent for it and for each of a few models: ten or twenty megabytes at the most."""
MAX_SEEN: Final = 4096
"""How many heads are remembered as seen once."""


class AdmittedHead(Struct, eq=False):
    """The head of a request that may come in."""

    head: RequestHead
    matched: MatchedRoute
    caller: Caller
    raw_path: bytes
    max_body_bytes: int
    """The largest body that it may have."""
    client_request: ClientRequest
    """The request as the exchange sees it, which all with this head share."""
    plain: PlainHead | None = None
    """How to recognise the next request with this head, where that is easy."""

    def with_request(self, request: ClientRequest) -> AdmittedHead:
        """Return the same for a request with values of its own."""
        return AdmittedHead(self.head, self.matched, self.caller, self.raw_path, self.max_body_bytes, request)

    def __repr__(self) -> str:  # headers and queries hold credentials
        return f"AdmittedHead({self.head!r})"


def client_request_of(
    head: RequestHead, matched: MatchedRoute, caller: Caller, raw_path: bytes
) -> ClientRequest:
    """Return a request that may come in as the exchange sees it."""
    return ClientRequest(
        method=head.method,
        raw_path=raw_path,
        raw_query=caller.raw_query,
        headers=caller.headers,
        path_model=matched.model,
        version=matched.version,
        key=caller.key,
        is_plain=not head.is_coded,
    )


@dataclass(slots=True, repr=False)
class AdmittedHeads:
    """What is known of heads, by their keys (:mod:`mgw.http.head_key`)."""

    find: Callable[[bytes], AdmittedHead | None] = field(init=False)
    """Returns what is known of a head."""
    _heads: dict[bytes, AdmittedHead] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _bytes: int = 0
    """Of all keys."""

    def __post_init__(self) -> None:
        self.find = self._heads.get  # the dictionary's own: one call less for every request

    def keep(self, head_key: HeadKey, admitted: AdmittedHead) -> None:
        """Remember a head that comes for the second time; the oldest makes room.

        Only where what was found holds for every request with this head.
        """
        head, request, key, values = admitted.head, admitted.client_request, head_key[0], head_key[3]
        if head.version == HTTP_1_0 or head.upgrade is not None or head.expects_continue:
            return
        if values and not request.find_varying(values):
            return
        seen = hash(key)
        if seen not in self._seen:
            if len(self._seen) >= MAX_SEEN:
                self._seen.clear()
            self._seen.add(seen)
            return
        self._bytes += len(key)
        while len(self._heads) >= MAX_HEADS or (self._heads and self._bytes > MAX_KEYS_BYTES):
            oldest = next(iter(self._heads))
            del self._heads[oldest]
            self._bytes -= len(oldest)
        self._heads[key] = admitted
        admitted.plain = PlainHead.of_key(key)

    def clear(self) -> None:
        """Forget everything: what was found holds no longer."""
        self._heads.clear()
        self._seen.clear()
        self._bytes = 0
