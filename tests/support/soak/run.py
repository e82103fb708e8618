"""The run: the processes, the slices, and the account of what the events say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from random import Random
from threading import RLock, Thread
from typing import IO

from msgspec import Struct
from msgspec.json import Decoder

from bench.machines import ROOT, cpu_seconds
from bench.processes import Server, environment, serving_gateway
from tests.support.soak.client import Findings, Seen, run_client
from tests.support.soak.exchanges import LIMITED_MODELS, MARK, PROBES, Exchange, drawn
from tests.support.soak.watch import Sample, Watch, percentile, summary

RELOAD_SECONDS = 2.0
WINDOW_SECONDS = 300.0
"""The warm-up of a run by time, and each of the parts that are compared."""
TURN_SECONDS = 0.05
SETTLE_SECONDS = 20.0
"""How long the last events of a slice may take."""
SPARE_FILES = 200
"""How many more files a quiet gateway may hold open than after its first slice: pools keep connections."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run."""

    exchanges: int
    slice: int
    clients: int
    seed: int
    minutes: float | None = None
    """For how long, whatever number of exchanges that is; slices are then counted in seconds."""
    slice_seconds: float = 30.0
    reload_seconds: float = RELOAD_SECONDS


class Event(Struct):
    """What is looked at in a usage event."""

    status: str
    http_status: int
    model: str | None = None
    request_id: str = ""


@dataclass
class Account:
    """Which events are still to come, and what those that came say."""

    findings: Findings
    awaited: dict[int, Exchange] = field(default_factory=dict)
    unnamed: Counter[str] = field(default_factory=Counter)
    """How many events without a model are awaited, by outcome."""
    events: int = 0
    vague: dict[int, Exchange] = field(default_factory=dict)
    """Those among the awaited events without a model that may have one after all."""
    probes: int = 0
    """How many of them are the probe's."""

    def begin(self, exchange: Exchange) -> None:
        """Await the event of an exchange."""
        if not exchange.expected.outcomes:
            return
        if exchange.named:
            self.awaited[exchange.number] = exchange
        elif exchange.expected.vague:
            self.unnamed["rejected"] += 1
            self.vague[exchange.number] = exchange
        else:
            self.unnamed["rejected"] += 1

    def take(self, event: Event) -> None:
        """Strike an event off the account."""
        self.events += 1
        found = MARK.search((event.model or "").encode())
        if found is None:
            self.unnamed[event.status] -= 1
            return
        if int(found[1]) > PROBES:
            self.probes += 1
            return
        exchange = self.awaited.pop(int(found[1]), None)
        if exchange is None and (exchange := self.vague.pop(int(found[1]), None)) is not None:
            self.unnamed["rejected"] -= 1
        if exchange is None:
            self.findings.note(
                drawn(int(found[1]), Random(0)), "an event of an exchange that has one already"
            )
            return
        expected = exchange.expected
        if event.status not in expected.outcomes or event.http_status not in expected.http_statuses:
            self.findings.note(exchange, f"an event that says {event.status} {event.http_status}")

    @property
    def settled(self) -> bool:
        """Whether no event is awaited."""
        return not self.awaited and not any(self.unnamed.values())


