"""How a gateway with several workers begins and ends: in order, cut short, or killed; nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.support.fork_server import PIPES, Streams
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask, start_twistd, twistd, write_config
from tests.support.raw_client import CHAT, Incoming, RawClient, asking, chat, chunk, request
from tests.support.raw_upstream import STREAM_HEAD, RawUpstream, Turn
from tests.support.supervised import Workers, alive
from tests.support.waiting import WAIT_SECONDS, wait_until

FIRST: Final = b'data: {"choices":[{"delta":{"content":"first"}}]}\n\n'
LAST: Final = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\ndata: [DONE]\n\n'


def configuration(upstream: RawUpstream, spool: Path, more: str = "") -> str:
    return f"""
workers: 2
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
drain_seconds: 300
spool: {{dir: {spool}}}
{more}
"""


@dataclass
class Streaming:
    """A gateway each of whose workers is in the middle of a stream, which goes on when a test says so."""

    gateway: GatewayProcess
    processes: list[int]
    clients: list[RawClient]
    go_on: threading.Event
    spool: Path

    def drain(self) -> None:
        """Ask it to stop, and wait until both workers drain."""
        self.gateway.signal(signal.SIGTERM)
        for slot in (0, 1):
            self.gateway.log(b"[worker %d] draining 1 requests" % slot)

    def finish(self) -> None:
        """Let the streams end."""
        self.go_on.set()
        for client in self.clients:
            rest = client.incoming.until(b"0\r\n\r\n")
            assert rest is not None
            assert LAST in rest
            client.socket.close()

    def is_gone(self) -> bool:
        """Whether nothing is left of it but what it has written."""
        return not any(alive(pid) for pid in self.processes)

    def sockets_left(self) -> list[Path]:
        """What is left of the sockets between its processes."""
        return list(self.spool.glob("mgw-hub-*"))

    def outcomes(self) -> Counter[tuple[str, int]]:
        """Return the outcomes of its events, once it has ended."""
        events = [json.loads(line) for line in self.gateway.stdout.whole(WAIT_SECONDS).splitlines()]
        return Counter((event["status"], event["http_status"]) for event in events)


@pytest.fixture
def spool() -> Iterator[Path]:
    """A directory whose name is short enough for sockets."""
    with TemporaryDirectory(prefix="mgw-test-") as folder:
        yield Path(folder)


@pytest.fixture
def streaming(upstream: RawUpstream, spool: Path) -> Iterator[Streaming]:
    with start_streams(upstream, spool) as started:
        yield started


@contextmanager
def start_streams(upstream: RawUpstream, spool: Path) -> Iterator[Streaming]:
    go_on = threading.Event()

    def held(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD, chunk(FIRST))
        assert go_on.wait(WAIT_SECONDS)
        turn.send(chunk(LAST), chunk(b""))

    upstream.begin(held)
    with start_gateway(configuration(upstream, spool)) as gateway, ExitStack() as stack:
        stack.callback(go_on.set)
        workers = Workers(gateway)
        processes = workers.processes()
        assert len(processes) == 4
        clients = [stack.enter_context(workers.connect(slot)) for slot in (0, 1)]
        for client in clients:
            client.send(chat("gpt-held", stream=True))
            assert client.incoming.until(FIRST) is not None
        yield Streaming(gateway, processes, clients, go_on, spool)


def test_what_is_under_way_ends_well_and_new_work_is_refused(streaming: Streaming) -> None:
    port = streaming.gateway.port
    assert len(streaming.sockets_left()) == 1
    streaming.drain()
    ready = ask(port, "/readyz")
    assert (ready.status, ready.json()) == (503, {"status": "draining"})
    assert ask(port, "/healthz").status == 200
    refused = ask(port, CHAT, body=asking("gpt-1"))
    assert (refused.status, refused.json()["error"]["code"]) == (503, "draining")
    assert streaming.gateway.metric('mgw_workers{state="draining"}') == 2
    streaming.finish()
    assert streaming.gateway.process.wait(WAIT_SECONDS) == 0
    assert streaming.is_gone()
    assert streaming.sockets_left() == []
    assert streaming.outcomes() == {("ok", 200): 2, ("rejected", 503): 1}


def test_a_second_signal_ends_the_drain_of_all_workers(streaming: Streaming) -> None:
    streaming.drain()
    streaming.gateway.signal(signal.SIGTERM)
    for client in streaming.clients:
        assert b"0\r\n\r\n" not in client.incoming.rest()
    assert streaming.gateway.process.wait(WAIT_SECONDS) == 0
    assert streaming.is_gone()
    assert streaming.outcomes() == {("rejected", 200): 2}


def test_workers_end_by_themselves_where_the_process_that_has_them_is_killed(
    streaming: Streaming, upstream: RawUpstream
) -> None:
    streaming.gateway.process.kill()
    streaming.gateway.process.wait(WAIT_SECONDS)
    for slot in (0, 1):
        streaming.gateway.log(b"the supervisor has exited: stopping worker %d" % slot)
    streaming.finish()
    wait_until(streaming.is_gone, "the end of all processes")
    with socket.create_server(("127.0.0.1", streaming.gateway.port)):
        pass
    assert len(streaming.sockets_left()) == 1
    with start_gateway(configuration(upstream, streaming.spool)):
        (left,) = streaming.sockets_left()
        assert left.name.split("-")[2] != str(streaming.processes[0])  # the next start has cleared up
    assert streaming.sockets_left() == []


def test_a_gateway_that_can_fork_no_more_stops_so_that_it_is_started_anew(streaming: Streaming) -> None:
    (fork_server,) = [pid for pid in streaming.processes if name_of(pid) == "mgw-fork"]
    os.kill(fork_server, signal.SIGKILL)
    streaming.gateway.log(b"workers can no longer be replaced: stopping the service")
    streaming.finish()
    assert streaming.gateway.process.wait(WAIT_SECONDS) == 1
    assert streaming.is_gone()
    assert streaming.outcomes() == {("ok", 200): 2}


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def start_with_rows(
    arguments: Sequence[str], folder: Path, environ: Mapping[str, str], streams: Streams = PIPES
) -> subprocess.Popen[bytes]:
    """Start a program that has ``rows.yaml`` open already."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" 9<rows.yaml', "sh", sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        stdin=streams.stdin,
        stdout=streams.stdout,
        stderr=streams.stderr,
    )


