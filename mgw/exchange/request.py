"""The client's side of an exchange: its request, and the channel for the response."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct, field

from mgw.credentials.provider import ClientKey
from mgw.http.head_key import VARYING
from mgw.wire.headers import RawHeaders, values_of

if TYPE_CHECKING:
    from mgw.exchange.prepared_request import PreparedHead, PreparedRequest

MAX_PREPARED: Final = 8
MAX_MODEL_CHARS: Final = 256
MAX_VARYING: Final = 8
"""How many headers may vary between requests of which all else is the same."""


class ClientRequest(Struct, eq=False):
    """One request as the client sent it, but for its body; so are all that have the same head.

    Its headers may hold an edge key: they pass an allow-list.
    """

    method: bytes
    raw_path: bytes
    raw_query: bytes | None
    headers: RawHeaders
    path_model: str | None
    """The decoded model of the path."""
    version: str
    """The version prefix of the path."""
    key: ClientKey | None
    is_plain: bool = False
    """Whether the body is known to have no content coding."""
    is_unambiguous: bool = False
    """Whether it is known that no provider finds a model in its head where the gateway finds none."""
    varying: tuple[int, ...] = ()
    """The headers that differ between requests of which all else is the same, by their index."""
    values: tuple[bytes, ...] = ()
    """What stands in them."""
    prepared: dict[str | None, PreparedRequest] = field(default_factory=dict)
    """What is known to be made of this head, by the model that is asked for."""
    _content_codings: list[bytes] | None = None
    translated: dict[Hashable, PreparedHead] = field(default_factory=dict)
    """The heads that are sent for it to providers of other families, by what decides on them."""

    @property
    def content_codings(self) -> list[bytes]:
        """What ``Content-Encoding`` says of the body."""
        found = self._content_codings
        if found is None:
            found = self._content_codings = values_of(self.headers, b"content-encoding")
        return found

    def find_varying(self, values: tuple[bytes, ...]) -> bool:
        """Find the headers that hold these values, which are this request's own, in this order.

        :returns: whether all are there, and none beside them that may be mistaken for one.
        """
        found: list[int] = []
        for index, (name, value) in enumerate(self.headers):
            if value in values and name.lower() in VARYING:
                if len(found) == len(values) or value != values[len(found)]:
                    return False  # spelled in another way, it belongs to the key
                found.append(index)
        if not len(found) == len(values) <= MAX_VARYING:
            return False
        self.varying, self.values = tuple(found), values
        return True

    def with_values(self, values: tuple[bytes, ...]) -> ClientRequest:
        """Return a request that differs in the values of those headers."""
        headers = list(self.headers)
        for index, value in zip(self.varying, values, strict=True):
            headers[index] = (headers[index][0], value)
        request = ClientRequest(
            *(self.method, self.raw_path, self.raw_query, headers, self.path_model, self.version, self.key),
            is_plain=self.is_plain,
            is_unambiguous=self.is_unambiguous,
        )
        request.varying, request.values, request.prepared = self.varying, values, self.prepared
        request.translated = self.translated
        return request

    def __repr__(self) -> str:  # headers and query hold credentials
        return f"ClientRequest({self.method!r}, {self.raw_path!r})"

    def keep_prepared(self, model: str | None, prepared: PreparedRequest) -> None:
        """Remember what was made of this head for a model, for a few of them: clients may invent models."""
        short = model is None or len(model) <= MAX_MODEL_CHARS
        if short and len(self.prepared) < MAX_PREPARED:
            self.prepared[model] = prepared

    def keep_translated(self, key: Hashable, head: PreparedHead) -> None:
        """Remember a head that is sent for this one, for a few of them as well."""
        short = len(head.upstream_target) <= MAX_MODEL_CHARS
        if short and len(self.translated) < MAX_PREPARED:
            self.translated[key] = head


class Producer(Protocol):
    """Something that writes, and can be told to wait."""

    def pause(self) -> None:
        """Deliver nothing until :meth:`resume`."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...


class ResponseChannel(Protocol):
    """Takes the response to one request."""

    @property
    def started(self) -> bool:
        """Whether the head of a response is on its way: then no other response can be sent."""
        ...

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of the response."""
        ...

    def start_early(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of a response while the request is still needed, which keeps its memory."""
        ...

    def forget_request(self) -> None:
        """Release the memory of a request that is not needed any more."""
        ...

    def relay_head(self, status: int, reason: bytes, lines: bytes, content_length: int | None) -> None:
        """Send the head of a response that is passed on.

        :param lines: ``Name: value`` and a line end each, none of which speaks of the connection.
        :param content_length: what they say of it.
        """
        ...

    def relay_whole(
        self, status: int, reason: bytes, lines: bytes, content_length: int | None, body: bytes
    ) -> None:
        """Send all of a response that is passed on, and end it; the head is as in :meth:`relay_head`."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        ...

    def flush(self) -> None:
        """Send what waits for more of the body: there is none for now."""
        ...

    def finish(self, last_piece: bytes = b"") -> None:
        """End the response behind a last piece of the body, if there is one."""
        ...

    def abort(self) -> None:
        """End the connection visibly broken."""
        ...

    def register(self, producer: Producer) -> None:
        """Name what is to pause while the client reads more slowly than we write."""
        ...

    def unregister(self) -> None:
        """There is nothing to pause any more."""
        ...
