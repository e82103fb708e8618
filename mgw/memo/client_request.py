"""One request as the client sent it, but for its body: a value, which nothing changes once it is made."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mgw.credentials.provider import CallerToken, ClientKey
from mgw.nouns.varying_headers import VARYING
from mgw.wire.headers import RawHeaders, values_of

MAX_VARYING: Final = 8
"""How many headers may vary between requests of which all else is the same."""


class ClientRequest(Struct, frozen=True, eq=False):
    """The head of a client's request as the exchange sees it.

    Its headers may hold an edge key: they pass an allow-list before they go upstream.
    """

    method: bytes
    raw_path: bytes
    raw_query: bytes | None
    """The query without the gateway's own credentials."""
    headers: RawHeaders
    path_model: str | None
    """The decoded model of the path."""
    version: str
    """The version prefix of the path."""
    key: ClientKey | None
    """The client's own credential for the provider."""
    token: CallerToken | None = None
    """The token of an identity provider that the client has shown to the gateway."""
    deployment: str | None = None
    """The model that the path names in place of the body; ``None``: it is the body that names one."""
    of_azure: bool = False
    """Whether the path is one of Azure's, of which a version in the query may speak to no other host."""
    is_uncoded: bool = False
    """Whether the body is known to have no content coding."""
    varying: tuple[int, ...] = ()
    """The indices of the headers that differ between requests of which all else is the same."""
    values: tuple[bytes, ...] = ()
    """What stands in those headers, in their order."""
    head_number: int = 0
    """The number that :class:`~mgw.memo.request_memo.RequestMemo` gave the head as it kept it; 0: it did not.

    Requests that share a number differ in :attr:`values` alone."""

    @property
    def content_codings(self) -> list[bytes]:
        """What ``Content-Encoding`` says of the body."""
        return [] if self.is_uncoded else values_of(self.headers, b"content-encoding")

    def indices_of(self, values: tuple[bytes, ...]) -> tuple[int, ...] | None:
        """Return the headers that hold these values, which are this request's own, in this order.

        ``None``: one is missing, or another may be mistaken for one of them.
        """
        found: list[int] = []
        for index, (name, value) in enumerate(self.headers):
            if value in values and name.lower() in VARYING:
                if len(found) == len(values) or value != values[len(found)]:
                    return None  # spelled in another way, it belongs to the key
                found.append(index)
        return tuple(found) if len(found) == len(values) <= MAX_VARYING else None

    def with_values(self, values: tuple[bytes, ...]) -> ClientRequest:
        """Return a request that differs in the values of the headers that vary."""
        headers = list(self.headers)
        for index, value in zip(self.varying, values, strict=True):
            headers[index] = (headers[index][0], value)
        return replace(self, headers=headers, values=values)

    def __repr__(self) -> str:  # headers and query hold credentials
        return f"ClientRequest({self.method!r}, {self.raw_path!r})"
