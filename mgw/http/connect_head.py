"""The heads of a CONNECT, which asks a proxy for a tunnel: request and response (RFC 9110 9.3.6).

Any 2xx opens the tunnel.  Such a response has no body, whatever its fields say, and the tunnel begins right
behind its head.  There is nobody behind the proxy who could speak before we do, so bytes that come with the
head are a fault.  Interim responses (1xx) are skipped.  Of a refusal only the status counts.
"""

from __future__ import annotations

import re
from typing import Final

from mgw.http.upstream_connection import NOT_HTTP

MAX_CONNECT_HEAD: Final = 32 * 1024
"""Bytes that a proxy may say in all before the tunnel stands."""
_TOO_LONG: Final = f"sent more than {MAX_CONNECT_HEAD} bytes without opening a tunnel"
_EARLY: Final = "sent unsolicited data"
_SWITCHED: Final = "switched to another protocol without being asked"
_BEGINNING: Final = b"HTTP/1."
_HEAD_END: Final = b"\r\n\r\n"
_HEAD: Final = re.compile(
    rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?\r\n"  # RFC 9112 4; some leave out the blank
    rb"(?:[A-Za-z0-9!#$%&'*+.^_`|~-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n"  # RFC 9112 5
)
_SWITCHING_PROTOCOLS: Final = 101


def authority_of(host: str, port: int) -> str:
    """Return the target of a CONNECT (RFC 9112 3.2.3); ``host`` is without brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def render_connect(authority: str, authorization: str | None) -> bytes:
    """Return the head of the request for a tunnel.

    :param authorization: what ``Proxy-Authorization`` says.
    """
    credentials = "" if authorization is None else f"Proxy-Authorization: {authorization}\r\n"
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n".encode("latin-1")


class ConnectReader:
    """Read what a proxy says: feed it bytes, then look at ``status`` and ``fault``."""

    __slots__ = ("_begun", "_seen", "fault", "status")

    def __init__(self) -> None:
        self.status: int | None = None
        """The status of the final response, once its head is complete."""
        self.fault: str | None = None
        """Why no tunnel can come of this, in words that follow "the proxy"; a refusal is none."""
        self._begun = bytearray()
        """The head so far."""
        self._seen = 0
        """How many bytes the interim responses before it had."""

    @property
    def opened(self) -> bool:
        """Whether the tunnel stands."""
        return self.status is not None and self.status < 300 and self.fault is None

    def feed(self, data: bytes) -> None:
        """Read on; nothing is read behind a refusal or a fault."""
        if self.status is None and self.fault is None:
            data = self._read_heads(data)
        if data and self.opened:
            self.fault = _EARLY

    def _read_heads(self, data: bytes) -> bytes:
        """Read interim heads and the final one; return what came behind it."""
        begun = self._begun
        searched = max(0, len(begun) - len(_HEAD_END) + 1)
        begun += data
        while self.fault is None and self.status is None:
            end = begun.find(_HEAD_END, searched)
            if end < 0:
                self._check_beginning(begun)
                return b""
            end += len(_HEAD_END)
            head = bytes(begun[:end])
            del begun[:end]
            searched = 0
            self._read_head(head)
        return bytes(begun)

    def _read_head(self, head: bytes) -> None:
        self._check_beginning(head)
        self._seen += len(head)
        found = _HEAD.fullmatch(head)
        status = 0 if found is None else int(found[1])
        if self.fault is not None:
            return
        if found is None:
            self.fault = NOT_HTTP
        elif status == _SWITCHING_PROTOCOLS:
            self.fault = _SWITCHED
        elif status >= 200:
            self.status = status

    def _check_beginning(self, head: bytes | bytearray) -> None:
        """Refuse early what can never become a head."""
        if not _BEGINNING.startswith(head[: len(_BEGINNING)]):
            self.fault = NOT_HTTP
        elif self._seen + len(head) > MAX_CONNECT_HEAD:
            self.fault = _TOO_LONG
