"""Put the sinks of usage events to the test: ``python -m bench.sinks [--events N] [--seed N] [--cost]``.

Events are left behind by the hundred thousand, while the receiver of the webhook and of the spans fails,
hangs, is killed and comes back, the database is locked now and then, and the gateway is stopped and killed.
At the end each event that was answered is looked for in the lines, in the table and at the receiver, and what
is missing is compared with what may be: the last interval before each kill.  A process that gets no
processor time writes nothing, and its intervals become longer: what counts is a run on a machine that has
nothing else to do.  ``--only`` ends the gateway in one way alone.

``--cost`` measures something else: the processor time for a relayed request, of the reactor's thread and of
all threads, with no sink, with each and with all of them, in turns.  It shows medians, and how much more that
is than in the rounds without a sink that ran beside them; and the fastest rounds, which had the least of what
else the machine did.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.machines import ROOT, resident_bytes

INTERVAL = 2.0
"""Seconds before a kill from which events may be lost: the longest interval, and what a busy machine adds."""
SETTLE_SECONDS = 120.0
ROUND = 1600
"""Requests of a round of ``--cost``."""
CLIENTS = 16
_SPANS = "spans"
"""Stands for the key of a batch, which spans have not."""

_HOOKS = {
    "jsonl": "{{output: {folder}/usage.jsonl, rotate_bytes: 10000000}}",
    "sqlite": "{{path: {folder}/usage.db}}",
    "otlp": '{{endpoint: "http://127.0.0.1:{receiver}", headers: {{Authorization: bench-otlp-token}}}}',
    "webhook": '{{url: "http://127.0.0.1:{receiver}/", secret: bench-webhook-secret, timeout_seconds: 3}}',
}
_VARIANTS = {
    "no sink": (),
    "jsonl": ("jsonl",),
    "sqlite": ("sqlite",),
    "webhook": ("webhook",),
    "otlp": ("otlp",),
    "all": tuple(_HOOKS),
}
_CONFIG = """\
listen: 127.0.0.1:0
providers:
  main: {{kind: openai, base_url: "http://127.0.0.1:{upstream}/v1", api_key: bench-provider-key}}
defaults: {{openai_dialect: main}}
spool: {{dir: {folder}/spool}}
"""


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.sinks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("kills", "stops"), help="end the gateway in this way alone")
    parser.add_argument("--rounds", type=int, default=15, help="of --cost")
    parser.add_argument("--cost", action="store_true", help="measure the reactor's thread instead")
    parser.add_argument("--receiver", nargs=3, metavar=("PORT", "FILE", "SEED"), help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.receiver:
        _receive(int(said.receiver[0]), Path(said.receiver[1]), Random(int(said.receiver[2])))
        return
    with TemporaryDirectory(prefix="mgw-sinks-") as folder:
        if said.cost:
            _measure_cost(Path(folder), said.rounds)
        else:
            raise SystemExit(0 if _Run(Path(folder), said.events, Random(said.seed), said.only).run() else 1)


# The receiver, a process of its own.


def _receive(port: int, file: Path, random: Random) -> None:
    """Write the keys and ids of accepted batches to a file, and fail as receivers do, at random."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_webhook = self.path == "/"
            read = _ids_of_events if is_webhook else _ids_of_spans
            fate = random.random() if random_failures else 1.0
            if fate < 0.003:
                time.sleep(5)  # longer than the gateway waits
            failure = 500 if is_webhook else 503  # with 500 a collector would refuse the spans for good
            status = failure if fate < 0.02 else 302 if fate < 0.025 else 200
            if status == 200 and self.path != "/v1/metrics":
                key = self.headers["Idempotency-Key"] if is_webhook else _SPANS
                with file.open("a") as out:
                    out.write(json.dumps([key, read(body)]) + "\n")
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    random_failures = file.name != "cost"
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever(0.05)


def _ids_of_events(body: bytes) -> list[str]:
    """The ids of the requests whose events were posted."""
    return [event["request_id"] for event in json.loads(body)]