def test_a_worker_that_cannot_begin_is_told_in_one_readable_line(
    upstream: RawUpstream, tmp_path: Path, spool: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.symlink_to("/proc/self/fd/9")  # which workers do not have
    (tmp_path / "rows.yaml").write_text("rows: []\n")
    text = configuration(upstream, spool, f"prices: {{file: {prices}}}")
    file = str(write_config(tmp_path, text))
    done = twistd("mgw", "-c", file, folder=tmp_path, start=start_with_rows)
    assert done.status == 1
    assert f"failed to start: prices.file: {prices} cannot be read: not a regular file" in done.stderr
    assert "mgw serves" not in done.stderr
    assert "Traceback" not in done.stderr
    assert list(spool.iterdir()) == []


def test_workers_serve_a_unix_socket(upstream: RawUpstream, tmp_path: Path) -> None:
    upstream.begin()
    path = tmp_path / "mgw.sock"
    file = write_config(tmp_path, configuration(upstream, tmp_path, f"listen: 'unix:{path}'"))
    with start_twistd("mgw", "-c", str(file), folder=tmp_path) as daemon:
        assert daemon.stderr is not None
        serves = f"mgw serves unix:{path}\n".encode()
        daemon.stderr.wait_for(lambda data: serves in data, WAIT_SECONDS, "the gateway to serve")
        for _ in range(4):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(WAIT_SECONDS)
                connection.connect(str(path))
                connection.sendall(request(asking("gpt-1"), b"Content-Type: application/json", path=CHAT))
                head = Incoming(connection).head()
            assert head is not None
            assert head[0].startswith(b"HTTP/1.1 200 ")
        daemon.process.terminate()
        assert daemon.process.wait(WAIT_SECONDS) == 0
    assert not path.exists()
    assert b"Traceback" not in daemon.stderr.data
