"""Play a case of :mod:`tests.support.drawn_cases`, and compare what everybody saw in different circumstances.

All requests with a provider take one way, and nothing that anybody sees may depend on how they came or what
is remembered of others: :data:`CIRCUMSTANCES` are compared with a gateway that remembers nothing.

``python -m tests.support.case_player 300000`` plays as many cases, every other one with retries and
fallbacks; the second argument is the first seed.  It shows the cases that differ, and ends with their number.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from random import Random
from tempfile import mkdtemp
from typing import Final

from msgspec import Struct
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.bodies.budget import BodyBudget
from mgw.bodies.source import PIECE_BYTES
from mgw.bodies.spool import Spool
from mgw.clients.client import ClientRegistry
from mgw.clients.local_counts import LocalCounts
from mgw.config.settings import Config
from mgw.credentials import credentials_of
from mgw.dialects.models import Models
from mgw.generation import Generation
from mgw.memo.request_memo import RequestMemo
from mgw.routing.catalog import Catalog
from mgw.routing.match import RouteTable
from mgw.routing.resolve import Resolver
from mgw.routing.routes import ROUTES
from mgw.routing.table import families_of
from mgw.web.edge_auth import EdgeGate
from mgw.web.listener import ChannelFactory
from mgw.web.request_ids import RequestIds
from mgw.web.server import WebServer
from tests.support.channels import LIMITS, channel_of
from tests.support.configs import config
from tests.support.drawn_cases import RETRYING, TEXT, Case, Observed, draw_case
from tests.support.token_endpoints import TokenHosts
from tests.support.upstreams import MemoryEndpoint, ProviderConnection, upstream_to
from tests.support.web_servers import RecordingObserver, at_once, monitoring_of, operations_of

_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n", re.IGNORECASE).search
_NO_COMMON_FRAMING: Final = re.compile(rb"HEAD |HTTP/1\.0").search
_CLOSES: Final = b"\r\nConnection: close\r\n"
_STEP: Final = 0.05
"""Seconds between two pieces: a provider's connection may be used again."""
_WAITS: Final = (1.0, 30.0, 61.0, 300.0, 400.0)
_SHOWN_EVERY: Final = 10_000
_FOLDER: Final = mkdtemp()


class Circumstances(Struct, frozen=True):
    """What a request meets, none of which anybody may see."""

    name: str
    remembers: bool = True
    """Whether the gateway remembers anything of earlier requests."""
    cut: int | None = None
    """The seed with which all that comes at once is cut; what comes in pieces is read, not recognized."""
    is_stored: bool = False
    """Whether bodies that may wait on disk all do."""


FORGETFUL: Final = Circumstances("nothing remembered", remembers=False)
CIRCUMSTANCES: Final = (
    Circumstances("remembered"),
    Circumstances("in pieces", cut=1),
    Circumstances("in other pieces, on disk", cut=2, is_stored=True),
)


@lru_cache
def _parts(text: str) -> tuple[Config, Resolver, RouteTable, Catalog]:
    settings = config(text)
    resolver = Resolver(settings)
    table = RouteTable(ROUTES, settings.routes.deny, families_of(settings))
    return settings, resolver, table, Catalog(settings, resolver, 0)


