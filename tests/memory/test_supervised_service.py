"""The service with workers, before it has any, on a reactor in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from mgw.supervised_service import SupervisedService
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


def test_a_reload_during_the_start_waits_for_the_workers(log: list[str]) -> None:
    _, service = made()
    service.reload()
    assert log == []


def test_when_all_workers_have_drained_the_delay_has_passed() -> None:
    reactor, service = made()
    done: list[None] = []
    _ = service.stopService().addCallback(done.append)
    reactor.advance(1)
    assert done == [None]
