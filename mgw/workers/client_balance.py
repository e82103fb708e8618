"""Which worker accepts the next client: one with few connections.

All workers wait at the same sockets, and whoever comes first takes the client; at little load that is nearly
always the same one.  So each writes how many clients it has where all can read it, and who has more than
another looks away for a moment.  It does not look away for longer: the other one may hang.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

MAX_WORKERS: Final = 256
PAUSE_SECONDS: Final = 0.002
"""The pause for each client more than another has, since that one may have to wait for a CPU first."""
LONGEST_PAUSE: Final = 0.02
LEAST_LEAD: Final = 1
"""The lead over another worker that is not too large."""
LEAD_SHARE: Final = 16
"""The part of another worker's clients that is not too large a lead either."""
_ABSENT: Final = 0


class ClientNumbers:
    """How many clients each worker has, in memory that a process shares with its forks."""

    def __init__(self) -> None:
        self._numbers = memoryview(mmap(-1, 4 * MAX_WORKERS)).cast("I")
        """The numbers by slot, one more than there are; 0 is for a slot without a worker."""

    def set(self, slot: int, clients: int) -> None:
        """Say how many a worker has."""
        self._numbers[slot] = clients + 1

    def remove(self, slot: int) -> None:
        """Say that there is no such worker, or that it wants no more clients."""
        self._numbers[slot] = _ABSENT

    def least(self) -> int:
        """Return the number of the worker that has fewest; 0 where there is none."""
        return min(filter(None, self._numbers.tolist()), default=1) - 1


@dataclass(slots=True, eq=False)
class ClientBalance:
    """One worker's part: it says how many clients it has, and pauses where others have fewer.

    :param pause: stops accepting clients; ``resume`` goes on.
    """

    numbers: ClientNumbers
    slot: int
    clock: IReactorTime
    pause: Callable[[], None]
    resume: Callable[[], None]
    _clients: int = 0
    _pausing: IDelayedCall | None = None
    _is_stopped: bool = False

    def begin(self) -> None:
        """Take part from now on."""
        self.numbers.set(self.slot, 0)

    def count(self, clients: int) -> None:
        """Take notice that a client has come or gone, with which there are so many."""
        has_come = clients > self._clients
        self._clients = clients
        if self._is_stopped:
            return
        self.numbers.set(self.slot, clients)
        if self._pausing is None:
            lead = self._lead()
            if has_come and lead:
                self.pause()
                seconds = min(lead * PAUSE_SECONDS, LONGEST_PAUSE)
                self._pausing = self.clock.callLater(seconds, self._go_on)
        elif not self._lead():
            self._pausing.cancel()
            self._go_on()

    def stop(self) -> None:
        """Leave the clients to the others; what it does from then on with its sockets is its own affair."""
        self._is_stopped = True
        self.numbers.remove(self.slot)
        if self._pausing is not None:
            self._pausing.cancel()
            self._go_on()

    def _lead(self) -> int:
        """Return how many clients more than another this worker has, where that is too many."""
        least = self.numbers.least()
        lead = self._clients - least
        return lead if lead > max(LEAST_LEAD, least // LEAD_SHARE) else 0

    def _go_on(self) -> None:
        self._pausing = None
        self.resume()
