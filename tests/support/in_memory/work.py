"""The work of one row: requests, refusals, chunks, frames or sessions; only sending them is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tests.support.in_memory.cases import (
    AnyCase,
    Case,
    FrameCase,
    FreshCase,
    RefusedCase,
    SessionCase,
    StreamCase,
)
from tests.support.in_memory.gateway import MemoryGateway
from tests.support.in_memory.reactor import MemoryConnection
from tests.support.in_memory.sessions import OpenSession, close_session, open_session

TURN_SECONDS = 0.1
"""The time that passes in a turn: whatever is written down later is written then."""
IDLE_SECONDS = 60.0
"""The time after which no connection is idle any more."""
SETTLE_SECONDS = 0.05
"""The time that passes between two requests, so that a provider's connection is used again."""


class WrongAnswerError(Exception):
    """The gateway did not do what is measured."""


class Work(Protocol):
    """Requests, or chunks, of one row."""

    def prepare(self, count: int) -> None:
        """Make what the next run sends."""

    def run(self) -> None:
        """Send it and have it answered; only this is measured."""

    def check(self) -> None:
        """Look at what came of it.

        :raises WrongAnswerError: something else than what the row says.
        """


@dataclass(slots=True)
class Requests:
    """Whole requests, one after another on one connection."""

    gateway: MemoryGateway
    case: Case
    _batch: list[bytes] = field(default_factory=list)
    _number: int = 0
    _client: MemoryConnection = field(init=False)

    def __post_init__(self) -> None:
        self._client = self.gateway.client
        self.gateway.reactor.turn(SETTLE_SECONDS)
        self.prepare(1)
        self._client.receive(self._batch[0])  # with the first the provider's connection is made
        self.gateway.provider(self.case.wire).receive(self.case.answer)
        self.check()
        self.gateway.reactor.turn(TURN_SECONDS)

    def prepare(self, count: int) -> None:
        """Make the next requests."""
        first = self._number
        self._batch = [self.case.request(first + index) for index in range(count)]
        self._number += count

    def run(self) -> None:
        """Send and answer them."""
        receive, answer, reactor = self._client.receive, self.case.answer, self.gateway.reactor
        provider = self.gateway.provider(self.case.wire).receive
        for request in self._batch:
            receive(request)
            provider(answer)
            reactor.now += SETTLE_SECONDS
        reactor.turn(TURN_SECONDS)

    def check(self) -> None:
        """Count the answers."""
        said = self._client.take()
        found = said.count(b"HTTP/1.1 200 ")
        if found != len(self._batch) or said.count(b"HTTP/1.1 ") != found:
            raise WrongAnswerError(f"{self.case.name}: {found} of {len(self._batch)} answers: {said[:500]!r}")
        self.gateway.provider(self.case.wire).take()


@dataclass(slots=True)
class Refusals:
    """Requests that are refused, each on a connection that stands already, since a refusal ends it."""

    gateway: MemoryGateway
    case: RefusedCase
    _clients: list[MemoryConnection] = field(default_factory=list)

    def prepare(self, count: int) -> None:
        """Connect."""
        self._clients = [self.gateway.connect() for _ in range(count)]

    def run(self) -> None:
        """Send them."""
        request = self.case.request
        for client in self._clients:
            client.receive(request)
        self.gateway.reactor.turn(TURN_SECONDS)

    def check(self) -> None:
        """Look at each answer, and disconnect."""
        for client in self._clients:
            said = client.take()
            if not said.startswith(b"HTTP/1.1 %d " % self.case.status):
                raise WrongAnswerError(f"{self.case.name}: {said[:500]!r}")
            client.close()
        self._clients = []


@dataclass(slots=True)
class FreshConnections:
    """Requests of clients that connect for each, and leave behind the answer.

    No time passes between them, so that no connection of the provider's is used again.
    """

    gateway: MemoryGateway
    case: FreshCase
    _count: int = 0
    _answers: list[bytes] = field(default_factory=list)

    def prepare(self, count: int) -> None:
        """Note how many are asked for, and close the provider's connections of before."""
        self._count = count
        self._answers = []
        self.gateway.reactor.turn(IDLE_SECONDS)

    def run(self) -> None:
        """Send and answer them."""
        gateway, case = self.gateway, self.case
        for _ in range(self._count):
            client = gateway.connect()
            client.receive(case.request)
            provider = gateway.provider(case.wire)
            for piece in case.answer:
                provider.receive(piece)
            self._answers.append(client.take())
            client.close()
        gateway.reactor.turn(TURN_SECONDS)

    def check(self) -> None:
        """Look at each answer."""
        for said in self._answers:
            if not said.startswith(b"HTTP/1.1 200 "):
                raise WrongAnswerError(f"{self.case.name}: {said[:500]!r}")


