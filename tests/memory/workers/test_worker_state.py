"""The numbers of workers become those of one service, and what was counted stays counted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from os import getpid
from pathlib import Path

from msgspec.msgpack import Decoder, Encoder
from twisted.internet.defer import Deferred

from mgw.dashboard.requests import Requests
from mgw.dashboard.session_list import MAX_SESSIONS_SHOWN, SessionRow, list_sessions
from mgw.exchange.exchange import Exchange
from mgw.ops.combining import COMBINATIONS
from mgw.ops.metrics import Metrics
from mgw.ops.state_metrics import StateMetrics
from mgw.realtime.sessions import Sessions
from mgw.workers.channel import ChannelError
from mgw.workers.messages import AnyMessage, ChannelMessage, StateQuestion, WorkerState
from mgw.workers.worker_state import ANSWER_SECONDS, WorkersState, collect_state
from tests.support.deferreds import result_of
from tests.support.monitoring import metrics_with_everything, page_of

OF_ONE_PROCESS = {
    *("mgw_build_info", "mgw_draining", "mgw_tls_certificate_expiry_timestamp_seconds"),
    *("mgw_usage_events", "mgw_usage_sink_errors", "mgw_usage_events_dropped", "mgw_usage_events_waiting"),
    *("mgw_usage_spool_bytes", "mgw_usage_spool_max_bytes"),
    *("mgw_keys", "mgw_key_files_invalid", "mgw_jwks_fetches", "mgw_jwks_age_seconds"),
    *("mgw_limit_used", "mgw_limit_max", "mgw_limit_store_up"),
    *("mgw_config_generation", "mgw_config_loaded_timestamp_seconds"),
    *("mgw_config_reload_ok", "mgw_config_reload_failures"),
    *("mgw_workers", "mgw_worker_restarts", "mgw_worker_resident_bytes"),
    *("mgw_worker_cpu_seconds", "mgw_worker_open_fds"),
    *("mgw_fleet_hosts", "mgw_fleet_redis_up", "mgw_fleet_redis_errors"),
}
FROM_RECORDS = {
    *("mgw_requests", "mgw_request_errors", "mgw_request_retries", "mgw_tokens", "mgw_cost_usd"),
    *("mgw_unpriced_requests", "mgw_uncounted_streams", "mgw_estimated_requests"),
    *("mgw_request_seconds", "mgw_time_to_first_byte_seconds"),
    *("mgw_session_seconds", "mgw_session_frames", "mgw_session_bytes"),
}


@dataclass(slots=True, eq=False)
class Worker:
    """A worker with metrics of its own, and its channel, whose answers come when they are let."""

    metrics: Metrics = field(default_factory=lambda: Metrics(frozenset()))
    asked: list[Deferred[ChannelMessage]] = field(default_factory=list)
    in_flight: int = 0

    def __post_init__(self) -> None:
        self.metrics.state = StateMetrics(
            requests_in_flight=lambda: self.in_flight, sessions=lambda: (1, 100), clients=lambda: (2, 10, 1)
        )

    def ask(self, question: ChannelMessage, seconds: float) -> Deferred[ChannelMessage]:
        assert (question, seconds) == (StateQuestion(), ANSWER_SECONDS)
        answer: Deferred[ChannelMessage] = Deferred()
        self.asked.append(answer)
        return answer

    def state(self) -> WorkerState:
        row = {"request_id": f"req_{self.in_flight}", "time": f"2026-01-0{self.in_flight}"}
        session = {**row, "seconds": 1.0, "dialect": "openai", "route": "realtime"}
        said = collect_state(self.metrics, {"in_flight": self.in_flight}, [row], [session], dropped=4)
        found = Decoder(AnyMessage).decode(Encoder().encode(said))
        assert isinstance(found, WorkerState)
        return found

    def answer(self) -> None:
        self.asked.pop().callback(self.state())


def refresh(workers: WorkersState, *channels: Worker) -> None:
    done = workers.refresh(dict(enumerate(channels)))
    for channel in channels:
        channel.answer()
    result_of(done)


def page(workers: WorkersState) -> str:
    return page_of(Metrics(frozenset(), workers=workers))


def number(workers: WorkersState, sample: str) -> float:
    found = re.search(rf"^{re.escape(sample)} (\S+)$", page(workers), re.MULTILINE)
    assert found is not None, sample
    return float(found[1])


def test_every_family_is_in_one_class(tmp_path: Path) -> None:
    named = set(re.findall(r"^# TYPE (mgw_\w+)", page_of(metrics_with_everything(tmp_path)), re.MULTILINE))
    classes = (set(COMBINATIONS), OF_ONE_PROCESS, FROM_RECORDS)
    assert {name.removesuffix("_total") for name in named} == set().union(*classes)
    assert sum(map(len, classes)) == len(set().union(*classes))


def test_gauges_and_counters_are_added_up_and_what_all_have_alike_is_not() -> None:
    workers, one, other = WorkersState(), Worker(in_flight=3), Worker(in_flight=1)
    one.metrics.malformed()
    one.metrics.edge_rejected("key")
    other.metrics.edge_rejected("key")
    refresh(workers, one, other)
    assert number(workers, "mgw_requests_in_flight") == 4
    assert number(workers, "mgw_sessions_in_flight") == 2
    assert number(workers, "mgw_sessions_max") == 100
    assert number(workers, "mgw_client_connections_max") == 20
    assert number(workers, "mgw_malformed_requests_total") == 1
    assert number(workers, 'mgw_edge_rejections_total{reason="key"}') == 2
    assert number(workers, "mgw_event_loop_delay_seconds_count") == 0
    assert number(workers, "mgw_worker_records_dropped_total") == 8
    assert workers.fact("in_flight") == 4
    count, rows = workers.requests()
    assert (count, [row["request_id"] for row in rows]) == (4, ["req_1", "req_3"])
    assert [(row.request_id, row.model) for row in workers.sessions()] == [("req_1", None), ("req_3", None)]


def test_what_a_worker_had_counted_stays_when_it_has_ended_and_its_gauges_do_not() -> None:
    workers, one, other = WorkersState(), Worker(in_flight=3), Worker(in_flight=1)
    refresh(workers, one, other)
    assert number(workers, "mgw_client_connections_refused_total") == 2
    refresh(workers, one)
    assert number(workers, "mgw_client_connections_refused_total") == 2
    assert number(workers, "mgw_requests_in_flight") == 3
    refresh(workers, Worker())
    assert number(workers, "mgw_client_connections_refused_total") == 3
    workers.ended(0)
    workers.ended(0)
    assert number(workers, "mgw_client_connections_refused_total") == 3
    assert workers.requests() == (0, [])


def test_a_count_that_begins_anew_runs_on() -> None:
    workers, worker = WorkersState(), Worker()
    refused = [5, 2, 2, 4]
    worker.metrics.state.clients = lambda: (0, 10, refused[0])
    seen = []
    while refused:
        refresh(workers, worker)
        seen.append(number(workers, "mgw_client_connections_refused_total"))
        del refused[0]
    assert seen == [5, 7, 7, 9]


def test_a_worker_that_does_not_answer_keeps_its_numbers() -> None:
    workers, worker = WorkersState(), Worker(in_flight=3)
    refresh(workers, worker)
    done = workers.refresh({0: worker})
    worker.asked.pop().errback(ChannelError("no answer within 1 s"))
    assert result_of(done) is None
    assert number(workers, "mgw_requests_in_flight") == 3


def test_a_late_answer_of_a_worker_that_was_replaced_is_not_counted() -> None:
    workers, old, new = WorkersState(), Worker(in_flight=3), Worker(in_flight=1)
    first = workers.refresh({0: old})
    refresh(workers, new)
    old.answer()
    result_of(first)
    assert number(workers, "mgw_requests_in_flight") == 1
    assert number(workers, "mgw_client_connections_refused_total") == 1


def test_workers_and_their_processes_are_counted(tmp_path: Path) -> None:
    gone = {1: getpid()}
    workers = WorkersState(lambda: {"serving": 2}, lambda: 7, lambda: {0: getpid()})
    assert number(workers, 'mgw_workers{state="serving"}') == 2
    assert number(workers, 'mgw_workers{state="draining"}') == 0
    assert number(workers, "mgw_worker_restarts_total") == 7
    assert number(workers, 'mgw_worker_resident_bytes{worker="0"}') > 1e6
    assert number(workers, 'mgw_worker_cpu_seconds_total{worker="0"}') > 0
    assert number(workers, 'mgw_worker_open_fds{worker="0"}') > 2
    assert "worker=" not in page(WorkersState(processes=lambda: gone, proc=tmp_path))


def test_the_dashboard_shows_the_requests_of_other_processes_by_age() -> None:
    rows = [{"request_id": f"req_{number}", "time": f"2026-01-{number:02d}"} for number in (1, 3)]
    own: list[Exchange] = []
    assert Requests(lambda: own, lambda: (5, rows)).answer() == {"in_flight": 5, "in_progress": rows}


def test_the_dashboard_shows_the_sessions_of_other_processes() -> None:
    rows = [SessionRow("req_1", "2026-01-01", 1.0, "openai", "realtime")] * (MAX_SESSIONS_SHOWN + 1)
    found = list_sessions(Sessions(7), 0.0, rows)
    assert (found.max_sessions, found.sessions) == (7, rows[:MAX_SESSIONS_SHOWN])
