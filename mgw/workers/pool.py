"""The workers of a service as one: what their process tells all of them, and says for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from twisted.internet.defer import Deferred, DeferredList

from mgw.config.key_settings import NamedKeySettings
from mgw.dashboard.session_list import SessionRow
from mgw.workers.client_balance import ClientNumbers
from mgw.workers.delegate import WorkerView
from mgw.workers.messages import AccountCooldown, ChannelMessage, IssuerKeysChanged, KeysChanged
from mgw.workers.pickled_config import pickle_keys
from mgw.workers.supervisor import Supervisor
from mgw.workers.worker_state import WorkersState

TAKEN_SECONDS: Final = 2.0
"""How long workers have to take over keys before the log tells of these."""


@dataclass(slots=True)
class WorkerPool:
    """All workers, once there is a supervisor that keeps them."""

    supervisor: Supervisor | None = None
    clients: ClientNumbers = field(default_factory=ClientNumbers)
    """How many clients each worker has."""
    state: WorkersState = field(init=False)
    """What each worker has reported."""

    def __post_init__(self) -> None:
        self.state = WorkersState(self._count_by_stage, self._restarts, self._processes)

    def views(self) -> list[WorkerView]:
        """Return the workers that there are."""
        return [] if self.supervisor is None else self.supervisor.workers

    def tell(self, message: ChannelMessage, source: int | None = None) -> None:
        """Tell all workers, but not the one that said so itself."""
        for worker in self.views():
            if worker.slot != source and worker.channel is not None:
                worker.channel.tell(message)

    def tell_cooldown(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Tell all workers that an account is in cooldown."""
        self.tell(AccountCooldown(store, account, model, seconds))

    def tell_keys(self, changed: Sequence[NamedKeySettings], gone: Sequence[str]) -> Deferred[None]:
        """Tell all workers what has become of key files.

        The result fires when all of them use it, or after :data:`TAKEN_SECONDS`.
        """
        return self._taken_over(KeysChanged(pickle_keys(changed), tuple(gone)))

    def tell_issuer_keys(
        self, source: str, document: bytes | None, age: float | None
    ) -> Deferred[None] | None:
        """Tell all workers what has become of the keys of an issuer.

        With a document, the result fires when all of them use it, or after :data:`TAKEN_SECONDS`.
        """
        message = IssuerKeysChanged(source, document, age)
        if document is None:
            self.tell(message)
            return None
        return self._taken_over(message)

    def forget(self, slot: int) -> None:
        """A worker has ended."""
        self.clients.remove(slot)
        self.state.ended(slot)

    def refresh(self) -> Deferred[None]:
        """Ask all workers for their numbers, and have all records of requests that have ended by now."""
        return self.state.refresh(
            {worker.slot: worker.channel for worker in self.views() if worker.channel is not None}
        )

    def requests(self) -> tuple[int, list[dict[str, Any]]]:  # Any: JSON
        """Return how many requests are under way, and rows of them, of which the oldest comes first."""
        return self.state.requests()

    def sessions(self) -> list[SessionRow]:
        """Return the open sessions, of which the oldest comes first."""
        return self.state.sessions()

    def facts(self, own: Mapping[str, Any]) -> Mapping[str, Any]:  # Any: JSON
        """Return what the process of the workers says of itself, with their requests and sessions."""
        sums = {name: own[name] + self.state.fact(name) for name in ("in_flight", "sessions")}
        return {**own, **sums}

    def _taken_over(self, message: ChannelMessage) -> Deferred[None]:
        """Tell all workers, and fire when each has answered, or cannot."""
        channels = [worker.channel for worker in self.views() if worker.channel is not None]
        asked = [channel.ask(message, TAKEN_SECONDS) for channel in channels]
        return DeferredList(asked, consumeErrors=True).addCallback(lambda _: None)

    def _count_by_stage(self) -> Mapping[str, int]:
        return Counter(worker.stage.value for worker in self.views())

    def _restarts(self) -> int:
        return 0 if self.supervisor is None else self.supervisor.restarts

    def _processes(self) -> Mapping[int, int]:
        return {worker.slot: worker.pid for worker in self.views() if worker.pid is not None}