class Soak:
    """One run."""

    def __init__(self, wanted: Wanted, folder: Path) -> None:
        self.wanted = wanted
        self.folder = folder
        self.findings = Findings()
        self.account = Account(self.findings)
        self._lock = RLock()
        """Held to change the account, the findings and the number of what is left."""
        self._random = Random(wanted.seed)
        self._number = 0
        self._left = 0
        self._reloads = 0
        self._first_files = 0
        self._told: set[str] = set()

    def run(self) -> bool:
        """Run all slices; say whether nothing was wrong."""
        limited = json.dumps(LIMITED_MODELS)
        os.mkfifo(self.folder / "usage.jsonl")
        with self._provider() as port:
            with serving_gateway(self.folder, CONFIG, upstream_port=str(port), limited=limited) as gateway:
                self._drive(gateway)
            status = gateway.process.returncode
        self._search_logs()
        if status:
            self.findings.say(f"the gateway ended with {status}")
        self._report()
        return not self.findings.counts

    @contextmanager
    def _provider(self) -> Iterator[int]:
        """Serve the provider, note what it complains about, and take the events that the gateway writes."""
        events = os.fdopen(os.open(self.folder / "usage.jsonl", os.O_RDWR), "rb")
        with subprocess.Popen(
            [sys.executable, "-m", "tests.support.soak.upstream"],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as provider:
            assert provider.stdout is not None
            port = int(provider.stdout.readline())
            for pipe, take in ((provider.stdout, self._note_problem), (events, self._take_event)):
                Thread(target=self._read, args=(pipe, take), daemon=True).start()
            try:
                yield port
            finally:
                provider.terminate()

    def _read(self, pipe: IO[bytes], take: Callable[[bytes], None]) -> None:
        for line in pipe:
            with self._lock:
                take(line)

    def _note_problem(self, line: bytes) -> None:
        self.findings.say(f"at the provider: {line.decode().strip()}")

    def _take_event(self, line: bytes) -> None:
        self.account.take(_EVENT.decode(line))

    def _drive(self, gateway: Server) -> None:
        watch = Watch(gateway.pid, gateway.port)
        if self.wanted.minutes is not None:
            watch.start()
        start = time.monotonic()
        while self._has_more(time.monotonic() - start) and gateway.process.poll() is None:
            began, cpu, first = time.monotonic(), cpu_seconds(gateway.pid), self._number
            self._left = min(self.wanted.slice, self.wanted.exchanges - self._number)
            self._run_slice(gateway)
            done = max(self._number - first, 1)
            seconds, used = time.monotonic() - began, cpu_seconds(gateway.pid) - cpu
            sample = watch.sample(time.monotonic() - start)
            self._first_files = self._first_files or sample.files
            if sample.files > self._first_files + SPARE_FILES:
                self.findings.say(f"{sample.files} open files")
            print(
                f"{self._number:>9,} exchanges {done / seconds:6,.0f}/s {used / done * 1e6:4.0f} us of CPU  "
                f"{self.account.events:>9,} events  {self._reloads:>4} reloads  "
                f"{sample.memory / 2**20:5.0f} MiB  {sample.files:>4} files  {self._probed(sample)}"
                f"{sum(self.findings.counts.values())} problems",
                flush=True,
            )
            self._tell()
            self._search_logs()
        if self.wanted.minutes is not None:
            self._end_watch(watch)

    def _has_more(self, seconds: float) -> bool:
        if self.wanted.minutes is not None:
            return seconds < self.wanted.minutes * 60
        return self._number < self.wanted.exchanges

    def _probed(self, sample: Sample) -> str:
        """Return what a line says of the probe's times, and of the CPU beside them."""
        if self.wanted.minutes is None:
            return ""
        p50, p99 = (percentile(list(sample.times), percent) / 1000 for percent in (50, 99))
        return f"{sample.cpu_share:4.0%} of a core  probe p50 {p50:.1f} ms p99 {p99:.1f} ms  "

    def _end_watch(self, watch: Watch) -> None:
        """Have the probe's events counted, and compare the end with the beginning."""
        watch.stop()
        until = time.monotonic() + SETTLE_SECONDS
        while self.account.probes < watch.answered and time.monotonic() < until:
            time.sleep(TURN_SECONDS)
        if watch.failed:
            self.findings.say(f"{watch.failed} probes failed")
        if self.account.probes != watch.answered + watch.failed:
            self.findings.say(f"{self.account.probes} events of {watch.answered} answered probes")
        compared = summary(watch.samples, WINDOW_SECONDS)
        if compared is not None:
            print(compared.text())

    def _run_slice(self, gateway: Server) -> None:
        clients = [
            Thread(target=self._run_client, args=(gateway.port,), daemon=True)
            for _ in range(self.wanted.clients)
        ]
        for client in clients:
            client.start()
        reload_at = time.monotonic() + self.wanted.reload_seconds
        end_at = inf if self.wanted.minutes is None else time.monotonic() + self.wanted.slice_seconds
        while any(client.is_alive() for client in clients):
            time.sleep(TURN_SECONDS)
            now = time.monotonic()
            if now >= reload_at and self._left:
                gateway.process.send_signal(signal.SIGHUP)
                self._reloads += 1
                reload_at = now + self.wanted.reload_seconds
            if now >= end_at:
                self._left = 0
        until = time.monotonic() + SETTLE_SECONDS
        while not self._is_settled() and time.monotonic() < until and gateway.process.poll() is None:
            time.sleep(TURN_SECONDS)
        with self._lock:
            self._note_missing()

    def _is_settled(self) -> bool:
        with self._lock:
            return self.account.settled

    def _run_client(self, port: int) -> None:
        try:
            run_client(port, self._next, self._saw)
        except (OSError, ValueError) as error:
            with self._lock:
                self.findings.say(f"a client ended: {type(error).__name__}: {error}")

    def _next(self) -> Exchange | None:
        """Draw the next exchange, and await its event."""
        with self._lock:
            if self._left <= 0:
                return None
            self._left -= 1
            self._number += 1
            exchange = drawn(self._number, self._random)
            self.account.begin(exchange)
            return exchange

    def _saw(self, seen: Seen) -> None:
        problem = seen.problem()
        if problem is not None:
            with self._lock:
                self.findings.note(seen.exchange, problem)

    def _note_missing(self) -> None:
        for exchange in self.account.awaited.values():
            self.findings.note(exchange, "no event")
        self.account.awaited.clear()
        for outcome, count in self.account.unnamed.items():
            if count:
                self.findings.say(f"{count} events without a model too few: {outcome}")
        self.account.unnamed.clear()
        self.account.vague.clear()

    def _search_logs(self) -> None:
        """Look for tracebacks and keys, then empty the log: it grows with every request."""
        text = b"".join((self.folder / name).read_bytes() for name in ("mgw.log", "gateway.out"))
        if b"Traceback" in text:
            at = text.find(b"Traceback")
            said = text[max(0, at - 200) : at + 1500].decode(errors="replace")
            self.findings.say(f"a traceback in the log:\n{said}")
        for key in (b"soak-edge-key", b"soak-limited-key", b"soak-provider-key"):
            if key in text:
                self.findings.say("a key in the log")
        os.truncate(self.folder / "mgw.log", 0)

    def _tell(self) -> None:
        """Say which kinds of problems there were, the first time that each is met."""
        for kind in set(self.findings.counts) - self._told:
            self._told.add(kind)
            print(f"          first of its kind: {self.findings.examples[kind]}", flush=True)

    def _report(self) -> None:
        for kind, count in self.findings.counts.items():
            print(f"{count:>7,} times: {kind}")
        lost, problems = self.findings.counts.get("no event", 0), sum(self.findings.counts.values())
        print(
            f"{self._number:,} exchanges, {self.account.events:,} events, {lost} lost, "
            f"{self._reloads} reloads, seed {self.wanted.seed}: {problems or 'no'} problems"
        )


_EVENT = Decoder(Event)
_KINDS = {"o": "openai", "c": "openai_compat", "a": "anthropic", "g": "gemini"}
_PROVIDERS = "".join(
    f"  {prefix}{name}: {{kind: {kind}, api_key: soak-provider-key, {retries}"
    f'base_url: "http://127.0.0.1:$upstream_port/v1{"beta" if name == "g" else ""}"}}\n'
    for prefix, retries in (("", ""), ("r", "retries: {attempts: 1}, "))
    for name, kind in _KINDS.items()
)
CONFIG = f"""\
listen: 127.0.0.1:$port
providers:
{_PROVIDERS}
edge_auth:
  enabled: true
  keys: [{{name: anybody, key: soak-edge-key}}, {{name: limited, key: soak-limited-key, models: $limited}}]
hooks: {{jsonl: {{output: "$temp/usage.jsonl"}}}}
stream_keepalive: {{interval: 15}}
observe_dropped_fields: true
"""
