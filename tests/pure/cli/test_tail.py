"""The kinds of events that ``mgw tail`` knows are those that a gateway has."""

from __future__ import annotations

from mgw.cli.tail import KINDS
from mgw.dashboard.event_ring import EventKind


def test_every_kind_can_be_asked_for() -> None:
    assert set(KINDS) == set(EventKind)
