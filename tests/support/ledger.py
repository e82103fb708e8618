"""Usage events of a gateway process, each asked for by the test that caused it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.gateway import GatewayProcess
from tests.support.raw_client import RawClient, RawResponse, chat
from tests.support.waiting import WAIT_SECONDS


@dataclass
class Ledger:
    """What a gateway records while one test runs: every event is asked for, and none comes twice."""

    gateway: GatewayProcess
    _taken: int = field(init=False)

    def __post_init__(self) -> None:
        self._taken = self.gateway.stdout.data.count(b"\n")

    def take(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait for the next usage events."""
        events = self.gateway.events(self._taken + count, WAIT_SECONDS)
        events = events[self._taken : self._taken + count]
        self._taken += count
        return events

    def one(self, **expected: Any) -> dict[str, Any]:
        """Wait for the next usage event; it must say what is expected (``None``: the field is absent)."""
        (event,) = self.take()
        assert {name: event.get(name) for name in expected} == expected, event
        assert event["request_id"].startswith("req_")
        assert event["latency_ms"] >= event.get("ttft_ms", 0)
        return event

    def balance(self, model: str) -> None:
        """The gateway answers the next request, and its event is the only one that was not asked for yet."""
        assert self.rest(model) == []

    def rest(self, model: str, *headers: bytes) -> list[dict[str, Any]]:
        """The gateway answers the next request; return the events before its own that nobody asked for."""
        with RawClient(self.gateway.port) as client:
            client.send(chat(model, *headers))
            response = client.read_response()
        assert (response.status, response.whole) == (200, True), response
        last = event_of(self.gateway, response)
        assert (last["status"], last["http_status"], last["model"]) == ("ok", 200, model), last
        events = self.gateway.events()[self._taken :]
        self._taken += len(events)
        assert events.pop() == last
        return events


def event_of(gateway: GatewayProcess, response: RawResponse) -> dict[str, Any]:
    """Wait for the usage event of an answer."""
    request_id = response.value(b"x-gateway-request-id")
    assert request_id is not None
    mark = b'"request_id":"%b"' % request_id
    lines: bytes = gateway.stdout.wait_for(
        lambda data: mark in data[: data.rfind(b"\n") + 1] and data, WAIT_SECONDS, "the event of an answer"
    )
    (event,) = [json.loads(line) for line in lines.splitlines() if mark in line]
    assert isinstance(event, dict)
    return event
