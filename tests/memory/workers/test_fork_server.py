"""The fork server, as far as it needs no process."""

from __future__ import annotations

import os
import threading

import pytest
from twisted.internet.task import Clock

from mgw.workers.fork_server import ForkServer, ProcessEnding


def test_it_is_not_forked_once_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("it was forked"))
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="somebody's")
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="somebody's"):
            ForkServer.start(lambda start: 0, Clock())
    finally:
        end.set()
        thread.join()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "exit code 0"),
        (70, "exit code 70"),
        (-9, "SIGKILL"),
        (-40, "signal 40"),
        (None, "exit code unknown"),
    ],
)
def test_endings_are_told_in_words(status: int | None, text: str) -> None:
    assert str(ProcessEnding(status)) == text
