"""Keys of issuers shared by all processes: the supervisor fetches them, and workers have what it tells.

::

    supervisor                                    worker
      fetched ─────────── document, age ────────► parses it, then knows it
      logs the change ◄─────────────── done ─────
      fetched, unchanged ────────── age ────────► knows that the keys are still good
                         ◄──────── question ───── a token names an unknown key
      fetches ──── document, age, answer ───────► looks again

What a worker is told before it begins is parsed at once: its first request must find the keys.  It knows all
that the supervisor knows, also what its own configuration does not use: while a reload is under way, it may
have to go back to the one before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.clients.tokens.key_set import KeySet, parse_key_set
from mgw.config.jwt import JwtSettings
from mgw.identity.issuers import KnownKeys
from mgw.identity.key_feed import FetchingFeed
from mgw.identity.key_refresh import WAIT_SECONDS, Waiters
from mgw.identity.key_source import KeySource
from mgw.reactor.daemon_threads import SerialRunner
from mgw.workers.channel import ChannelError, RequestSender
from mgw.workers.messages import (
    ChannelMessage,
    Failed,
    IssuerKeysAnswer,
    IssuerKeysChanged,
    IssuerKeysQuestion,
)

AT_ONCE_BYTES: Final = 16 * 1024
"""A larger document is parsed in a thread; others take a few milliseconds."""
_log: Final = Logger()


def _ignore(_: KeySource) -> None:
    pass


@dataclass(slots=True, eq=False, repr=False)
class SupervisorKeys:
    """The keys as the supervisor tells them: the feed of a worker.

    :param monotonic: seconds on a clock that nobody sets.
    :param threads: parse documents.
    """

    clock: IReactorTime
    monotonic: Callable[[], float]
    channel: RequestSender
    threads: SerialRunner
    _on_keys: Callable[[KeySource], None] = _ignore
    _sources: dict[str, KeySource] = field(default_factory=dict)
    """The sources of the configuration, by their digests."""
    _known: dict[str, KnownKeys] = field(default_factory=dict)
    """All that the supervisor knows, by the digests of sources."""
    _queue: deque[tuple[float, IssuerKeysChanged]] = field(default_factory=deque)
    """What was told and is not known yet, with the time at which it came; the first is being parsed."""
    _taken: list[Deferred[None]] = field(default_factory=list)
    """They fire when nothing is left in the queue."""
    _asking: dict[str, Waiters] = field(default_factory=dict)
    _asking_first: dict[str, Waiters] = field(default_factory=dict)
    _had_first: set[str] = field(default_factory=set)
    """The sources whose first fetch is done, as the supervisor has answered, or takes long."""
    _asked_again: dict[str, float] = field(default_factory=dict)
    """From when on it makes sense to ask for a source again."""
    _is_running: bool = False
    _is_stopped: bool = False

    def listen(self, on_keys: Callable[[KeySource], None]) -> None:
        """Say whom to tell."""
        self._on_keys = on_keys

    def begin(self) -> None:
        """Parse large documents in a thread from now on: requests are served."""
        self._is_running = True

    def use(self, entries: Mapping[KeySource, JwtSettings]) -> None:
        """Know which sources the configuration has."""
        self._sources = {source.digest: source for source in entries}
        for digest in self._asked_again.keys() - self._sources.keys():
            del self._asked_again[digest]
        self._had_first &= self._sources.keys()
        for digest in self._asking_first.keys() - self._sources.keys():
            self._release_first(digest)

    def known(self, source: KeySource) -> KnownKeys | None:
        """Return what is known."""
        return self._known.get(source.digest)

    def hurry(self, source: KeySource) -> None:
        """The supervisor sees to that."""

    def stop(self) -> None:
        """Ask no more; whoever waits goes on."""
        self._is_stopped = True
        for waiters in (*self._asking.values(), *self._asking_first.values()):
            waiters.release_all()
        self.threads.stop()

    def take(self, message: IssuerKeysChanged) -> Deferred[None]:
        """Know what the supervisor tells, after all that it told before; fires when it is known."""
        self._queue.append((self.monotonic(), message))
        if len(self._queue) == 1:
            self._take_next()
        return self._all_known()

    def ask(self, source: KeySource) -> Deferred[None] | None:
        """Have the supervisor fetch the keys of a source; see :meth:`IssuerKeys.ask`."""
        if self._is_stopped:
            return None
        digest = source.digest
        waiters = self._asking.get(digest)
        if waiters is not None:
            return waiters.wait()
        if self.monotonic() < self._asked_again.get(digest, 0.0):
            return None
        waiters = self._asking[digest] = Waiters(self.clock)
        waiter = waiters.wait()
        question = IssuerKeysQuestion(digest)
        _ = Deferred.fromCoroutine(self._ask(question)).addBoth(self._on_answer, digest)
        return waiter

    def first(self, source: KeySource) -> Deferred[None] | None:
        """Wait for the supervisor if it fetches the keys of a source for the first time."""
        digest = source.digest
        if self._is_stopped or digest in self._known or digest in self._had_first:
            return None
        waiters = self._asking_first.get(digest)
        if waiters:  # there may be some whom all have left
            return waiters.wait()
        waiters = self._asking_first[digest] = Waiters(self.clock)
        waiter = waiters.wait()
        question = IssuerKeysQuestion(digest, first=True)
        _ = Deferred.fromCoroutine(self._ask(question)).addBoth(self._on_first, digest)
        return waiter

    async def _ask(self, question: IssuerKeysQuestion) -> float | None:
        """Return after how long it makes sense to ask again, when all is known that was told before that.

        ``None``: the supervisor has not answered, or does not use the source yet.
        """
        try:
            answer = await self.channel.ask(question, WAIT_SECONDS)
        except ChannelError:
            return None
        await self._all_known()
        return answer.seconds if isinstance(answer, IssuerKeysAnswer) else None

    def _on_answer(self, found: float | Failure | None, digest: str) -> None:
        self._asked_again[digest] = self.monotonic() + (_seconds_in(found) or 0.0)
        self._asking.pop(digest).release_all()

    def _on_first(self, found: float | Failure | None, digest: str) -> None:
        if _seconds_in(found) is None:
            return  # workers reload before the supervisor does: what it fetches then may be worth the wait
        self._had_first.add(digest)
        self._release_first(digest)

    def _release_first(self, digest: str) -> None:
        waiters = self._asking_first.pop(digest, None)
        if waiters is not None:
            waiters.release_all()

    def _all_known(self) -> Deferred[None]:
        """Return what fires when nothing is left in the queue."""
        if not self._queue:
            return succeed(None)
        taken: Deferred[None] = Deferred()
        self._taken.append(taken)
        return taken

    def _take_next(self) -> None:
        """Take the first of the queue; what need not be parsed is known at once."""
        while self._queue:
            _, message = self._queue[0]
            if message.document is None:
                self._know(None)
            elif self._is_running and len(message.document) > AT_ONCE_BYTES:
                self._parse(message.document)
                return
            else:
                self._know(_parsed(message.document))
        taken, self._taken = self._taken, []
        for waiter in taken:
            waiter.callback(None)

    def _parse(self, document: bytes) -> None:
        work = partial(_parsed, document)
        try:
            self.threads.run(work, self._on_parsed)
        except OSError:  # no thread could be started
            self.clock.callLater(0, self._on_parsed, work())

    def _on_parsed(self, keys: KeySet | Exception | None) -> None:
        if isinstance(keys, Exception):
            _log.failure("internal error: the keys of an issuer could not be parsed", Failure(keys))
            keys = None
        self._know(keys)
        self._take_next()

    def _know(self, keys: KeySet | None) -> None:
        """Know what the first of the queue says.

        :param keys: those in its document, if it has one that can be used.
        """
        came_at, message = self._queue.popleft()
        digest, known = message.source, self._known.get(message.source)
        if message.age is None:
            self._known.pop(digest, None)
        elif keys is not None:
            self._known[digest] = KnownKeys(keys, came_at - message.age)
        elif known is not None:
            self._known[digest] = KnownKeys(known.keys, came_at - message.age)
        source = self._sources.get(digest)
        if source is not None:
            try:
                self._on_keys(source)
            except Exception:  # a bug in whoever is told must not end what follows
                _log.failure("internal error: the keys of an issuer were not taken over")
        if digest in self._known:
            self._release_first(digest)


def _seconds_in(found: float | Failure | None) -> float | None:
    """Return what the supervisor has answered."""
    if isinstance(found, Failure):
        _log.failure("internal error: the supervisor could not be asked for keys", found)
        return None
    return found


def _parsed(document: bytes) -> KeySet | None:
    """Parse what the supervisor has parsed; it does not tell what cannot be."""
    try:
        return parse_key_set(document)
    except ValueError:
        return None


def answer_issuer_question(question: IssuerKeysQuestion, feed: FetchingFeed) -> Deferred[ChannelMessage]:
    """Fire when the keys that a worker asks for have been fetched, and told to all workers.

    :param feed: of the supervisor's process.
    """
    source = feed.find(question.source)
    if source is None:
        return succeed(Failed("the current configuration has no such issuer"))
    asked = feed.first(source) if question.first else feed.ask(source)
    answer: Deferred[Any] = asked or succeed(None)  # Any: becomes a message
    return answer.addCallback(lambda _: IssuerKeysAnswer(feed.seconds_to_ask(source)))
