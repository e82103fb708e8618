"""What the supervisor of workers needs from the service, and what it exposes to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from twisted.internet.defer import Deferred

from mgw.workers.channel import Channel, Handler
from mgw.workers.fork_server import ForkedProcess, ProcessEnding


class Stage(StrEnum):
    """What a worker is doing."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"


class Forks(Protocol):
    """Gives processes and tells of their ends: :class:`~mgw.workers.fork_server.ForkServer`."""

    def listen(self, on_exit: Callable[[int, ProcessEnding], None], on_lost: Callable[[], None]) -> None:
        """Call these when a process has ended, and when there will be no more of them."""
        ...

    def fork(self, slot: int) -> Deferred[ForkedProcess]:
        """Fire with a new process; fails with an exception whose text says why there is none."""
        ...

    def kill(self, pid: int, number: int) -> None:
        """Send a signal to a process that was forked; nothing happens where it has ended."""
        ...


class Delegate(Protocol):
    """What is done with the workers by whoever has a supervisor."""

    def make_handler(self, slot: int) -> Handler:
        """Return what takes the messages of a new worker."""
        ...

    def attach(self, slot: int, channel: Channel, pid: int) -> Deferred[None]:
        """Have a new worker begin; fire when it serves, fail with an exception that says why it cannot."""
        ...

    def detach(self, slot: int) -> None:
        """Forget a worker that was attached; called once for each, when nothing more comes of it."""
        ...

    def drain(self, channel: Channel) -> None:
        """Tell a worker to end its requests and exit."""
        ...

    def on_lost(self) -> None:
        """No more workers can be forked; those there are go on."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker, as others may see it."""

    slot: int
    pid: int | None
    """``None`` until it is forked."""
    stage: Stage
    since: float
    """When the stage began, in seconds of the reactor's clock."""
    channel: Channel | None