class _Stage:
    """A server, its client and its provider, for one case."""

    def __init__(self, circumstances: Circumstances, text: str) -> None:
        settings, resolver, table, catalog = _parts(text)
        self._chance = None if circumstances.cut is None else Random(circumstances.cut)
        self.clock = clock = Clock()
        self.endpoint = MemoryEndpoint()
        self.observer = RecordingObserver()
        providers = settings.providers
        self.token_hosts = TokenHosts(clock)
        self.generation = Generation(
            1,
            settings,
            table,
            resolver,
            catalog,
            {
                name: credentials_of(provider, self.token_hosts.sources)
                for name, provider in providers.items()
            },
            {name: upstream_to(provider, self.endpoint, clock) for name, provider in providers.items()},
            Models(),
            memo=RequestMemo(is_on=circumstances.remembers),
        )
        self.generation.chance = lambda: 0.5
        number = iter(range(1, 1000))
        self.server = WebServer(
            generation=self.generation,
            app=monitoring_of(lambda: self.server, operations_of(lambda: self.server, clock)),
            clock=clock,
            wall=clock.seconds,
            observer=self.observer,
            budget=BodyBudget(settings.spool.body_memory),
            spool=Spool(
                *(_FOLDER, at_once, BodyBudget(2**32, place="on disk"), clock),
                piece_bytes=16 if circumstances.is_stored else PIECE_BYTES,
            ),
            gate=EdgeGate(settings.edge_auth),
            registry=ClientRegistry(LocalCounts(clock.seconds)),
            request_ids=RequestIds(lambda size: next(number).to_bytes(2, "big") * (size // 2)),
        )
        self.factory = ChannelFactory(self.server, clock, LIMITS)
        self._answered: dict[int, int] = {}
        self._responses = 0
        self.observed = Observed()

    def play(self, case: Case) -> Observed:
        for pieces in case.rounds:
            self._connect()
            for piece in pieces:
                if self._is_over():
                    self._leave()
                    self._connect()
                for part in self._cut(piece):
                    self.channel.dataReceived(part)
                self._respond(case)
                self._advance(_STEP)
                self._respond(case)
            if not case.leaves:
                for seconds in _WAITS:
                    self._advance(seconds)
                    self._respond(case)
            self._leave()
            self._advance(1.0)
        observed, observer = self.observed, self.observer
        observed.provider = [(one.received, one.closing) for one in self.endpoint.connections]
        observed.events, observed.lines = (
            observer.events,
            [*zip(observer.lines, observer.errors, strict=True)],
        )
        observed.counts = (
            observer.rejections,
            observer.broken,
            self.server.in_flight,
            self.generation.in_use,
            self.server.budget.held,
            sum(upstream.active for upstream in self.generation.upstreams.values()),
        )
        return observed

    def _cut(self, piece: bytes) -> list[bytes]:
        chance = self._chance
        if chance is None:
            return [piece]
        edges = [0, *sorted(chance.randrange(len(piece)) for _ in range(3)), len(piece)]
        return [piece[start:end] for start, end in pairwise(edges) if start < end]

    def _connect(self) -> None:
        self.transport = StringTransport()
        self.channel = channel_of(self.factory)
        self.channel.makeConnection(self.transport)  # type: ignore[no-untyped-call]  # Twisted's

    def _is_over(self) -> bool:
        """Whether the gateway has closed the connection, or has said that the client is to close it."""
        transport = self.transport
        return bool(transport.disconnecting or transport.disconnected or _CLOSES in transport.value())

    def _leave(self) -> None:
        transport, is_over = self.transport, self._is_over()
        self.channel.connectionLost(Failure(ConnectionDone()))
        data = bytes(transport.value())
        self.observed.client.append((data, is_over, bool(transport.disconnected)))

    def _advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.endpoint.settle()

    def _respond(self, case: Case) -> None:
        """Have the provider respond to every request that is complete."""
        found = True
        while found:
            found = False
            for index, connection in enumerate(self.endpoint.connections):
                if not connection.over and self._has_request(index, connection):
                    found = True
                    response = case.responses[min(self._responses, len(case.responses) - 1)]
                    self._responses += 1
                    for piece in response.pieces:
                        if not connection.closing:
                            connection.send(piece)
                    if response.end != "stay":
                        (connection.close if response.end == "close" else connection.reset)()

    def _has_request(self, index: int, connection: ProviderConnection) -> bool:
        data, start = connection.received, self._answered.get(index, 0)
        end = data.find(b"\r\n\r\n", start)
        if end < 0:
            return False
        length = _LENGTH(data, start, end + 2)
        stop = end + 4 + (0 if length is None else int(length[1]))
        if len(data) < stop:
            return False
        self._answered[index] = stop
        return True


@implementer(ILogObserver)
@dataclass
class _FailureLog:
    """Keeps the failures that are logged."""

    tracebacks: list[str] = field(default_factory=list)

    def __call__(self, event: LogEvent) -> None:
        if "log_failure" in event:
            self.tracebacks.append(event["log_failure"].getTraceback())


def _behind_chunks(data: bytes) -> bytes:
    """Return what comes behind a chunked body; nothing where that is cut."""
    while data:
        line, _, data = data.partition(b"\r\n")
        size = int(line, 16)
        data = data[size + 2 :]
        if not size:
            return data
    return b""


def is_framed(data: bytes) -> bool:
    """Whether bytes to a client are complete responses, of which the last one may be cut."""
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        length = _LENGTH(head + b"\r\n")
        if not end or status < 200 or status in (204, 304):
            continue
        if length is not None:
            data = data[int(length[1]) :]
        elif b"\r\ntransfer-encoding: chunked" in head.lower():
            data = _behind_chunks(data)
        else:
            return False
    return True


def play(case: Case, circumstances: Circumstances) -> Observed:
    """Play a case; nothing may stay behind, and no failure be logged."""
    failures = _FailureLog()
    globalLogPublisher.addObserver(failures)
    try:
        observed = _Stage(circumstances, case.text).play(case)
    finally:
        globalLogPublisher.removeObserver(failures)
    assert not failures.tracebacks, failures.tracebacks[0]
    assert observed.counts[2:] == (0, 0, 0, 0), observed.counts
    if not _NO_COMMON_FRAMING(b"".join(piece for pieces in case.rounds for piece in pieces)):
        for data, closed, _ in observed.client:
            assert closed or is_framed(data), data
    return observed


def differences(case: Case) -> list[str]:
    """Play a case in all circumstances, and say what differs."""
    expected = play(case, FORGETFUL)
    has_malformed = expected.counts[1] > 0  # what is wrong with it is said by the first piece that shows it
    return [
        line
        for one in CIRCUMSTANCES
        if one.cut is None or not has_malformed
        for line in _differences(one.name, play(case, one), expected)
    ]


def _differences(name: str, found: Observed, expected: Observed) -> list[str]:
    return [
        f"{what}:\n  {name} {ours!r}\n  {FORGETFUL.name} {theirs!r}"
        for what in Observed.__slots__
        if (ours := getattr(found, what)) != (theirs := getattr(expected, what))
    ]


def main(count: int, first: int) -> int:
    """Play cases, and return how many differ."""
    found = 0
    for done, seed in enumerate(range(first, first + count), 1):
        case = draw_case(Random(seed), RETRYING if seed % 2 else TEXT)
        try:
            said = differences(case)
        except Exception as error:
            said = [f"{type(error).__name__}: {error}"]
        if said:
            found += 1
            _show(f"seed {seed}: {case}", *said)
        if done % _SHOWN_EVERY == 0 or done == count:
            _show(f"{done} cases, {found} differ")
    return found


def _show(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, count, *first = sys.argv
    sys.exit(main(int(count), int(first[0]) if first else 0) > 0)
