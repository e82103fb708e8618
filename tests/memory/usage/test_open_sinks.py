"""What the sinks of a configuration could not keep when they were closed."""

from __future__ import annotations

from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.config.hooks import HooksSettings
from mgw.config.load import parse
from mgw.usage import open_sinks as module
from mgw.usage.journal import Journal
from mgw.usage.open_sinks import OpenSinks
from mgw.usage.sinks import SinkTools
from tests.support.deferreds import result_of
from tests.support.usage import MemorySink

HOOKS: HooksSettings = parse(
    "providers: {a: {kind: openai}}\nhooks: {jsonl: {output: stdout}, sqlite: {path: /x}}", "f", {}
).hooks


def opened(monkeypatch: pytest.MonkeyPatch, sinks: dict[str, MemorySink]) -> OpenSinks:
    """Return the sinks of a process in use."""
    monkeypatch.setattr(module, "open_sink", lambda name, *_: sinks[name])
    found = OpenSinks(Journal(Clock()), cast(SinkTools, None), (), lambda: None)
    found.use(found.open(HOOKS))
    return found


def test_what_is_lost_at_the_end_is_said_for_each_sink_and_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = {"jsonl": MemorySink("jsonl", dropped=100), "sqlite": MemorySink("sqlite", dropped=7, waiting=5)}
    found = opened(monkeypatch, sinks)
    original: Any = MemorySink.close

    def close(self: MemorySink) -> Deferred[None]:
        self.dropped += 3 if self.name == "jsonl" else 2
        self.waiting = 0 if self.name == "jsonl" else 4  # in a thread that hangs
        closed: Deferred[None] = original(self)
        return closed

    monkeypatch.setattr(MemorySink, "close", close)
    with capturedLogs() as events:
        assert result_of(found.close()) == 9
    said = [event["log_format"].format(**event) for event in events]
    assert said == [
        "hooks.jsonl: 3 usage events could not be stored and were lost",
        "hooks.sqlite: 6 usage events could not be stored and were lost",
    ]


def test_what_was_lost_before_the_end_is_not_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = opened(monkeypatch, {"jsonl": MemorySink("jsonl", dropped=9), "sqlite": MemorySink("sqlite")})
    with capturedLogs() as events:
        assert result_of(found.close()) == 0
    assert not events
