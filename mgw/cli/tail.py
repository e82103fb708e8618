"""``mgw tail``: what happens in a running gateway, in a terminal (``GET /v1/dashboard/events``).

It is a client like any other, and connects again when the connection breaks: from the last event that it has
seen, so that nothing is missing which the gateway still holds.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from json import loads
from random import random
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from mgw.cli.tail_lines import EventRenderer, Filters, harmless
from mgw.config.extras import pip_install

DEFAULT_URL: Final = "http://127.0.0.1:8787"
DEFAULT_KEY_ENV: Final = "MGW_KEY"
PATH: Final = "/v1/dashboard/events"
CONNECT_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 45.0
"""A gateway says something every 15."""
MAX_BACK_OFF: Final = 30.0
MAX_LINE_BYTES: Final = 1024 * 1024
MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
_MAX_ERROR_BYTES: Final = 64 * 1024
_TRIED_AGAIN: Final = frozenset({429, 500, 502, 503, 504})


class TailError(Exception):
    """It cannot go on; the text says why."""


class _Away(Exception):  # noqa: N818  it is no error of ours
    """The gateway cannot be reached, or the connection broke; the text says how."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--url", default=DEFAULT_URL, help="the gateway's address (%(default)s)")
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help=f"the environment variable with a key of the dashboard ({DEFAULT_KEY_ENV}, if it is set)",
    )
    parser.add_argument(
        "--kinds", default="usage", help="one or more of usage, log, health, session (%(default)s)"
    )
    for name in ("client", "model", "provider"):
        parser.add_argument(
            f"--{name}", metavar="PATTERN", help=f"only events of this {name}; * and ? stand for any others"
        )
    parser.add_argument(
        "--status", help="only events of this status: a word such as upstream_error, 429, or 5xx"
    )
    parser.add_argument("--format", choices=("line", "json"), default="line", help="(%(default)s)")