@dataclass(slots=True)
class Chunks:
    """Chunks of one stream that stays open."""

    gateway: MemoryGateway
    case: StreamCase
    _count: int = 0
    _client: MemoryConnection = field(init=False)
    _provider: MemoryConnection = field(init=False)

    def __post_init__(self) -> None:
        self._client = self.gateway.connect()
        self.gateway.reactor.turn(SETTLE_SECONDS)
        self._client.receive(self.case.request)
        self._provider = self.gateway.provider(self.case.wire)
        self._provider.receive(self.case.opening)
        said = self._client.take()
        if not said.startswith(b"HTTP/1.1 200 "):
            raise WrongAnswerError(f"{self.case.name}: {said[:500]!r}")

    def prepare(self, count: int) -> None:
        """Note how many are asked for."""
        self._count = count

    def run(self) -> None:
        """Send them."""
        receive, chunk = self._provider.receive, self.case.chunk
        for _ in range(self._count):
            receive(chunk)
        self.gateway.reactor.turn(TURN_SECONDS)

    def check(self) -> None:
        """Count what was written."""
        found = len(self._client.written)
        if found != self._count or not self._client.take():
            raise WrongAnswerError(f"{self.case.name}: {found} of {self._count} chunks")

    def finish(self) -> None:
        """End the stream in order."""
        self._provider.receive(self.case.ending)
        said = self._client.take()
        self._client.close()
        if not said.endswith(b"0\r\n\r\n"):
            raise WrongAnswerError(f"{self.case.name}: the stream does not end: {said[-500:]!r}")


@dataclass(slots=True)
class Frames:
    """Frames of one session that stays open, by either side in turn."""

    gateway: MemoryGateway
    case: FrameCase
    _count: int = 0
    _session: OpenSession = field(init=False)

    def __post_init__(self) -> None:
        self._session = open_session(self.gateway, self.case.request)

    def prepare(self, count: int) -> None:
        """Note how many are asked for; one way and back is two."""
        self._count = count

    def run(self) -> None:
        """Send them."""
        by_client, by_provider = self._session.client.receive, self._session.provider.receive
        pairs = list(zip(self.case.by_client, self.case.by_provider, strict=True))
        for number in range(self._count // 2):
            there, back = pairs[number % len(pairs)]
            by_client(there)
            by_provider(back)
        self.gateway.reactor.turn(TURN_SECONDS)

    def check(self) -> None:
        """Count what was written."""
        session = self._session
        found = len(session.client.written) + len(session.provider.written)
        if found != self._count // 2 * 2 or not session.client.take() or not session.provider.take():
            raise WrongAnswerError(f"{self.case.name}: {found} of {self._count} frames")

    def finish(self) -> None:
        """Close the session."""
        close_session(self.gateway, self._session)


@dataclass(slots=True)
class Sessions:
    """Sessions, one after another, each on connections of its own."""

    gateway: MemoryGateway
    case: SessionCase
    _count: int = 0
    _closed: int = 0

    def __post_init__(self) -> None:
        close_session(self.gateway, open_session(self.gateway, self.case.request))

    def prepare(self, count: int) -> None:
        """Note how many are asked for."""
        self._count, self._closed = count, 0

    def run(self) -> None:
        """Open each, send a frame either way, and close it."""
        for _ in range(self._count):
            session = open_session(self.gateway, self.case.request)
            session.client.receive(self.case.by_client)
            session.provider.receive(self.case.by_provider)
            self._closed += close_session(self.gateway, session)

    def check(self) -> None:
        """Count those that had all of it."""
        if self._closed != self._count:
            raise WrongAnswerError(f"{self.case.name}: {self._closed} of {self._count} sessions")


@contextmanager
def work_of(case: AnyCase, gateway: MemoryGateway) -> Iterator[Work]:
    """Have the work of one row ready to run; a stream is ended behind it."""
    if isinstance(case, Case):
        yield Requests(gateway, case)
    elif isinstance(case, RefusedCase):
        yield Refusals(gateway, case)
    elif isinstance(case, FreshCase):
        own = MemoryGateway()  # whose provider the other rows do not share: they go on with its connections
        yield FreshConnections(own, case)
        own.close()
    elif isinstance(case, SessionCase):
        yield Sessions(gateway, case)
    elif isinstance(case, FrameCase):
        frames = Frames(gateway, case)
        yield frames
        frames.finish()
    else:
        chunks = Chunks(gateway, case)
        yield chunks
        chunks.finish()
