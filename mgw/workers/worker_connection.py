"""The supervisor's end of a worker's channel: handles the messages of the worker.

Each worker has one; what all of them share stands in :class:`SupervisorParts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.credentials.sources import CredentialSources
from mgw.dashboard.session_list import SessionPhase
from mgw.usage.event import timestamp
from mgw.usage.record import EndedRequest
from mgw.workers.counts import SupervisorCounts
from mgw.workers.messages import (
    AccountCooldown,
    AcquirePermit,
    AddTaken,
    ChannelMessage,
    Done,
    Failed,
    IssuerKeysQuestion,
    LogText,
    Ping,
    ReleasePermit,
    Rows,
    SessionNews,
    TokenQuestion,
    WorkerState,
)
from mgw.workers.rows import RowReader
from mgw.workers.shared_credentials import answer_token_question

_log: Final = Logger()


def _no_issuer(_: IssuerKeysQuestion) -> ChannelMessage:
    return Failed("the current configuration has no such issuer")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorParts:
    """What in the supervisor's process handles the messages of all workers."""

    counts: SupervisorCounts
    """The counts, which tell workers apart by their connections."""
    sources: CredentialSources
    record_all: Callable[[Sequence[EndedRequest]], None]
    write_log: Callable[[int, LogText], None]
    """Takes the number of the worker, too."""
    publish_session: Callable[[dict[str, Any]], None]  # Any: JSON
    """Takes a :class:`~mgw.dashboard.session_list.SessionChange` for the dashboard's feed, as JSON has it."""
    wall: Callable[[], float]
    """Unix seconds."""
    note_state: Callable[[int, WorkerState], None]
    """Takes the last numbers of a worker that ends."""
    spread_cooldown: Callable[[AccountCooldown, WorkerConnection], None]
    """Takes what one worker has learned of an account, and that worker's connection."""
    ask_issuer: Callable[[IssuerKeysQuestion], ChannelMessage | Deferred[ChannelMessage]] = _no_issuer
    """Fetches keys that a worker does not know."""


@dataclass(slots=True, eq=False)
class WorkerConnection:
    """One worker, as the handler of its channel."""

    slot: int
    parts: SupervisorParts
    _reader: RowReader = field(default_factory=RowReader)
    _sessions: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict, repr=False)
    """The open sessions by their requests: when they were opened, and what was told of that."""

    def on_message(self, message: ChannelMessage) -> None:
        """Take what the worker tells."""
        parts = self.parts
        match message:
            case Rows():
                parts.record_all(self._reader.read(message))
            case ReleasePermit():
                _ = parts.counts.release_permit(self, message)
            case AddTaken():
                parts.counts.add_taken(message)
            case LogText():
                parts.write_log(self.slot, message)
            case SessionNews():
                self._on_session(message.change)
            case AccountCooldown():
                parts.spread_cooldown(message, self)
            case WorkerState():
                parts.note_state(self.slot, message)

    def on_question(self, question: ChannelMessage) -> ChannelMessage | Deferred[ChannelMessage]:
        """Answer what the worker asks."""
        parts = self.parts
        match question:
            case AcquirePermit():
                return parts.counts.acquire_permit(self, question)
            case ReleasePermit():
                return parts.counts.release_permit(self, question)
            case TokenQuestion():
                return answer_token_question(question, parts.sources)
            case IssuerKeysQuestion():
                return parts.ask_issuer(question)
            case Ping():
                return Done()
        return Failed(f"the supervisor does not answer {type(question).__name__}")

    def on_lost(self) -> None:
        """Take back all that the worker has, and tell of the sessions that have ended with it."""
        self.parts.counts.forget(self)
        now = self.parts.wall()
        for since, change in self._sessions.values():
            seconds = change["seconds"] + max(0.0, now - since)
            ending = {"state": SessionPhase.CLOSED, "time": timestamp(now), "seconds": round(seconds, 3)}
            self.parts.publish_session({**change, **ending})
        self._sessions.clear()

    def _on_session(self, change: dict[str, Any]) -> None:  # Any: JSON
        if change["state"] == SessionPhase.OPENED:
            self._sessions[change["request_id"]] = self.parts.wall(), change
        else:
            self._sessions.pop(change["request_id"], None)
        self.parts.publish_session(change)
