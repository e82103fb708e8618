"""``mgw tail`` as a process: what it asks for, prints and says, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from mgw.cli.event_source import EventSource
from tests.support.gateway import Collected
from tests.support.operations import ROOT
from tests.support.waiting import WAIT_SECONDS

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
OPENING = b"retry: 10\nid: a1-0\n\n"
KEY = "canary-key"


def usage(number: int, model: str = "fast") -> bytes:
    """Return a usage event."""
    data = (
        f'{{"request_id":"req_{number}","time":"2026-01-31T12:00:00.250Z","model":"{model}","status":"ok",'
        '"http_status":200,"latency_ms":5}'
    )
    return b"id: a1-%d\nevent: usage\ndata: %b\n\n" % (number, data.encode())


def refusal(status: int, message: str = "no", code: str = "a_code") -> bytes:
    body = b'{"error":{"message":"%b","code":"%b"}}' % (message.encode(), code.encode())
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body)


class ScriptedGateway:
    """Answers one connection after the other with what the test says; the last stays open where it wants."""

    def __init__(self, *answers: bytes, stays: bool = False) -> None:
        self.heads: list[str] = []
        self.left = threading.Event()
        self._answers, self._stays = answers, stays
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for number, answer in enumerate(self._answers):
            connection, _ = self._listener.accept()
            with connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65536)
                self.heads.append(head.decode())
                with suppress(OSError):  # the other side may leave at any time
                    connection.sendall(answer)
                    if self._stays and number == len(self._answers) - 1:
                        connection.recv(1)
                self.left.set()
        self._listener.close()


class Tail:
    """The command, and what it writes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.stdout, self.stderr = Collected(process.stdout), Collected(process.stderr)

    def end(self) -> tuple[int, str, str]:
        """Wait for its end; return its status and all that it wrote."""
        status = self.process.wait(WAIT_SECONDS)
        return status, self.stdout.whole(WAIT_SECONDS).decode(), self.stderr.whole(WAIT_SECONDS).decode()


