"""The end of a worker's channel: what becomes of the sessions of a worker that is gone."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from mgw.clients.local_counts import LocalCounts
from mgw.workers.counts import SupervisorCounts
from mgw.workers.messages import ChannelMessage, SessionNews
from mgw.workers.worker_connection import SupervisorParts, WorkerConnection
from tests.support.token_endpoints import WALL, TokenHosts


class Play:
    """A connection, and what is published of sessions."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.published: list[tuple[str, str, float]] = []
        parts = SupervisorParts(
            counts=SupervisorCounts(LocalCounts(self.clock.seconds)),
            sources=TokenHosts(self.clock).sources,
            record_all=self._never,
            write_log=self._never,
            publish_session=self._publish,
            wall=lambda: WALL + self.clock.seconds(),
            note_state=self._never,
            spread_cooldown=self._never,
        )
        self.connection = WorkerConnection(0, parts)

    def tell(self, request_id: str, state: str, seconds: float = 0.5) -> None:
        change = {"time": "then", "state": state, "request_id": request_id, "seconds": seconds}
        message: ChannelMessage = SessionNews({**change, "dialect": "openai", "route": "realtime_ws"})
        self.connection.on_message(message)

    def _publish(self, change: dict[str, Any]) -> None:
        assert (change["time"] == "then") == (change["seconds"] == 0.5)
        self.published.append((change["request_id"], str(change["state"]), change["seconds"]))

    def _never(self, *_: object) -> None:
        raise AssertionError("nobody has said that")


def test_sessions_of_a_worker_that_is_gone_are_told_to_be_closed() -> None:
    play = Play()
    play.tell("a", "opened")
    play.clock.advance(10)
    play.tell("b", "opened")
    play.tell("c", "opened")
    play.tell("b", "closed")
    play.published.clear()
    play.clock.advance(5)
    play.connection.on_lost()
    assert play.published == [("a", "closed", 15.5), ("c", "closed", 5.5)]


def test_a_worker_that_ends_in_order_leaves_none_to_be_closed() -> None:
    play = Play()
    play.tell("a", "opened")
    play.tell("a", "closed")
    play.connection.on_lost()
    assert play.published == [("a", "opened", 0.5), ("a", "closed", 0.5)]
