"""The simulator in a process of its own, for tests over real sockets.

::

    with start_simulator() as simulator:
        client = openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="k")
        ...
        [request] = simulator.requests()

The child ends when this process does, however it ends: it reads standard input and stops at its end.
"""

import base64
import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from tests.support.fork_server import ROOT, ForkedProcess, Streams, fork_program
from tests.support.waiting import WAIT_SECONDS


@dataclass(frozen=True)
class SeenMessage:
    """What came through a WebSocket: ``text``, ``binary``, ``ping``, ``pong`` or ``close``."""

    kind: str
    data: bytes
    size: int
    sha256: str
    frames: int
    code: int | None


@dataclass(frozen=True)
class SeenRequest:
    """A request as the simulator saw it: ``headers`` are pairs as sent, ``target`` is raw path and query.

    Of a long body only the beginning is there; ``body_size`` and ``body_sha256`` are of all of it.
    """

    number: int
    connection: int
    method: str
    target: str
    version: str
    headers: list[tuple[str, str]]
    body: bytes
    complete: bool
    status: int | None
    pieces_sent: int
    bytes_sent: int
    answered: bool
    client_left: bool
    body_size: int
    body_sha256: str
    messages: list[SeenMessage]

    def values(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: str) -> str | None:
        """The first value of a header, or None."""
        return next(iter(self.values(name)), None)

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


@dataclass(frozen=True)
class SimulatorProcess:
    """A running simulator: ``url`` has no trailing slash and no version prefix."""

    url: str
    _process: ForkedProcess

    @property
    def port(self) -> int:
        """The port that it listens on, at 127.0.0.1."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def requests(self) -> list[SeenRequest]:
        """The last 200 requests, oldest first, those of the vendors' routes only."""
        found = self._call("GET", "/_sim/requests")
        return [
            SeenRequest(
                **{
                    **entry,
                    "headers": [(name, value) for name, value in entry["headers"]],
                    "body": base64.b64decode(entry["body"]),
                    "messages": [
                        SeenMessage(**{**message, "data": base64.b64decode(message["data"])})
                        for message in entry["messages"]
                    ],
                }
            )
            for entry in found
        ]

    def counters(self) -> dict[str, int]:
        """received, answered, client_left, malformed, connections, connections_open."""
        found: dict[str, int] = self._call("GET", "/_sim/counters")
        return found

    def clear(self) -> None:
        """Forget requests, counts and what ``sim-flaky`` has counted."""
        self._call("DELETE", "/_sim/requests")

    def settings(self, *, keep_all: bool = False, lenient: bool = False) -> None:
        """Say whether long bodies stay whole, and whether unknown identifiers are taken for known ones."""
        kept, taken = "all" if keep_all else "some", "on" if lenient else "off"
        self._call("PUT", f"/_sim/settings?keep={kept}&lenient={taken}")

    def tokens(self, *, required: bool = False, words: str = "") -> None:
        """Say whether vendors' routes want tokens issued here, and what goes wrong with requests for them."""
        self._call("PUT", f"/_sim/tokens?required={'on' if required else 'off'}&words={quote(words)}")

    def revoke_tokens(self) -> None:
        """Revoke all tokens that were issued."""
        self._call("DELETE", "/_sim/tokens")

    def service_account(self) -> dict[str, str]:
        """The key file of the simulator's service account."""
        found: dict[str, str] = self._call("GET", "/_sim/service-account")
        return found

    def token_requests(self) -> list[SeenRequest]:
        """The requests for tokens among the last 200."""
        paths = ("/oauth/token", "/computeMetadata/")
        return [request for request in self.requests() if request.target.startswith(paths)]

    def wait_for(self, counter: str, count: int = 1, seconds: float = WAIT_SECONDS) -> dict[str, int]:
        """Wait until a counter has come to a number: ``wait_for("client_left")``; AssertionError if not."""
        found: dict[str, int] = self._call(
            "GET", f"/_sim/wait?counter={counter}&count={count}&seconds={seconds}"
        )
        return found

    def stop(self) -> None:
        """End the process; safe to call twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _call(self, method: str, target: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS + 10)
        try:
            connection.request(method, target)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, f"{method} {target} -> {answer.status} {body.decode()}"
        return json.loads(body)


@contextmanager
def start_simulator(*aws_keys: str) -> Iterator[SimulatorProcess]:
    """Start a simulator on a free port; it is stopped at the end of the block.

    :param aws_keys: ``KEYID:SECRET[:TOKEN][@REGION]``, with which requests are to be signed.
    """
    options = [f"--aws={key}" for key in aws_keys]
    process = fork_program(
        ["-m", "mgw_sim", "--listen", "127.0.0.1:0", "--announce-port", "--until-eof", *options],
        ROOT,
        {},
        Streams(stdin=subprocess.PIPE, stderr=None),
    )
    assert process.stdout is not None
    url = process.stdout.readline().decode().strip()
    simulator = SimulatorProcess(url, process)
    try:
        assert url, "the simulator did not start; its standard error says why"
        yield simulator
    finally:
        simulator.stop()