def _ids_of_spans(body: bytes) -> list[str]:
    """The same of spans."""
    request = ExportTraceServiceRequest.FromString(body)
    spans = (span for part in request.resource_spans for scope in part.scope_spans for span in scope.spans)
    pairs = (pair for span in spans for pair in span.attributes)
    return [pair.value.string_value for pair in pairs if pair.key == "mgw.request_id"]


@dataclass
class _Receiver:
    """Its process, which is killed and started at the same port."""

    file: Path
    port: int = 0
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.starts += 1
        arguments = ["--receiver", str(self.port), str(self.file), str(self.starts)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.sinks", *arguments],
            cwd=ROOT,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def batches(self) -> Iterator[tuple[str, list[str]]]:
        for line in self.file.read_text().splitlines():
            with suppress(ValueError):  # torn by a kill
                key, ids = json.loads(line)
                yield key, ids


# The gateway.


@dataclass
class _Gateway:
    process: subprocess.Popen[bytes]
    port: int

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(60)


def _start_gateway(folder: Path, config: str) -> _Gateway:
    file, log = folder / "mgw.yaml", folder / "mgw.log"
    file.write_text(config)
    before = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "mgw.cli.main", "run", "-c", str(file)],
            cwd=folder,
            env=_environment(),
            stderr=out,
        )
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        _, found, rest = log.read_bytes()[before:].partition(b"mgw serves http://127.0.0.1:")
        if found and b"\n" in rest:
            return _Gateway(process, int(rest.split()[0]))
        time.sleep(0.02)
    raise RuntimeError(f"the gateway did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _hooks(folder: Path, receiver: int, wanted: tuple[str, ...]) -> str:
    lines = [f"  {name}: {_HOOKS[name].format(folder=folder, receiver=receiver)}\n" for name in wanted]
    return "".join(["hooks:\n", *lines])


def _request(body: bytes) -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer bench-client-key\r\n"
    return head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _read_responses(connection: socket.socket, held: bytearray, count: int) -> Iterator[bytes]:
    """Yield the heads of so many responses, and take their bodies."""
    for _ in range(count):
        while (end := held.find(b"\r\n\r\n")) < 0:
            data = connection.recv(65536)
            if not data:
                return
            held += data
        head = bytes(held[: end + 2]).lower()
        length = int(head.partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0])
        while len(held) < end + 4 + length:
            data = connection.recv(65536)
            if not data:
                return
            held += data
        del held[: end + 4 + length]
        yield head


# Nothing is lost.


