"""The open sessions of one gateway: how many there may be, and how all of them are ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from mgw.errors import GatewayError, Reason
from mgw.exchange.offload import Offload
from mgw.reactor.single_flight import SingleFlight

RETRY_SECONDS = 1.0


class OpenSession(Protocol):
    """A session that has a slot."""

    def shut_down(self) -> None:
        """End: the gateway stops."""
        ...


@dataclass(slots=True)
class Sessions:
    """Every session that has a slot, from before its provider is dialled to its end."""

    max_sessions: int
    _open: dict[int, OpenSession] = field(default_factory=dict)
    _is_prepared: bool = False
    _preparing: SingleFlight[None] = field(default_factory=SingleFlight)

    @property
    def count(self) -> int:
        """How many slots are taken."""
        return len(self._open)

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

    def free_slot(self, session: OpenSession) -> None:
        """Take the slot back; nothing happens where it has none."""
        self._open.pop(id(session), None)


def _import_autobahn() -> None:
    import mgw.realtime.dial  # noqa: F401  in a thread