@contextmanager
def tailing(*arguments: str, **environ: str) -> Iterator[Tail]:
    """Run the command; it is ended at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mgw.cli.main", "tail", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Tail(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(WAIT_SECONDS)


def ran(*arguments: str, **environ: str) -> tuple[int, str, str]:
    """Run the command to its end."""
    with tailing(*arguments, **environ) as tail:
        return tail.end()


def test_events_are_printed_as_they_come_and_ctrl_c_ends_it_in_silence() -> None:
    gateway = ScriptedGateway(STREAM + OPENING + usage(1) + b":\nid: a1-1\n\n" + usage(2), stays=True)
    with tailing("--url", gateway.url, MGW_KEY=KEY) as tail:
        tail.stdout.wait_for(lambda data: data.count(b"\n") == 2, WAIT_SECONDS, "two lines")
        tail.process.send_signal(signal.SIGINT)
        assert tail.end() == (0, "12:00:00.250Z  200  -  fast  5 ms\n" * 2, "")
    assert gateway.left.wait(WAIT_SECONDS)
    assert gateway.heads[0].startswith("GET /v1/dashboard/events?kinds=usage HTTP/1.1\r\n")
    assert f"Authorization: Bearer {KEY}\r\n" in gateway.heads[0]
    assert "Last-Event-ID" not in gateway.heads[0]


def test_a_broken_connection_is_made_again_from_the_last_event() -> None:
    gateway = ScriptedGateway(
        STREAM + OPENING + usage(1) + b"id: a1-2\nevent: us",
        refusal(503),
        STREAM + usage(2) + b":\nid: a1-7\n\n",
        STREAM + b"event: reset\ndata: {}\n\n" + usage(9),
        stays=True,
    )
    with tailing("--url", f"{gateway.url}/prefix/", "--format", "json", "--kinds", "usage,log") as tail:
        tail.stdout.wait_for(lambda data: b"req_9" in data, WAIT_SECONDS, "the last event")
    assert [data.split(b'"')[3] for data in tail.stdout.data.splitlines()] == [b"req_1", b"req_2", b"req_9"]
    ids = [head.partition("Last-Event-ID: ")[2].partition("\r\n")[0] for head in gateway.heads]
    assert ids == ["", "a1-1", "a1-1", "a1-7"]
    assert gateway.heads[0].startswith("GET /prefix/v1/dashboard/events?kinds=usage%2Clog HTTP/1.1\r\n")
    said = tail.stderr.data.decode()
    assert said.count(f"; reconnecting to {gateway.url}/prefix\n") == 2
    assert said.count(f"reconnected to {gateway.url}/prefix\n") == 2


def test_filters_and_harmless_names() -> None:
    gateway = ScriptedGateway(STREAM + usage(1) + usage(2, r"slow\u001b[2J"), stays=True)
    with tailing("--url", gateway.url, "--model", "slow*") as tail:
        tail.stdout.wait_for(lambda data: b"\n" in data, WAIT_SECONDS, "a line")
        tail.process.send_signal(signal.SIGINT)
        assert tail.end()[1] == "12:00:00.250Z  200  -  slow?[2J  5 ms\n"


@pytest.mark.parametrize("answer", [STREAM + usage(1) + usage(2) * 5000, STREAM + usage(1) + b":\n\n" * 1000])
def test_a_pipe_that_is_closed_ends_it_in_silence(answer: bytes) -> None:
    gateway = ScriptedGateway(answer, stays=True)
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "mgw.cli.main", "tail", "--url", gateway.url],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    os.close(read)
    _, said = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, said) == (0, b"")


@pytest.mark.parametrize(
    ("answer", "environ", "said"),
    [
        (refusal(401), {}, "requires a key: put one of dashboard.keys"),
        (refusal(401), {"MGW_KEY": KEY}, "rejects this key"),
        (refusal(401, "it has expired", "invalid_token"), {"MGW_KEY": KEY}, "this token: it has expired"),
        (refusal(404), {}, "has no dashboard"),
        (refusal(403, "not from \\u001b here"), {}, "responds with status 403: not from ? here"),
        (refusal(400, "kinds: no"), {}, "responds with status 400: kinds: no"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", {}, "it is not an mgw gateway"),
        (b"SSH-2.0-x\r\n\r\n", {}, "does not speak HTTP: it is not an mgw gateway"),
    ],
    ids=["no key", "wrong key", "wrong token", "none", "forbidden", "kinds", "a page", "no HTTP"],
)
def test_what_cannot_work_is_a_sentence(answer: bytes, environ: dict[str, str], said: str) -> None:
    status, stdout, stderr = ran("--url", ScriptedGateway(answer).url, **environ)
    assert (status, stdout) == (1, "")
    assert said in stderr
    assert stderr.startswith("mgw tail: ")
    assert (stderr.count("\n"), KEY in stderr) == (1, False)


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        (("--url", "http://user:canary@127.0.0.1"), {}, "--url: no user, password, query or fragment"),
        (("--url", "ftp://127.0.0.1"), {}, "--url: expected an address"),
        (("--url", "http://127.0.0.1:99999"), {}, "--url is not an address"),
        (("http://127.0.0.1:1", "--url", "http://127.0.0.1:2"), {}, "two addresses: name only one"),
        (("mgw.yaml",), {}, "expected the gateway's address, not a file: mgw tail http://127.0.0.1:8787"),
        (("--url", "http://127.0.0.1/a\r\nb: c"), {}, "--url"),
        (("--key-env", "MGW_NO_SUCH"), {}, "the environment variable MGW_NO_SUCH is not set"),
        (("--key-env", "MGW_ODD"), {"MGW_ODD": "canary\r\nx: y"}, "cannot be a key"),
    ],
    ids=["user", "scheme", "port", "two", "file", "line end", "unset", "odd key"],
)
def test_a_wrong_option_is_a_sentence(arguments: tuple[str, ...], environ: dict[str, str], said: str) -> None:
    status, stdout, stderr = ran(*arguments, **environ)
    assert (status, stdout) == (2, "")
    assert said in stderr
    assert "canary" not in stderr
    assert stderr.count("\n") == 1


def test_an_unknown_kind_is_a_wrong_call() -> None:
    status, stdout, stderr = ran("--kinds", "usage,logs")
    assert (status, stdout) == (2, "")
    assert "unknown kind 'logs'; expected one or more of usage, log, health, session" in stderr


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_a_gateway_that_is_down_is_waited_for_until_ctrl_c() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with tailing("--url", url) as tail:
        tail.stderr.wait_for(lambda data: b"\n" in data, WAIT_SECONDS, "a word of that")
        tail.process.send_signal(signal.SIGINT)
        assert tail.end() == (
            0,
            "",
            f"mgw tail: waiting for {url} (cannot connect: Connection refused); press Ctrl-C to stop\n",
        )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(refusal(503, "busy"), "status 503: busy"), (b"", "no response: Remote end closed connection")],
    ids=["busy", "nothing"],
)
def test_one_that_is_not_ready_is_waited_for_in_one_line(answer: bytes, reason: str) -> None:
    gateway = ScriptedGateway(answer, answer, STREAM + usage(1), stays=True)
    with tailing("--url", gateway.url) as tail:
        tail.stdout.wait_for(lambda data: b"\n" in data, WAIT_SECONDS, "an event")
        tail.stderr.wait_for(lambda data: data.count(b"\n") == 2, WAIT_SECONDS, "two lines")
        first, second = tail.stderr.data.decode().splitlines()
    assert first.startswith(f"mgw tail: waiting for {gateway.url} ({reason}")
    assert ("if the gateway uses TLS, write https://" in first) is (answer == b"")
    assert second == f"mgw tail: connected to {gateway.url}"


def test_a_server_that_speaks_no_tls_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with tailing("--url", url) as tail:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                status, _, said = tail.end()
    assert status == 1
    assert said == f"mgw tail: {url}: cannot connect: the server does not use TLS: write http://\n"


def test_a_server_that_only_speaks_tls_is_asked_for_by_https() -> None:
    alert = b"\x15\x03\x01\x00\x02\x02\x46"  # RFC 8446 6: a record of type 21
    status, _, said = ran("--url", ScriptedGateway(alert).url)
    assert status == 1
    assert "uses TLS: write https://" in said


def test_a_person_sees_that_it_is_connected_before_the_first_event() -> None:
    gateway = ScriptedGateway(STREAM + usage(1), stays=True)
    said: list[str] = []
    source = EventSource(urlsplit(gateway.url), {}, "usage", said.append, greets=True)
    assert next(source.events(lambda: None))[0] == "usage"
    assert said == [f"connected to {gateway.url}; waiting for events"]


def test_an_address_is_an_argument_or_an_option_and_may_lack_its_scheme() -> None:
    gateway = ScriptedGateway(STREAM + usage(1), STREAM + usage(1), stays=True)
    for words in ((gateway.url.removeprefix("http://"),), ("--url", gateway.url.removeprefix("http://"))):
        with tailing(*words) as tail:
            tail.stdout.wait_for(lambda data: b"\n" in data, WAIT_SECONDS, "an event")


def test_help_comes_without_twisted() -> None:
    code = (
        "import sys; from mgw.cli.main import main\ntry: main(['tail', '--help'])\nexcept SystemExit: pass\n"
    )
    code += "sys.exit('twisted' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0
    assert b"--key-env" in done.stdout


@pytest.mark.parametrize(
    "data",
    [b"no JSON", b"[" * 100_000, b'{"latency_ms":1%b}' % (b"0" * 400), b'{"latency_ms":1%b}' % (b"0" * 5000)],
    ids=["words", "deep", "a large number", "a number without end"],
)
def test_what_is_no_event_ends_it_with_a_sentence(data: bytes) -> None:
    gateway = ScriptedGateway(STREAM + OPENING + b"event: usage\ndata: %b\n\n" % data, stays=True)
    status, printed, said = ran("--url", gateway.url)
    assert (status, printed) == (1, "")
    assert said == "mgw tail: received something that is not an event: it is not an mgw gateway\n"


def test_an_event_without_end_is_given_up() -> None:
    line = b"data: " + b"x" * 500_000 + b"\n"
    gateway = ScriptedGateway(STREAM + OPENING + line * 20, stays=True)
    status, _, said = ran("--url", gateway.url)
    assert (status, said) == (1, f"mgw tail: {gateway.url} sends an event of more than 8388608 bytes\n")


def test_a_redirection_is_not_followed_and_the_key_goes_nowhere_else() -> None:
    other = ScriptedGateway(STREAM + OPENING)
    gateway = ScriptedGateway(
        b"HTTP/1.1 307 X\r\nLocation: %b/v1/dashboard/events\r\nContent-Length: 0\r\n\r\n"
        % other.url.encode()
    )
    status, printed, said = ran("--url", gateway.url, MGW_KEY=KEY)
    assert (status, printed) == (1, "")
    assert said == f"mgw tail: {gateway.url} responds with status 307\n"
    assert other.heads == []
