"""What treq is given for a request: its URL as it was written, its headers, and the clock of its timeout.

treq takes the text of a URL apart with hyperlink and puts it together anew.  That refuses the hosts ``[::1]``
and ``my_host``, leaves out a port that is the scheme's own and an empty query, and percent-encodes what may
stand in a query, such as ``[``.  For a URL of hyperlink's own type it asks for its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hyperlink import EncodedURL
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.web.http_headers import Headers


class ExactURL(EncodedURL):
    """A URL that is requested byte by byte as it was written; the agent reads it, and hyperlink does not."""

    def __init__(self, text: str) -> None:
        super().__init__()  # its parts stay empty: treq asks for none
        self._text = text

    def __repr__(self) -> str:  # a query may hold a key
        return "ExactURL()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactURL) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def to_uri(self) -> ExactURL:
        """Return itself: it is in ASCII already."""
        return self

    def to_text(self, with_password: bool = False) -> str:  # noqa: ARG002, FBT001, FBT002  # hyperlink's signature
        """Return the URL."""
        return self._text


def headers_of(pairs: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return headers in this order, for one request: treq may add to them."""
    headers = Headers()
    for name, value in pairs:
        headers.addRawHeader(name, value)
    return headers


class TimeLimit:
    """The clock of one request's ``timeout``, which knows whether that has run out.

    treq cancels a request whose time is up, as does whoever waits for it no longer: a cancellation does not
    say which of them it is from, and nor does the time of day, since a service may stop at any moment.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self.has_run_out = False

    def callLater(self, seconds: float, cancel: Callable[[], None]) -> IDelayedCall:
        """Cancel when the time is up, as treq asks for."""
        return self._clock.callLater(seconds, self._run_out, cancel)

    def _run_out(self, cancel: Callable[[], None]) -> None:
        self.has_run_out = True
        cancel()


def as_reactor(clock: IReactorTime | TimeLimit) -> Any:  # Any: treq names a type of more than it uses
    """Return what measures treq's ``timeout``; without it treq would import the global reactor."""
    return clock
