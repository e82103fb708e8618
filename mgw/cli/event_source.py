"""The events of a running gateway, as a client gets them: ``GET /v1/dashboard/events``.

The gateway may be down at first, and may restart: its reader then waits, and goes on behind the last event
that it has seen, so that nothing is missing that the gateway still holds.  What time does not mend ends it: a
wrong key, a server that is not mgw, a certificate that does not fit.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    RemoteDisconnected,
)
from json import loads
from random import random
from typing import Any, Final
from urllib.parse import SplitResult, urlencode

from mgw.cli.gateway_address import KEY_ENV, connect_to
from mgw.cli.tail_lines import harmless

PATH: Final = "/v1/dashboard/events"
CONNECT_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 45.0
"""A gateway sends something every 15."""
FIRST_BACK_OFF: Final = 0.5
MAX_BACK_OFF: Final = 5.0
"""Seconds: a gateway that has come up is noticed that soon."""
MAX_LINE_BYTES: Final = 1024 * 1024
MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
_MAX_ERROR_BYTES: Final = 64 * 1024
_OF_TOKENS: Final = "invalid_token"
"""The code of an error about a token of an identity provider."""
_TRIED_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
_TLS_RECORD: Final = ("\x15\x03", "\x16\x03")
"""An alert or a handshake (RFC 8446 5.1), as the answer to HTTP."""
_TLS_BROKE: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""The connection ended in the handshake; other errors of TLS say that the two ends do not fit."""

_NO_CERTIFICATE: Final = frozenset({"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"})
"""What a server says that requires a certificate, with TLS 1.3 and 1.2."""
_WRONG_CERTIFICATE: Final = frozenset(
    {"TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_BAD_CERTIFICATE"}
)


class TailError(Exception):
    """It cannot go on; the text says why."""


class _Away(Exception):  # noqa: N818  it is no error of ours
    """The gateway cannot be reached, or the connection broke; the text says how."""


