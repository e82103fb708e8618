"""``GET /v1/dashboard/requests``: where its events come from, and what a page holds."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from mgw.config.hooks import HooksSettings
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventQueries
from mgw.dashboard.recent_events import RecentEvents
from mgw.dashboard.request_list import MAX_PAGE_BYTES, DashboardRequests
from mgw.dashboard.requests import Requests
from mgw.nouns.errors import Reason
from mgw.usage.event import UsageEvent
from mgw.usage.record import encode
from mgw.usage.usage_table import UsageTable
from tests.support.deferreds import refusal_of, result_of
from tests.support.usage import AtOnce, event, settled_as

NOW = 1_769_860_800.0
ROW = {"request_id": "running", "time": "2026-01-31T12:00:00.000Z"}


class Gateway:
    """A dashboard's list, whose requests in progress are those of another process."""

    def __init__(self, path: str | None = None) -> None:
        self.asked: list[str] = []
        self.hooks = self.hooks_with(path)
        runner = AtOnce()
        self.recent = RecentEvents(lambda: self.hooks.sqlite is None)
        self.requests = DashboardRequests(
            in_progress=Requests(list, lambda: (3, [ROW])),
            refresh=self._refresh,
            hooks=lambda: self.hooks,
            queries=EventQueries(runner),
            memory=EventMemory(runner, [self.recent]),
        )

    @staticmethod
    def hooks_with(path: str | None) -> HooksSettings:
        return HooksSettings.model_validate({} if path is None else {"sqlite": {"path": path}})

    def _refresh(self) -> Deferred[None]:
        self.asked.append("others")
        return succeed(None)

    def record(self, *events: UsageEvent) -> None:
        self.recent.record_all([settled_as(each) for each in events])

    def answer(self, **parameters: str) -> Any:  # Any: JSON
        return json.loads(result_of(Deferred.fromCoroutine(self.requests.answer(parameters))))


def events(count: int, **changes: Any) -> list[UsageEvent]:  # Any: the fields of an event by name
    return [event(request_id=f"req_{number:03d}", time=NOW + number, **changes) for number in range(count)]


def in_memory(found: list[UsageEvent], _: Path) -> Gateway:
    gateway = Gateway()
    gateway.record(*found)
    return gateway


def in_a_file(found: list[UsageEvent], folder: Path) -> Gateway:
    table = UsageTable(str(folder / "usage.db"))
    table.add([encode(each) for each in found])
    table.close()
    return Gateway(str(folder / "usage.db"))


Filled = Callable[[list[UsageEvent], Path], Gateway]
both = pytest.mark.parametrize("filled", [in_memory, in_a_file])


@both
def test_the_answer_has_both_kinds_of_requests(filled: Filled, tmp_path: Path) -> None:
    found = events(2, client="team", error="overloaded", upstream_request_id="up_1")
    answer = filled(found, tmp_path).answer()
    assert answer == {
        "source": "memory" if filled is in_memory else "sqlite",
        "in_flight": 3,
        "in_progress": [ROW],
        "requests": [json.loads(encode(each)) for each in reversed(found)],
    }


@both
def test_pages_follow_one_another_and_the_last_has_no_next(filled: Filled, tmp_path: Path) -> None:
    gateway = filled(events(250, client="team"), tmp_path)
    first = gateway.answer(client="team")
    second = gateway.answer(client="team", cursor=first["next"])
    third = gateway.answer(client="team", cursor=second["next"])
    ids = [row["request_id"] for page in (first, second, third) for row in page["requests"]]
    assert ids == [f"req_{number:03d}" for number in range(249, -1, -1)]
    assert "next" not in third
    assert [page["in_progress"] for page in (first, second, third)] == [[ROW], [], []]
    assert gateway.asked == ["others"]


@both
def test_a_page_that_ends_with_the_last_event_has_no_next(filled: Filled, tmp_path: Path) -> None:
    gateway = filled(events(4), tmp_path)
    assert "next" not in gateway.answer(limit="4")
    assert "next" in gateway.answer(limit="3")


@both
def test_a_page_is_bounded_in_bytes_and_goes_on(filled: Filled, tmp_path: Path) -> None:
    gateway = filled(events(60, model="m" * 60_000), tmp_path)
    ids, cursor = list[str](), dict[str, str]()
    for _ in range(3):
        page = gateway.answer(**cursor)
        assert len(json.dumps(page["requests"])) < MAX_PAGE_BYTES + 70_000
        ids += [row["request_id"] for row in page["requests"]]
        if "next" not in page:
            break
        cursor = {"cursor": page["next"]}
    assert ids == [f"req_{number:03d}" for number in range(59, -1, -1)]


@both
def test_filters_are_applied(filled: Filled, tmp_path: Path) -> None:
    gateway = filled([*events(3), event(request_id="x", time=NOW, client="team", http_status=503)], tmp_path)
    for asked in (
        {"client": "team"},
        {"status": "5xx"},
        {"request_id": "x"},
        {"client": "team", "status": "503"},
    ):
        assert [row["request_id"] for row in gateway.answer(**asked)["requests"]] == ["x"]
    assert gateway.answer(client="team", status="404")["requests"] == []


def test_a_file_that_is_not_there_yet_has_no_events(tmp_path: Path) -> None:
    answer = Gateway(str(tmp_path / "usage.db")).answer()
    assert (answer["source"], answer["requests"]) == ("sqlite", [])


def test_a_wrong_parameter_is_refused_before_anybody_is_asked() -> None:
    gateway = Gateway()
    answer: Awaitable[bytes] = gateway.requests.answer({"state": "ok"})
    assert refusal_of(Deferred.fromCoroutine(answer)).reason is Reason.MALFORMED  # type: ignore[arg-type]  # it is a coroutine
    assert gateway.asked == []


def test_the_source_is_what_the_configuration_says_now(tmp_path: Path) -> None:
    gateway = in_a_file(events(3), tmp_path)
    with_file = gateway.hooks
    assert gateway.answer()["source"] == "sqlite"
    gateway.hooks = Gateway.hooks_with(None)
    gateway.record(event(request_id="new"))
    answer = gateway.answer()
    assert (answer["source"], [row["request_id"] for row in answer["requests"]]) == ("memory", ["new"])
    gateway.hooks = with_file
    assert len(gateway.answer()["requests"]) == 3


def test_whoever_asks_for_no_events_has_none_of_them_moved() -> None:
    gateway = in_memory(events(2), Path())
    assert gateway.answer(limit="0") == {
        "source": "memory",
        "in_flight": 3,
        "in_progress": [ROW],
        "requests": [],
    }
    assert gateway.recent.hand_over() is not None  # they wait still
    assert gateway.asked == ["others"]


def test_whoever_asks_for_no_events_needs_no_file(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    path.write_bytes(b"no database" * 100)
    assert Gateway(str(path)).answer(limit="0")["requests"] == []
