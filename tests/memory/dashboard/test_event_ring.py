"""The ring holds the newest events, and each reader gets every one that is still held once and in order."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dashboard.event_ring import ALL_KINDS, MAX_DROPPED_CHARS, EventKind, EventRing
from mgw.usage.event import SettledExchange
from mgw.usage.labels import MAX_SHARED_CHARS
from tests.support.feeds import START, Note, parse_events, rows
from tests.support.usage import exchange

SIZE = 5
USAGE, LOG = frozenset({EventKind.USAGE}), frozenset({EventKind.LOG})


def read_all(ring: EventRing, behind: int = 0, kinds: frozenset[EventKind] = ALL_KINDS) -> list[str]:
    """Return the ids of everything behind a number, read in small pieces."""
    found: list[str] = []
    while behind < ring.last:
        text, behind = ring.read(behind, kinds, 1)
        found += [event.id for event in parse_events(text)]
    return found


def release(ring: EventRing) -> int:
    """Let go of records; return in how many pieces."""
    return sum(1 for _ in ring.release_rows())


def ids(first: int, last: int) -> list[str]:
    return [f"{START}-{number}" for number in range(first, last + 1)]


@given(
    steps=st.lists(st.one_of(st.integers(0, 9), st.sampled_from([LOG, "long", "release", "read"]))),
    behind=st.integers(0, 60),
)
def test_a_reader_gets_the_newest_events_in_order_whatever_they_are(
    steps: list[int | str | frozenset[EventKind]], behind: int
) -> None:
    ring, kinds = EventRing(START, SIZE), list[EventKind]()
    for step in steps:
        if isinstance(step, int):
            ring.add_rows(rows(len(kinds), step))
            kinds += [EventKind.USAGE] * step
        elif step == "long":
            ring.add_rows([exchange(model="m" * 1000), *rows(0, 1)])
            kinds += [EventKind.USAGE] * 2
        elif step == "release":
            release(ring)
        elif step == "read":
            ring.read(0, ALL_KINDS, 10_000)
        else:
            ring.add(EventKind.LOG, Note("a line"))
            kinds.append(EventKind.LOG)
    count = len(kinds)
    first = max(behind, count - SIZE) + 1
    assert ring.last == count
    assert read_all(ring, behind) == ids(first, count)
    logs = [f"{START}-{number}" for number in range(first, count + 1) if kinds[number - 1] is EventKind.LOG]
    assert read_all(ring, behind, LOG) == logs
    assert ring.has_all_behind(behind) == (behind >= count - SIZE)


def test_a_usage_event_says_what_every_sink_gets() -> None:
    ring = EventRing(START)
    ring.add_rows([exchange(model="a\u2028b")])
    (event,) = parse_events(ring.read(0, ALL_KINDS, 1)[0])
    assert (event.id, event.kind) == (f"{START}-1", "usage")
    said = json.loads(event.data)
    assert (said["request_id"], said["time"], said["model"]) == (
        "req_1",
        "2025-11-24T16:00:00.250Z",
        "a\u2028b",
    )
    assert "\u2028" not in event.data, "some clients cut their lines there"


def test_text_is_bounded_and_the_oldest_goes() -> None:
    ring = EventRing(START, 1000, 10_000)
    for number in range(1000):
        ring.add(EventKind.LOG, Note(f"{number} " + "x" * 900))
        assert ring.text_bytes <= 10_000
    assert read_all(ring) == ids(991, 1000)


def test_one_event_is_held_however_long_it_is() -> None:
    ring = EventRing(START, 1000, 100)
    ring.add(EventKind.LOG, Note("x"))
    ring.add(EventKind.LOG, Note("x" * 1000))
    assert read_all(ring) == ids(2, 2)


@pytest.mark.parametrize("batch", range(1, SIZE + 1))
def test_text_that_batches_of_rows_overwrite_no_longer_counts(batch: int) -> None:
    ring = EventRing(START, SIZE)
    ring.add(EventKind.LOG, Note("a line"))
    for _ in range(0, 2 * SIZE, batch):
        ring.add_rows(rows(0, batch))
    assert ring.text_bytes == 0


def test_text_that_is_overwritten_no_longer_counts() -> None:
    ring = EventRing(START, SIZE)
    ring.add_rows(rows(0, SIZE))
    release(ring)
    assert ring.text_bytes > 0
    ring.add_rows(rows(0, SIZE))
    assert ring.text_bytes == 0
    release(ring)
    for _ in range(SIZE):
        ring.add(EventKind.LOG, Note(""))
    assert ring.text_bytes == len(ring.read(0, ALL_KINDS, 10_000)[0])


def held_rows(ring: EventRing) -> int:
    """Return how many records are held as they are."""
    return sum(isinstance(slot, SettledExchange) for slot in ring._slots)


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({}, 1),
        ({"model": None}, 1),
        ({"model": "m" * MAX_SHARED_CHARS}, 1),
        ({"model": "m" * (MAX_SHARED_CHARS + 1)}, 0),
        ({"dropped_fields": ("n" * MAX_DROPPED_CHARS,)}, 1),
        ({"dropped_fields": ("n" * MAX_DROPPED_CHARS, "m")}, 0),
    ],
    ids=["short", "no model", "long model", "too long a model", "long names", "too long names"],
)
def test_a_record_with_long_names_is_not_held(changes: dict[str, object], held: int) -> None:
    ring = EventRing(START)
    ring.add_rows([exchange(**changes)])
    assert held_rows(ring) == held


def test_records_are_let_go_of_when_asked_for_it() -> None:
    ring = EventRing(START, SIZE)
    ring.add_rows(rows(0, 3))
    release(ring)
    assert held_rows(ring) == 0
    assert read_all(ring) == ids(1, 3)


def test_records_are_let_go_of_in_pieces_whatever_comes_meanwhile() -> None:
    ring = EventRing(START)
    ring.add_rows(rows(0, 900))
    work, most = ring.release_rows(), 900
    for _ in work:
        most, before = held_rows(ring), most
        assert before - most <= 32
        ring.add_rows(rows(0, 1))
        most += 1
    assert 28 <= held_rows(ring) <= 30, "of those that came later"
    assert ring.last - 900 == held_rows(ring)


def test_letting_go_of_records_keeps_the_bound_of_text() -> None:
    ring = EventRing(START, 100, 2000)
    ring.add_rows(rows(0, 100))
    release(ring)
    assert held_rows(ring) == 0
    assert 0 < ring.text_bytes <= 2000


@pytest.mark.parametrize(
    ("event_id", "number"),
    [
        (f"{START}-0", 0),
        (f"{START}-3", 3),
        (f"{START}-4", None),
        ("b1-3", None),
        (f"{START}-", None),
        (f"{START}--1", None),
        (f"{START}-\u0663", None),
        (f"{START}-" + "9" * 5000, None),
        ("3", None),
        ("", None),
    ],
)
def test_only_ids_of_this_process_have_a_number(event_id: str, number: int | None) -> None:
    ring = EventRing(START)
    ring.add_rows(rows(0, 3))
    assert ring.number_of(event_id) == number