@dataclass
class _Run:
    """One run: what was answered and when, and what the sinks have."""

    folder: Path
    events: int
    random: Random
    only: str | None
    """``kills`` or ``stops`` of the gateway, where one of them is to be looked at alone."""
    answered: dict[str, float] = field(default_factory=dict)
    """By id, when the answer came."""
    kills: list[tuple[float, float]] = field(default_factory=list)
    """When each came, and when all that was answered before it had been read."""
    stops: list[float] = field(default_factory=list)
    """When each was asked for."""
    locks: int = 0
    peak: int = 0
    """Bytes of memory."""

    def run(self) -> bool:
        """Leave events behind until there are enough, and say what became of them."""
        receiver = _Receiver(self.folder / "received")
        receiver.file.touch()
        receiver.start()
        config = _CONFIG.format(folder=self.folder, upstream=9)
        config += _hooks(self.folder, receiver.port, tuple(_HOOKS))
        began = time.monotonic()
        gateway = _start_gateway(self.folder, config)
        try:
            while len(self.answered) < self.events:
                self._leave(gateway, receiver)
                self.peak = max(self.peak, resident_bytes(gateway.process.pid))
                if self.random.random() < 0.15 and self.only != "stops":
                    moment = time.monotonic()
                    self.kills.append((moment, moment))
                    gateway.end(signal.SIGKILL)
                    gateway = _start_gateway(self.folder, config)
                elif self.random.random() < 0.15 and self.only != "kills":
                    self.stops.append(time.monotonic())
                    gateway.end()
                    gateway = _start_gateway(self.folder, config)
            print(f"{len(self.answered):,} events in {time.monotonic() - began:.0f} s", flush=True)
            self._settle()
        finally:
            gateway.end()
            receiver.kill()
        return self._report(receiver)

    def _leave(self, gateway: _Gateway, receiver: _Receiver) -> None:
        """Leave some thousand events behind, and disturb something meanwhile."""
        workers = [Thread(target=self._client, args=(gateway.port, 1000)) for _ in range(4)]
        for worker in workers:
            worker.start()
        fate = self.random.random()
        if fate < 0.4:
            receiver.kill()
            time.sleep(self.random.random())
            receiver.start()
        elif fate < 0.6:
            self._lock(self.random.random() * 2)
        killed = self.random.random() < 0.3 and self.only != "stops"  # in the midst of it
        moment = time.monotonic()
        if killed:
            gateway.process.kill()
            gateway.process.wait()
        for worker in workers:
            worker.join()
        if killed:
            self.kills.append((moment, time.monotonic()))
        if gateway.process.poll() is not None:
            fresh = _start_gateway(self.folder, (self.folder / "mgw.yaml").read_text())
            gateway.process, gateway.port = fresh.process, fresh.port

    def _client(self, port: int, count: int) -> None:
        request = _request(b'{"model":"nobody/nothing","messages":[]}')
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 30) as connection:
            held = bytearray()
            for _ in range(count // 20):
                connection.sendall(request * 20)
                for head in _read_responses(connection, held, 20):
                    found = head.partition(b"\r\nx-gateway-request-id:")[2].split(b"\r\n")[0]
                    self.answered[found.strip().decode()] = time.monotonic()

    def _lock(self, seconds: float) -> None:
        if not (self.folder / "usage.db").exists():
            return
        self.locks += 1
        with closing(sqlite3.connect(self.folder / "usage.db", isolation_level=None, timeout=30)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            other.execute("ROLLBACK")

    def _settle(self) -> None:
        """Wait until nothing is left on disk."""
        until = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < until and any((self.folder / "spool").rglob("*.jsonl")):
            time.sleep(0.5)

    def _report(self, receiver: _Receiver) -> bool:
        posts = list(receiver.batches())
        batches = [(key, ids) for key, ids in posts if key != _SPANS]
        received = [one for _, ids in batches for one in ids]
        spans = [one for key, ids in posts if key == _SPANS for one in ids]
        with closing(sqlite3.connect(self.folder / "usage.db")) as connection:
            stored = [row[0] for row in connection.execute("SELECT request_id FROM usage_events")]
            sound = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        written: list[str] = []
        for file in self.folder.glob("usage.jsonl*"):
            for line in file.read_bytes().splitlines():
                with suppress(ValueError):  # torn by a kill
                    written.append(json.loads(line)["request_id"])
        print(
            f"{len(self.kills)} kills, {len(self.stops)} stops, {receiver.starts - 1} kills of the receiver, "
            f"{self.locks} locks of the database, at most {self.peak / 2**20:.0f} MiB of memory"
        )
        fine = sound
        for name, ids in (("jsonl", written), ("sqlite", stored), ("webhook", received), ("otlp", spans)):
            fine = self._account(name, ids) and fine
        keys: dict[str, list[str]] = {}
        mixed = sum(keys.setdefault(key, ids) != ids for key, ids in batches)
        log = (self.folder / "mgw.log").read_bytes()
        secrets = (b"bench-webhook-secret", b"bench-otlp-token", b"bench-provider-key", b"bench-client-key")
        for what in (*secrets, b"Traceback"):
            if what in log:
                print(f"{what.decode()} is in the log")
                fine = False
        print(f"{mixed} keys that name two batches; the database is {'sound' if sound else 'DAMAGED'}")
        return fine and not mixed

    def _account(self, name: str, ids: list[str]) -> bool:
        """Say what a sink has; whether nothing is missing that no kill can have taken."""
        found = set(ids)
        missing = [moment for one, moment in self.answered.items() if one not in found]
        lost = sum(
            not any(begin - INTERVAL < moment <= end for begin, end in self.kills) for moment in missing
        )
        oldest = max((self._seconds_before_kill(moment) for moment in missing), default=0.0)
        print(
            f"{name:8} {len(found & self.answered.keys()):>9,} of {len(self.answered):,} events, "
            f"{len(ids) - len(found):>6,} twice, {len(missing) - lost:>5,} taken by kills, "
            f"the oldest {oldest:.2f} s before, {lost} LOST"
        )
        return not lost

    def _seconds_before_kill(self, moment: float) -> float:
        """From an answer to the next kill: what a kill took is the less, the sooner it was written."""
        begin = next((begin for begin, end in self.kills if moment <= end), moment)
        return max(0.0, begin - moment)


# What it costs.


def _measure_cost(folder: Path, rounds: int) -> None:
    receiver = _Receiver(folder / "cost")
    receiver.file.touch()
    receiver.start()
    gateways: dict[str, _Gateway] = {}
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in _VARIANTS}
    random = Random(1)
    try:
        with _upstream() as upstream:
            for name, wanted in _VARIANTS.items():
                place = folder / name.replace(" ", "-")
                place.mkdir()
                config = _CONFIG.format(folder=place, upstream=upstream)
                gateways[name] = _start_gateway(place, config + _hooks(place, receiver.port, wanted))
                _round(gateways[name])  # warms up
            for _ in range(rounds):
                for name in random.sample(list(gateways), len(gateways)):
                    costs[name].append(_round(gateways[name]))
    finally:
        for gateway in gateways.values():
            gateway.end()
        receiver.kill()
    print("processor time for a relayed request and its event, the median of all rounds (and the fastest)")
    for name, found in costs.items():
        shown = [
            _compare(column, none)
            for column, none in zip(_columns(found), _columns(costs["no sink"]), strict=True)
        ]
        print(f"{name:10} the reactor's thread {shown[0]}    all threads {shown[1]}")


def _columns(found: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [one for one, _ in found], [both for _, both in found]


def _compare(found: list[float], none: list[float]) -> str:
    """The costs of some rounds, beside those of the rounds without a sink."""
    more = median(seconds - least for seconds, least in zip(found, none, strict=True))
    return (
        f"{median(found) * 1e6:6.1f} us {more / median(none):+6.1%} "
        f"({min(found) * 1e6:6.1f} us {min(found) / min(none) - 1:+6.1%})"
    )


@contextmanager
def _upstream() -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.soak.upstream"],
        cwd=ROOT,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(10)


def _round(gateway: _Gateway) -> tuple[float, float]:
    """Return the processor time of the main thread, and of all, for each request of a round and its event."""
    request = _request(b'{"model":"m1.ok","messages":[{"role":"user","content":"hi"}]}')
    connections = [socket.create_connection(("127.0.0.1", gateway.port), 30) for _ in range(CLIENTS)]
    held = [bytearray() for _ in connections]
    before = _seconds_of(gateway.process.pid)
    for _ in range(ROUND // CLIENTS):
        for connection in connections:
            connection.sendall(request)
        for connection, data in zip(connections, held, strict=True):
            for head in _read_responses(connection, data, 1):
                if not head.startswith(b"http/1.1 200"):
                    raise RuntimeError(head.decode())
    time.sleep(1.3)  # the last events are written and sent
    after = _seconds_of(gateway.process.pid)
    for connection in connections:
        connection.close()
    requests = ROUND // CLIENTS * CLIENTS
    return (after[0] - before[0]) / requests, (after[1] - before[1]) / requests


def _seconds_of(pid: int) -> tuple[float, float]:
    """Processor time of the main thread of a process, and of all its threads."""
    threads = {
        path.parent.name: int(path.read_text().split()[0]) / 1e9
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
    }
    return threads[str(pid)], sum(threads.values())


if __name__ == "__main__":
    main()
