"""What every test may rely on."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from twisted.logger import globalLogBeginner

from tests.support.laws import load_profiles
from tests.support.missing_programs import say_what_is_missing

load_profiles()

# Until its log begins, a process keeps events by the ten thousand, and all that they refer to; the oldest
# make room for the newest, so that a test would let go of what another one has left.
globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)

# What is compiled is kept: without it every gateway that a test starts would compile the whole of mgw again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Whoever makes a TLS context reads the certificates of all authorities of the machine: 30 ms for a client of
# an SDK, 60 for one of Google's.  No test asks a host that one of them vouches for: here is one authority.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support" / "authority_of_nobody.pem")

# A shell ignores SIGINT for what it runs in the background, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put modules that have slow tests first: one of them at the end would keep one process alone at work."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no collection of garbage walk through what lives to the end: the modules of SDKs, 20,000 tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end of a run, in red, what it did not test."""
    skipped = terminalreporter.getreports("skipped")
    lines = say_what_is_missing(
        report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)
    )
    if lines:
        terminalreporter.section("NOT TESTED", red=True, bold=True)
        for line in lines:
            terminalreporter.line(line, red=True, bold=True)
