"""The service with workers, before it has any, on a reactor in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from twisted.application.service import Service
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from mgw.app.service import GatewayService
from mgw.app.supervised_service import SupervisedService
from mgw.ops.json_lines import message_json
from mgw.workers.messages import LogText
from tests.support.configs import THREE_FAMILIES, config

SETTINGS = f"{THREE_FAMILIES}\nworkers: 2\ndrain_delay_seconds: 5\n"


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []

    def observe(event: LogEvent) -> None:
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)  # type: ignore[arg-type]  # any callable will do
    yield lines
    globalLogPublisher.removeObserver(observe)  # type: ignore[arg-type]  # as above


def made() -> tuple[MemoryReactorClock, SupervisedService]:
    reactor, settings = MemoryReactorClock(), config(SETTINGS)
    return reactor, SupervisedService(settings, lambda: settings, reactor, None)


def test_neither_service_is_a_kind_of_the_other() -> None:
    assert SupervisedService.__bases__ == GatewayService.__bases__ == (Service,)


def test_a_reload_during_the_start_waits_for_the_workers(log: list[str]) -> None:
    _, service = made()
    service.reloader.reload()
    assert log == []


@pytest.mark.parametrize("length", [None, 5])
def test_a_message_of_a_worker_keeps_its_text_and_its_parts(length: int | None) -> None:
    _, service = made()
    seen: list[LogEvent] = []
    service.gateway.telemetry.log_text.addObserver(seen.append)  # type: ignore[arg-type]  # any callable will do
    line = LogText("error", 1.0, "a bug\nTraceback", logger="mgw.app.worker", message_length=length)
    service.make_handler(1).on_message(line)
    event = seen[0]
    assert event["log_text"] == "a bug\nTraceback"
    assert (event["log_system"], event["log_time"]) == ("worker 1", 1.0)
    found = json.loads(message_json(event))
    assert (found["level"], found["logger"], found["worker"]) == ("error", "mgw.app.worker", 1)
    parts = (found["message"], found.get("traceback"))
    assert parts == (("a bug\nTraceback", None) if length is None else ("a bug", "Traceback"))


def test_when_all_workers_have_drained_the_delay_has_passed() -> None:
    reactor, service = made()
    done: list[None] = []
    _ = service.stopService().addCallback(done.append)
    reactor.advance(1)
    assert done == [None]