@dataclass(slots=True)
class EventSource:
    """The events of a gateway, over as many connections as that takes.

    :param say: tells a person what it waits for.
    """

    address: SplitResult
    headers: Mapping[str, str] = field(repr=False)
    kinds: str
    say: Callable[[str], object]
    sleep: Callable[[float], object] = time.sleep
    certificate: ssl.SSLContext | None = None
    """What shows a client certificate."""
    greets: bool = False
    """Whether to say that it is connected: a person would see nothing before the first event."""
    _last_id: str | None = None
    _retry_seconds: float = FIRST_BACK_OFF
    _tries: int = 0
    """How often it has failed to connect, or to read a line, since it last read one."""
    _waited: bool = False
    _was_connected: bool = False

    def events(self, check_output: Callable[[], None]) -> Iterator[tuple[str, str]]:
        """Yield the kind and the data of each event.

        :param check_output: called now and then while there is no event.
        :raises TailError: it makes no sense to try again.
        """
        while True:
            try:
                with closing(self._connect()) as connection:
                    response = self._ask(connection)
                    self._on_connected()
                    yield from self._read(response, check_output)
                reason = "the gateway closed the connection"
            except _Away as away:
                reason = str(away)
            check_output()
            self._wait(reason)

    def _on_connected(self) -> None:
        if self.greets and not self._was_connected:
            self.say(f"connected to {self._shown()}; waiting for events")
        elif self._waited:
            self.say(f"{'reconnected' if self._was_connected else 'connected'} to {self._shown()}")
        self._waited, self._was_connected = False, True

    def _wait(self, reason: str) -> None:
        if not self._waited:
            waiting = f"waiting for {self._shown()} ({reason}); press Ctrl-C to stop"
            self.say(f"{reason}; reconnecting to {self._shown()}" if self._was_connected else waiting)
        self._waited = True
        seconds = min(self._retry_seconds * 2.0**self._tries, MAX_BACK_OFF)
        self._tries = min(self._tries + 1, 10)
        self.sleep(seconds * (0.5 + random() / 2))  # noqa: S311  spreads clients, and hides nothing

    def _connect(self) -> HTTPConnection:
        connection = connect_to(self.address, CONNECT_SECONDS, self.certificate)
        try:
            connection.connect()
        except (OSError, HTTPException, UnicodeError) as error:
            connection.close()
            why = f"cannot connect: {harmless(why_of(error))}"
            if (_does_not_fit(error) or isinstance(error, UnicodeError)) and not self._was_connected:
                raise TailError(f"{self._shown()}: {why}") from None
            raise _Away(why) from None
        return connection

    def _ask(self, connection: HTTPConnection) -> HTTPResponse:
        headers = {"Accept": "text/event-stream", "User-Agent": "mgw-tail", **self.headers}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        target = f"{self.address.path.rstrip('/')}{PATH}?{urlencode({'kinds': self.kinds})}"
        try:
            assert connection.sock is not None, "it is connected"
            connection.sock.settimeout(SILENT_SECONDS)
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                self._refuse(response.status, response.read(_MAX_ERROR_BYTES))
        except (OSError, HTTPException) as error:
            if isinstance(error, BadStatusLine) and not isinstance(error, RemoteDisconnected):
                uses_tls = str(error.args[0]).startswith(_TLS_RECORD) and self.address.scheme == "http"
                what = (
                    "uses TLS: write https://"
                    if uses_tls
                    else "does not speak HTTP: it is not an mgw gateway"
                )
                raise TailError(f"{self._shown()} {what}") from None
            if _does_not_fit(error) and not self._was_connected:  # TLS 1.3 refuses a client only here
                raise TailError(f"{self._shown()}: {harmless(why_of(error))}") from None
            is_closed = isinstance(error, RemoteDisconnected) and self.address.scheme == "http"
            hint = "; if the gateway uses TLS, write https://" if is_closed else ""
            raise _Away(f"no response: {harmless(why_of(error))}{hint}") from None
        kind = response.headers.get_content_type()
        if kind != "text/event-stream":
            raise TailError(f"{self._shown()} responds with {harmless(kind)}: it is not an mgw gateway")
        return response

    def _refuse(self, status: int, body: bytes) -> None:
        """Say why there are no events.

        :raises TailError: trying again would not help.
        :raises _Away: it might.
        """
        if status == 401:
            raise TailError(f"{self._shown()} {say_refused_key('Authorization' in self.headers, body)}")
        message = harmless(message_of(body))
        if status == 404:
            raise TailError(
                f"{self._shown()} has no dashboard: {message or f'a proxy in front of it may block {PATH}'}"
            )
        sentence = f"status {status}{f': {message}' if message else ''}"
        if status in _TRIED_AGAIN:
            raise _Away(sentence)
        raise TailError(f"{self._shown()} responds with {sentence}")

    def _read(self, response: HTTPResponse, check_output: Callable[[], None]) -> Iterator[tuple[str, str]]:
        kind, data, event_id, size = "", list[str](), self._last_id, 0
        while True:
            line = self._read_line(response)
            size += len(line)
            if size > MAX_EVENT_BYTES:
                raise TailError(f"{self._shown()} sends an event of more than {MAX_EVENT_BYTES} bytes")
            if not line.endswith(b"\n"):  # the end, perhaps in the middle of an event
                return
            self._tries = 0
            name, _, value = line.rstrip(b"\r\n").decode("utf-8", "replace").partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif name == "id" and value.isascii() and value.isprintable():
                event_id = value
            elif name == "retry" and value.isascii() and value.isdigit():
                self._retry_seconds = min(int(value[:9]) / 1000, MAX_BACK_OFF)
            elif not name and not value:
                self._last_id = event_id  # only now: what broke off comes again
                if data:
                    yield kind, "\n".join(data)
                else:
                    check_output()
                kind, data, size = "", [], 0

    def _read_line(self, response: HTTPResponse) -> bytes:
        try:
            return response.readline(MAX_LINE_BYTES)
        except (OSError, HTTPException, ValueError) as error:
            raise _Away(f"the connection broke: {harmless(why_of(error))}") from None

    def _shown(self) -> str:
        return harmless(f"{self.address.scheme}://{self.address.netloc}{self.address.path.rstrip('/')}")


def say_refused_key(had_key: bool, body: bytes = b"") -> str:  # noqa: FBT001  it is said by its name
    """Say what to do about a 401.

    :param body: of the response.
    """
    error = _error_in(body)
    if error.get("code") == _OF_TOKENS:
        return f"rejects this token: {harmless(_message_in(error))}"
    what = "rejects this key" if had_key else "requires a key"
    return (
        f"{what}: put one of dashboard.keys, a key or token of a client in dashboard.groups, or one of "
        f"edge_auth.keys if there are neither, into the environment variable {KEY_ENV}, or name another "
        "variable with --key-env"
    )


def message_of(body: bytes) -> str:
    """Return the message of an error in OpenAI's shape, or nothing."""
    return _message_in(_error_in(body))


def _message_in(error: Mapping[str, Any]) -> str:  # Any: JSON
    message = error.get("message")
    return message[:500] if isinstance(message, str) else ""


def _error_in(body: bytes) -> Mapping[str, Any]:  # Any: JSON
    """Return the error in OpenAI's shape; it is empty if there is none."""
    try:
        found: Any = loads(body)  # Any: JSON
    except (ValueError, RecursionError):
        return {}
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, dict) else {}


def _does_not_fit(error: BaseException) -> bool:
    return isinstance(error, ssl.SSLError) and not isinstance(error, _TLS_BROKE)


def why_of(error: BaseException) -> str:
    """Say why a connection failed."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "the server does not use TLS: write http://"
    if isinstance(error, ssl.SSLError) and error.reason in _NO_CERTIFICATE:
        return "the gateway accepts only clients with a certificate: name one with --client-cert"
    if isinstance(error, ssl.SSLError) and error.reason in _WRONG_CERTIFICATE:
        return "the gateway rejects this client certificate: it needs one of tls.client_ca"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
