"""The clock of a host, by the cases of the AWS SDKs (``clock-skew-test-cases.json``) and beyond them."""

from __future__ import annotations

from calendar import timegm
from email.utils import formatdate
from time import strptime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from twisted.logger import capturedLogs, formatEvent

from mgw.credentials.aws.clock import MAX_WAIT_SECONDS, MOST_SECONDS, HostClock


class Attempt(Struct, frozen=True):
    """One attempt of a case: three moments of a day, and what is to be found."""

    sent: str
    received: str
    date: str | None
    correction: float = 0.0
    """What the request is signed with."""
    error: str | None = None
    repeated: bool | None = None
    has_age: bool = False


CASES: Final = {
    "clocks agree": [Attempt("00:00:00", "00:00:02", "00:00:01"), Attempt("00:01:00", "00:01:02", None)],
    "an error of the clock is mended, and remembered": [
        Attempt("00:00:00", "00:00:02", "00:05:01", 0, "RequestTimeTooSkewed", True),
        Attempt("00:00:02", "00:00:04", "00:05:03", 300),
        Attempt("00:01:00", "00:01:02", "00:06:01", 300),
    ],
    "a late answer says nothing": [
        Attempt("00:00:00", "00:16:00", "00:10:00"),
        Attempt("00:17:00", "00:17:02", "00:22:01"),
        Attempt("00:18:00", "00:18:02", None, 300),
    ],
    "what is no longer so is forgotten": [
        Attempt("00:00:00", "00:00:02", "00:05:01"),
        Attempt("00:00:10", "00:00:12", "00:00:11", 300),
        Attempt("00:00:20", "00:00:22", None, 0),
    ],
    "a signature may be wrong by itself": [
        Attempt("00:00:00", "00:00:02", "00:02:01", 0, "InvalidSignatureException", False),
        Attempt("00:00:10", "00:00:12", None, 0),
    ],
    "a signature may be wrong for its time": [
        Attempt("00:00:00", "00:00:02", "00:05:01", 0, "InvalidSignatureException", True),
        Attempt("00:00:02", "00:00:04", "00:05:03", 300, "InvalidSignatureException", False),
    ],
    "no date": [Attempt("00:00:00", "00:00:02", None, 0, "RequestTimeTooSkewed", False)],
    "an answer of a cache": [
        Attempt("16:51:00", "16:51:02", "12:03:01", has_age=True),
        Attempt("16:51:10", "16:51:12", "16:56:11"),
        Attempt("16:52:00", "16:52:02", None, 300),
    ],
    "a clock that is ahead": [
        Attempt("00:30:00", "00:30:02", "00:20:01", 0, "RequestInTheFuture", True),
        Attempt("00:30:10", "00:30:12", None, -600),
    ],
    "access is denied at the right time or not": [
        Attempt("00:00:00", "00:00:02", "00:50:01", 0, "AccessDeniedException", False),
    ],
}


def seconds_of(time: str) -> float:
    return float(timegm(strptime(f"2026-01-01 {time}", "%Y-%m-%d %H:%M:%S")))


def date_of(seconds: float) -> bytes:
    return formatdate(seconds, usegmt=True).encode()


@pytest.mark.parametrize("attempts", CASES.values(), ids=CASES)
def test_the_clock_is_corrected_as_the_sdks_of_aws_do(attempts: list[Attempt]) -> None:
    clock = HostClock("main")
    for attempt in attempts:
        used = clock.correction
        assert used == pytest.approx(attempt.correction, abs=2)  # seconds: dates have no fractions
        if attempt.date is not None and not attempt.has_age:
            date = date_of(seconds_of(attempt.date))
            clock.note(date, seconds_of(attempt.sent), seconds_of(attempt.received))
        if attempt.repeated is not None:
            assert clock.explains(attempt.error, used) is attempt.repeated


@given(offset=st.integers(-100_000, 100_000), wait=st.integers(0, 890), thought=st.floats(0, 1))
def test_an_offset_is_never_made_larger_than_an_answer_proves(offset: int, wait: int, thought: float) -> None:
    clock = HostClock("main")
    sent = 1_767_322_800.0
    clock.note(date_of(sent + offset + wait * thought), sent, sent + wait)
    assert abs(clock.correction) <= abs(offset) + 1
    if abs(offset) > MOST_SECONDS + wait + 1:
        assert abs(clock.correction - offset) <= wait + 1


def test_an_answer_that_was_long_in_the_making_does_not_move_a_clock_that_is_right() -> None:
    clock, sent = HostClock("main"), 1_767_322_800.0
    clock.note(date_of(sent + 800), sent, sent + 800)
    assert clock.correction == 0.0


@pytest.mark.parametrize(("wait", "is_off"), [(MAX_WAIT_SECONDS, True), (MAX_WAIT_SECONDS + 1, False)])
def test_an_answer_says_something_for_fifteen_minutes(wait: float, is_off: bool) -> None:
    clock, sent = HostClock("main"), 1_767_322_800.0
    clock.note(date_of(sent + wait + 300), sent, sent + wait)
    assert (clock.correction != 0, MAX_WAIT_SECONDS) == (is_off, 900)


@pytest.mark.parametrize(("offset", "correction"), [(240, 0), (241, 241), (-240, 0), (-242, -241)])
def test_a_difference_of_four_minutes_is_not_corrected(offset: int, correction: float) -> None:
    clock, sent = HostClock("main"), 1_767_322_800.0
    clock.note(date_of(sent + offset), sent, sent)
    assert clock.correction == correction


def test_a_request_signed_before_the_clock_was_corrected_is_signed_again() -> None:
    clock, sent = HostClock("main"), 1_767_322_800.0
    clock.note(date_of(sent + 600), sent, sent + 1)
    clock.note(date_of(sent + 602), sent, sent + 2)
    assert clock.explains("SignatureDoesNotMatch", 0.0)
    assert not clock.explains("SignatureDoesNotMatch", clock.correction)


@pytest.mark.parametrize(
    "date",
    [
        *(b"", b"yesterday", b"Thu, 01 Jan 2026 00:50:01 +0100", b"Thu, 99 Jan 2026 00:50:01 GMT"),
        *(b"Thu, 01 Foo 2026 00:50:01 GMT", b"Thu, 01 Jan 0000 00:50:01 GMT", b"\xff" * 29),
        *(b"Thu, 01 Jan 2026 99:50:01 GMT", b"Thu, 01 Jan 2026 24:50:01 GMT"),
        *(b"Thu, 01 Jan 2026 00:99:01 GMT", b"Thu, 01 Jan 2026 03:10:61 GMT"),
    ],
)
def test_what_is_no_date_says_nothing(date: bytes) -> None:
    clock, sent = HostClock("main"), 1_767_322_800.0
    clock.note(date, sent, sent + 1)
    assert clock.correction == 0.0
    assert not clock.explains("RequestExpired", 0.0)


def test_a_clock_that_was_set_back_meanwhile_says_nothing() -> None:
    clock, sent = HostClock("main"), 1_767_322_800.0
    clock.note(date_of(sent + 1000), sent, sent - 1)
    assert clock.correction == 0.0


def test_the_log_says_once_for_each_provider_how_far_the_clock_is_off() -> None:
    sent, main, other = 1_767_322_800.0, HostClock("main"), HostClock("other")
    with capturedLogs() as events:
        for clock, offset in ((main, 300), (main, 900), (main, 0), (main, 300), (other, -300)):
            clock.note(date_of(sent + offset), sent, sent)
    behind, ahead = map(formatEvent, events)
    assert "300 s behind the clock of provider main" in behind
    assert "299 s ahead of the clock of provider other" in ahead
