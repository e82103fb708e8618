"""The open sessions of a gateway: their limit, and how all of them are closed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import time
from typing import Final, Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.clients.limits import NOTHING, ONE_REQUEST, Counts, LimitReached, Limits, Permit, limits_of
from mgw.clients.local_counts import LocalCounts
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import Offload
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.single_flight import SingleFlight
from mgw.usage.event import NO_SESSION, SessionCounts
from mgw.usage.labels import ExchangeLabels

RETRY_SECONDS = 1.0
SESSIONS: Final = "realtime/sessions"
"""The holder of the limit on sessions, as counts know it; no client can have this name."""


class SessionFacts(Struct, frozen=True):
    """What a session knows of itself at some moment."""

    request_id: str
    began: float
    """Unix seconds at which the head of the request was read."""
    labels: ExchangeLabels
    """What its usage event would state about the route, the target and the client."""
    counts: SessionCounts
    """The frames and bytes so far; all fields are unknown before the first frame is relayed."""


def facts_of(exchange: Exchange, counts: SessionCounts | None) -> SessionFacts:
    """Return what is known of a session by now.

    :param counts: ``None`` before frames are relayed.
    """
    memo, target = exchange.generation.memo, exchange.target
    labels = memo.labels_for(exchange.route, target, exchange.asked_model, exchange.key_hash, exchange.client)
    return SessionFacts(exchange.request_id, exchange.wall, labels, counts or NO_SESSION)


class OpenSession(Protocol):
    """A session that has a slot."""

    def shut_down(self) -> None:
        """End: the gateway stops."""
        ...

    def facts(self) -> SessionFacts:
        """Return what is known of it now."""
        ...


def _ignore(session: OpenSession, *, is_open: bool) -> None:
    """Nobody wants to know."""


class SessionObserver(Protocol):
    """Hears of sessions."""

    def __call__(self, session: OpenSession, *, is_open: bool) -> None:
        """A session got its slot, or gives it back; never raises."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class Sessions:
    """Every session that has a slot, from before its provider is dialled to its end."""

    max_sessions: int
    """The configured limit, for all processes that share the counts."""
    observer: SessionObserver = _ignore
    counts: Counts = field(default_factory=lambda: LocalCounts(time))
    """Counts the slots that are taken."""
    _limits: Limits = ()
    _open: dict[int, tuple[OpenSession, Permit]] = field(default_factory=dict)
    _is_prepared: bool = False
    _preparing: SingleFlight[None] = field(default_factory=SingleFlight)

    def __post_init__(self) -> None:
        self.use(self.max_sessions)

    def use(self, max_sessions: int) -> None:
        """Have at most so many sessions from now on; those that are open stay."""
        self.max_sessions = max_sessions
        self._limits = limits_of(SESSIONS, {"max_sessions": max_sessions})
        self.counts.use(SESSIONS, self._limits)

    @property
    def count(self) -> int:
        """How many slots are taken by sessions of this process."""
        return len(self._open)

    def __iter__(self) -> Iterator[OpenSession]:
        """Return those that have a slot, of which the oldest comes first."""
        return iter([session for session, _ in self._open.values()])

    async def prepare(self, offload: Offload) -> None:
        """Import what the first session needs, once for all who come meanwhile.

        It takes a tenth of a second and 9 MiB, which only those have to pay who have sessions.
        """
        if not self._is_prepared:
            await self._preparing.run("import", lambda: self._prepare(offload))

    async def _prepare(self, offload: Offload) -> None:
        await offload(_import_autobahn)
        self._is_prepared = True

    def take_slot(self, session: OpenSession) -> Deferred[None] | None:
        """Give a session a slot.

        :returns: where that has to be awaited, what fires when it has one.  Cancel it to have none.
        :raises GatewayError: ``TOO_MANY_SESSIONS``; what is returned may fail with it as well.
        """
        found = self.counts.begin(self._limits, ONE_REQUEST)
        if isinstance(found, Permit | LimitReached):
            self._give_slot(session, found)
            return None
        assert isinstance(found, Deferred), "counts of other processes answer with one"
        return self._await_slot(session, found)

    def _await_slot(self, session: OpenSession, asked: Deferred[Permit | LimitReached]) -> Deferred[None]:
        given: Deferred[None] = Deferred()

        def on_answer(found: Permit | LimitReached) -> None:
            if given.called:  # cancelled
                if isinstance(found, Permit):
                    _ = self.counts.end(found, NOTHING)
                return
            try:
                self._give_slot(session, found)
            except GatewayError as error:
                given.errback(error)
            else:
                given.callback(None)

        def on_failure(failure: Failure) -> None:
            given.errback(failure)

        _ = asked.addCallbacks(on_answer, on_failure)
        return given

    def _give_slot(self, session: OpenSession, found: Permit | LimitReached) -> None:
        if isinstance(found, LimitReached):
            message = f"all {self.max_sessions} realtime sessions are in use; try again"
            raise GatewayError(Reason.TOO_MANY_SESSIONS, message, retry_after=RETRY_SECONDS)
        self._open[id(session)] = session, found
        self.observer(session, is_open=True)

    def free_slot(self, session: OpenSession) -> None:
        """Take the slot back; nothing happens where it has none."""
        _, permit = self._open.pop(id(session), (None, None))
        if permit is not None:
            _ = self.counts.end(permit, ONE_REQUEST)
            self.observer(session, is_open=False)


def _import_autobahn() -> None:
    import mgw.realtime.dial  # noqa: F401  in a thread