def tail(said: argparse.Namespace) -> int:
    """Print events until somebody interrupts it; return the exit status."""
    filters = Filters(said.client, said.model, said.provider, said.status)
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    renderer = EventRenderer(filters, as_json=said.format == "json", colours=colours)
    try:
        source = EventSource(_address_of(said.url), _headers_of(said.key_env, os.environ), said.kinds)
        for kind, data in source.events(_check_output):
            text = _render(renderer, kind, data)
            if text:
                sys.stdout.write(text)
                sys.stdout.flush()
    except TailError as error:
        sys.stderr.write(f"mgw tail: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # `mgw tail | head`: what is left to be written at the exit goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


def _render(renderer: EventRenderer, kind: str, data: str) -> str:
    try:
        return renderer.render(kind, loads(data), data)
    except (ValueError, OverflowError, RecursionError):  # no JSON, or numbers without end
        raise TailError("what comes is no event of mgw") from None


@dataclass(slots=True)
class EventSource:
    """The events of a gateway, over as many connections as that takes."""

    address: SplitResult
    headers: Mapping[str, str] = field(repr=False)
    kinds: str
    say: Callable[[str], object] = lambda text: sys.stderr.write(f"mgw tail: {text}\n")
    sleep: Callable[[float], object] = time.sleep
    _last_id: str | None = None
    _retry_seconds: float = 2.0
    _tries: int = 0
    """How often it has tried in vain since it last had something."""
    _was_connected: bool = False

    def events(self, check_output: Callable[[], None]) -> Iterator[tuple[str, str]]:
        """Yield the kind and the data of each event.

        :param check_output: called now and then while there is no event.
        :raises TailError: it makes no sense to try again.
        """
        while True:
            try:
                with closing(self._connect()) as connection:
                    yield from self._read(self._ask(connection), check_output)
                reason = "the gateway has ended the connection"
            except _Away as away:
                reason = str(away)
                if not self._was_connected:
                    raise TailError(reason) from None
            self._wait(reason)

    def _wait(self, reason: str) -> None:
        if not self._tries:
            self.say(f"{reason}; trying again")
        seconds = min(self._retry_seconds * 2.0**self._tries, MAX_BACK_OFF)
        self._tries = min(self._tries + 1, 10)
        self.sleep(seconds * (0.5 + random() / 2))  # noqa: S311  spreads clients, and hides nothing

    def _connect(self) -> HTTPConnection:
        secure = self.address.scheme == "https"
        connection = (HTTPSConnection if secure else HTTPConnection)(
            self.address.hostname or "", self.address.port, timeout=CONNECT_SECONDS
        )
        try:
            connection.connect()
        except (OSError, HTTPException, UnicodeError) as error:
            connection.close()
            raise _Away(f"cannot connect to {self._shown()}: {harmless(_why(error))}") from None
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
            raise _Away(f"no answer from {self._shown()}: {harmless(_why(error))}") from None
        kind = response.headers.get_content_type()
        if kind != "text/event-stream":
            raise TailError(f"{self._shown()} answers with {harmless(kind)}: it is no gateway of mgw")
        self._was_connected = True
        return response

    def _refuse(self, status: int, body: bytes) -> None:
        """Say why there are no events.

        :raises TailError: trying again would not help.
        :raises _Away: it might.
        """
        said = harmless(_message_of(body))
        if status == 401:
            had_key = "Authorization" in self.headers
            what = "does not know this key" if had_key else "wants a key"
            raise TailError(
                f"{self._shown()} {what}: put one of dashboard.keys, or else of edge_auth, into the "
                f"environment variable {DEFAULT_KEY_ENV}, or name another with --key-env"
            )
        if status == 404:
            raise TailError(
                f"{self._shown()} has no dashboard: it needs {pip_install('dashboard')}, and no "
                "dashboard: {enabled: false} in its configuration"
            )
        sentence = f"{self._shown()} answers with status {status}{f': {said}' if said else ''}"
        if status in _TRIED_AGAIN:
            raise _Away(sentence)
        raise TailError(sentence)

    def _read(self, response: HTTPResponse, check_output: Callable[[], None]) -> Iterator[tuple[str, str]]:
        kind, data, event_id, size = "", list[str](), self._last_id, 0
        while True:
            line = self._read_line(response)
            size += len(line)
            if size > MAX_EVENT_BYTES:
                raise TailError(f"{self._shown()} sends an event without end")
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
            raise _Away(f"the connection to {self._shown()} broke: {harmless(_why(error))}") from None

    def _shown(self) -> str:
        return harmless(f"{self.address.scheme}://{self.address.netloc}{self.address.path.rstrip('/')}")


def _address_of(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        port_is_fine = address.port is None or address.port > 0
    except ValueError:
        raise TailError("--url is no address") from None
    if address.scheme not in ("http", "https") or not address.hostname or not port_is_fine:
        raise TailError(f"--url: expected an address such as {DEFAULT_URL}")
    if "@" in address.netloc or address.query or address.fragment:
        raise TailError("--url: no user, password, query or fragment; a key comes from --key-env")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise TailError("--url: only visible ASCII characters")
    return address


def _headers_of(key_env: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    name = key_env or DEFAULT_KEY_ENV
    key = environment.get(name, "").strip()
    if not key:
        if key_env is not None:
            raise TailError(f"the environment variable {harmless(name)} is not set")
        return {}
    if not key.isascii() or not key.isprintable() or " " in key:
        raise TailError(f"what the environment variable {harmless(name)} holds cannot be a key")
    return {"Authorization": f"Bearer {key}"}


def _message_of(body: bytes) -> str:
    """Return the message of an error in OpenAI's shape, or nothing."""
    try:
        found: Any = loads(body)  # Any: JSON
    except (ValueError, RecursionError):
        return ""
    error = found.get("error") if isinstance(found, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message[:500] if isinstance(message, str) else ""


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it says nothing"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _check_output() -> None:
    """Notice that nobody reads any more, which is otherwise seen at the next event alone.

    :raises BrokenPipeError: the other end of a pipe is closed.
    """
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are always told
    if any(found & select.POLLERR for _, found in poll.poll(0)):
        raise BrokenPipeError
