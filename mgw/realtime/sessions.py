"""The open sessions of one gateway: how many there may be, and how all of them are ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from mgw.errors import GatewayError, Reason
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import Offload
from mgw.reactor.single_flight import SingleFlight
from mgw.usage.record import NO_SESSION, ExchangeLabels, SessionCounts, labels_for

RETRY_SECONDS = 1.0


class SessionFacts(Struct, frozen=True):
    """What a session knows of itself at some moment."""

    request_id: str
    began: float
    """Unix seconds, of the request's head."""
    labels: ExchangeLabels
    """What its usage event would say of the route, the target and the client."""
    counts: SessionCounts
    """What has passed; nothing is known before frames are relayed."""


def facts_of(exchange: Exchange, counts: SessionCounts | None) -> SessionFacts:
    """Return what is known of a session by now.

    :param counts: ``None`` before frames are relayed.
    """
    target = exchange.target
    provider, model = (None, None) if target is None else (target.provider.name, target.upstream_model)
    client = None if exchange.client is None else exchange.client.name
    labels = labels_for(exchange.route, provider, exchange.asked_model, model, exchange.key_hash, client)
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


@dataclass(slots=True)
class Sessions:
    """Every session that has a slot, from before its provider is dialled to its end."""

    max_sessions: int
    observer: SessionObserver = _ignore
    _open: dict[int, OpenSession] = field(default_factory=dict)
    _is_prepared: bool = False
    _preparing: SingleFlight[None] = field(default_factory=SingleFlight)

    @property
    def count(self) -> int:
        """How many slots are taken."""
        return len(self._open)

    def __iter__(self) -> Iterator[OpenSession]:
        """Return those that have a slot, of which the oldest comes first."""
        return iter(list(self._open.values()))

    async def prepare(self, offload: Offload) -> None:
        """Import what the first session needs, once for all who come meanwhile.

        It takes a tenth of a second and 9 MiB, which only those have to pay who have sessions.
        """
        if not self._is_prepared:
            await self._preparing.run("import", lambda: self._prepare(offload))

    async def _prepare(self, offload: Offload) -> None:
        await offload(_import_autobahn)
        self._is_prepared = True

    def take_slot(self, session: OpenSession) -> None:
        """Give a session a slot.

        :raises GatewayError: ``TOO_MANY_SESSIONS``.
        """
        if len(self._open) >= self.max_sessions:
            message = f"all {self.max_sessions} realtime sessions of the gateway are in use; try again"
            raise GatewayError(Reason.TOO_MANY_SESSIONS, message, retry_after=RETRY_SECONDS)
        self._open[id(session)] = session
        self.observer(session, is_open=True)

    def free_slot(self, session: OpenSession) -> None:
        """Take the slot back; nothing happens where it has none."""
        if self._open.pop(id(session), None) is not None:
            self.observer(session, is_open=False)


def _import_autobahn() -> None:
    import mgw.realtime.dial  # noqa: F401  in a thread
