"""Refused tokens: each is counted, and the log has a line a minute for an issuer and a reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from mgw.nouns.token_flaw import TokenFlaw
from mgw.ops.token_rejections import TokenRejections


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        found.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    yield found
    globalLogPublisher.removeObserver(observe)


def test_the_log_tells_once_a_minute_by_issuer_and_reason(lines: list[str]) -> None:
    now = 0.0
    rejections = TokenRejections(lambda: now)
    for second in (0, 1, 59, 60, 61, 120):
        now = float(second)
        rejections.add("corp", TokenFlaw.EXPIRED)
    rejections.add("corp", TokenFlaw.NO_RULE)
    rejections.add("ci", TokenFlaw.EXPIRED)
    assert lines == [
        "edge_auth.jwt corp: tokens rejected: 1 (expired)",
        "edge_auth.jwt corp: tokens rejected: 3 (expired)",
        "edge_auth.jwt corp: tokens rejected: 2 (expired)",
        "edge_auth.jwt corp: tokens rejected: 1 (no_rule)",
        "edge_auth.jwt ci: tokens rejected: 1 (expired)",
    ]
    assert list(rejections.table().rows()) == [
        (("ci", "expired"), (1,)),
        (("corp", "expired"), (6,)),
        (("corp", "no_rule"), (1,)),
    ]
