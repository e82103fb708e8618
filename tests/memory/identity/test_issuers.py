"""The keys of issuers over time: when they are fetched, who waits, when they go stale, and reloads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from mgw.identity.key_source import source_of
from tests.support.issuers import JWKS, IssuerBench, IssuerLines, entry, jwk, key_set
from tests.support.laws import examples

OTHER = "https://other.example.com"


@pytest.fixture
def bench() -> IssuerBench:
    return IssuerBench()


def fetched(bench: IssuerBench, *keys: dict[str, Any], headers: str = "", **changes: object) -> None:
    """Have the keys of one entry."""
    bench.begin(entry(jwks_url=JWKS, **changes))
    bench.serve(*(keys or (jwk("a"),)), headers=headers)


def test_nothing_is_fetched_before_it_begins(bench: IssuerBench) -> None:
    bench.keys.use([entry(jwks_url=JWKS)])
    assert bench.keys.ask("corp") is None
    bench.clock.advance(10)
    assert not bench.asked()
    bench.keys.begin()
    assert len(bench.asked()) == 1


def test_a_name_without_an_entry_has_no_keys(bench: IssuerBench) -> None:
    fetched(bench)
    assert (bench.keys.keys_of("else"), bench.keys.ask("else")) == (None, None)


def test_looking_keys_up_asks_nobody(bench: IssuerBench) -> None:
    fetched(bench)
    keys = bench.keys.keys_of("corp")
    assert keys is not None
    assert all(bench.keys.keys_of("corp") is keys for _ in range(100))
    assert len(bench.asked()) == 1


@pytest.mark.parametrize(("headers", "seconds"), [("", 3600), ("Cache-Control: max-age=7200\r\n", 7200)])
def test_keys_are_fetched_again_when_their_time_is_up(
    bench: IssuerBench, headers: str, seconds: float
) -> None:
    fetched(bench, headers=headers)
    bench.clock.advance(seconds - 1)
    assert len(bench.asked()) == 1
    bench.clock.advance(1)
    assert len(bench.asked()) == 2


def test_keys_that_are_soon_stale_are_fetched_before(bench: IssuerBench) -> None:
    fetched(bench, headers="Cache-Control: max-age=86400\r\n", max_stale=1000)
    bench.clock.advance(499)
    assert len(bench.asked()) == 1
    bench.clock.advance(1)
    assert len(bench.asked()) == 2


def test_a_failed_fetch_is_tried_again_ever_more_rarely(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60, 60):
        count = len(bench.asked())
        bench.newest().answer(b"", 500)
        bench.clock.advance(seconds - 0.5)
        assert len(bench.asked()) == count
        bench.clock.advance(0.5)
        assert len(bench.asked()) == count + 1
    bench.serve(jwk("a"))
    bench.clock.advance(3600)
    bench.newest().answer(b"", 500)
    bench.clock.advance(1)
    assert len(bench.asked()) == 12, "and soon again after a good one"


def test_many_failures_make_no_number_too_large(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    for _ in range(2000):
        bench.newest().answer(b"", 500)
        bench.clock.advance(60)
    assert len(bench.asked()) == 2001


def test_one_fetch_is_under_way_for_all_who_ask(bench: IssuerBench) -> None:
    fetched(bench)
    bench.clock.advance(100)
    waiting = [bench.asks() for _ in range(10)]
    assert len(bench.asked()) == 2
    bench.clock.advance(1)
    assert waiting == [[]] * 10
    bench.serve(jwk("a"), jwk("b", "two"))
    assert waiting == [[101]] * 10
    assert bench.ids() == {"a", "b"}


def test_who_asks_joins_a_fetch_that_began_without_them(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    waiting = bench.asks()
    bench.serve(jwk("a"))
    assert waiting == [0]
    assert bench.asks() == [], "that was not a fetch for those who ask"
    assert len(bench.asked()) == 2


def test_asking_fetches_at_most_once_a_minute(bench: IssuerBench) -> None:
    fetched(bench)
    assert bench.asks() == []
    bench.serve(jwk("a"))
    for _ in range(59):
        bench.clock.advance(1)
        assert bench.asks() is None
    assert len(bench.asked()) == 2
    bench.clock.advance(1)
    assert bench.asks() == []
    assert len(bench.asked()) == 3


def test_a_failed_fetch_counts_in_the_minute(bench: IssuerBench) -> None:
    fetched(bench)
    waiting = bench.asks()
    bench.newest().answer(b"", 500)
    assert waiting == [0]
    assert bench.asks() is None
    bench.clock.advance(1)
    assert bench.asks() == [], "the second try is under way"
    assert len(bench.asked()) == 3


def test_who_asks_waits_five_seconds_at_most(bench: IssuerBench) -> None:
    fetched(bench)
    waiting = bench.asks()
    bench.clock.advance(2)
    later = bench.asks()
    bench.clock.advance(3)
    assert (waiting, later) == ([5], [])
    bench.serve(jwk("b"))
    assert later == [5]
    assert bench.ids() == {"b"}, "the fetch went on"


def test_who_leaves_takes_nobody_along(bench: IssuerBench) -> None:
    fetched(bench)
    leaving: Any = bench.keys.ask("corp")
    staying = bench.asks()
    leaving.addErrback(lambda _: None)
    leaving.cancel()
    bench.serve(jwk("b"))
    assert (staying, bench.ids()) == ([0], {"b"})
    assert len(bench.clock.getDelayedCalls()) == 2, "no wait is left: the next fetch, and staleness"


def test_who_waits_finds_the_keys(bench: IssuerBench) -> None:
    fetched(bench)
    found: list[object] = []
    waiting: Any = bench.keys.ask("corp")
    waiting.addCallback(lambda _: found.append(bench.ids()))
    bench.serve(jwk("b"))
    assert found == [{"b"}]


def test_known_keys_are_used_until_they_are_stale(bench: IssuerBench) -> None:
    fetched(bench, max_stale=7200)
    changes = bench.changes
    with IssuerLines() as lines:
        bench.clock.advance(3600)
        for _ in range(3600 // 60 - 1):
            bench.newest().answer(b"", 500)
            bench.clock.advance(60)
        bench.clock.advance(59)
        assert (bench.ids(), bench.changes) == ({"a"}, changes)
        bench.clock.advance(1)
        assert (bench.ids(), bench.changes) == (None, changes + 1)
    stale = [line for line in lines if "503" in line]
    assert stale == ["issuer corp: no keys were fetched for max_stale seconds: its tokens are rejected (503)"]
    bench.clock.advance(60)
    bench.serve(jwk("a"))
    assert (bench.ids(), bench.changes) == ({"a"}, changes + 2)


def test_a_good_fetch_makes_keys_good_for_longer(bench: IssuerBench) -> None:
    fetched(bench, max_stale=7200)
    for _ in range(10):
        bench.clock.advance(3600)
        bench.serve(jwk("a"))
    assert (bench.ids(), bench.changes) == ({"a"}, 1)


def test_a_wall_clock_that_is_set_back_neither_keeps_stale_keys_nor_the_fetch_from_them(
    bench: IssuerBench,
) -> None:
    fetched(bench, max_stale=7200)
    bench.shift = 7199.0  # timers go by the clock that was set back meanwhile
    assert bench.ids() == {"a"}
    bench.shift = 7200.0
    assert len(bench.asked()) == 1
    assert bench.ids() is None
    assert len(bench.asked()) == 2, "whoever looks finds that a fetch is overdue"
    bench.serve(jwk("b"))
    assert bench.ids() == {"b"}


def test_a_wall_clock_that_is_set_forward_makes_no_keys_stale(bench: IssuerBench) -> None:
    fetched(bench, max_stale=7200)
    bench.clock.advance(3600)
    bench.newest().answer(b"", 500)
    bench.shift = -3600.0
    bench.clock.advance(3600)
    assert (bench.ids(), bench.changes) == ({"a"}, 1)
    bench.clock.advance(3600)
    assert (bench.ids(), bench.changes) == (None, 2)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ([jwk("a")], [jwk("a"), jwk("b", "two")], "added: 'b'"),
        ([jwk("a"), jwk("b", "two")], [jwk("a")], "removed: 'b'"),
        ([jwk("a")], [jwk("a", "two")], "changed: 'a'"),
        ([jwk("a")], [jwk("b", "two")], "added: 'b'; removed: 'a'"),
        ([jwk("a")], [jwk("b")], "added: 'b'; removed: 'a'"),
        ([jwk("a"), jwk("b", "two")], [jwk("a"), jwk("b", "two", use="enc")], "removed: 'b'"),
        ([jwk(None)], [jwk(None, "two")], "changed: without an id"),
    ],
)
def test_a_change_is_applied_then_told_then_logged(
    bench: IssuerBench, before: list[dict[str, Any]], after: list[dict[str, Any]], line: str
) -> None:
    fetched(bench, *before)
    bench.clock.advance(3600)
    seen: list[str] = []
    bench.keys.on_change = lambda: seen.append(f"changed, {len(bench.told)} told")
    with IssuerLines() as lines:
        bench.feed.tell_others = lambda *_: seen.append(f"told, {len(lines)} logged")
        bench.serve(*after)
    assert seen == ["changed, 1 told", "told, 0 logged"]
    assert lines == [f"issuer corp: keys {line}"]


def test_the_same_keys_in_another_document_are_no_change(bench: IssuerBench) -> None:
    fetched(bench, jwk("a"), jwk("b", "two"))
    bench.clock.advance(3600)
    with IssuerLines() as lines:
        bench.serve(jwk("b", "two", x5t="new"), jwk("a"), {"kty": "RSA", "use": "enc"})
    assert (lines, bench.changes) == ([], 1)
    assert len(bench.told) == 2


def test_ids_are_quoted_and_cut(bench: IssuerBench) -> None:
    with IssuerLines() as lines:
        fetched(bench, jwk("canary\r\nissuer x: \x1b[31m" + "\u202e" + "k" * 5000))
    (line,) = lines
    assert line.isascii()
    assert line.isprintable()
    assert len(line) < 200
    bench.clock.advance(3600)
    with IssuerLines() as lines:
        bench.serve(*(jwk(f"{'k' * 60}{number}") for number in range(100)))
    assert len(lines[0]) < 2000
    assert "and 80 more" in lines[0]


def test_keys_that_are_left_out_are_named_once_each(bench: IssuerBench) -> None:
    shared = {"kty": "oct", "k": "canary-shared", "kid": "s"}
    with IssuerLines() as lines:
        fetched(bench, jwk("a"), shared)
        for number in range(3):
            bench.clock.advance(3600)
            bench.serve(jwk("a"), shared, jwk(f"b{number}", f"{number}"))
    left_out = [line for line in lines if "left out" in line]
    assert left_out == ["issuer corp: left out key 's': it is a shared secret (oct)"]
    assert "canary" not in "".join(lines)


def test_failed_fetches_are_logged_once_a_minute_and_their_end_once(bench: IssuerBench) -> None:
    with IssuerLines() as lines:
        bench.begin(entry(jwks_url=JWKS))
        for number in range(6):
            bench.newest().answer(b"", 500 + number)
            bench.clock.advance(2**number)
        assert len(lines) == 1
        bench.newest().answer(b"", 500)
        assert len(lines) == 2
        bench.clock.advance(60)
        bench.serve(jwk("a"))
    assert lines[2:] == [
        "issuer corp: the keys could be fetched again",
        "issuer corp: keys added: 'a'",
    ]


def test_what_metrics_say(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    assert [(s.name, s.succeeded, s.failed, s.age) for s in bench.feed.states()] == [("corp", 0, 0, None)]
    bench.newest().answer(b"", 500)
    bench.clock.advance(1)
    bench.serve(jwk("a"))
    bench.clock.advance(30)
    assert [(s.name, s.succeeded, s.failed, s.age) for s in bench.feed.states()] == [("corp", 1, 1, 30.0)]
    bench.keys.use([])
    assert [(s.name, s.succeeded, s.failed, s.age) for s in bench.feed.states()] == [("corp", 1, 1, None)]


def test_a_reload_keeps_keys_and_times_of_what_is_the_same(bench: IssuerBench) -> None:
    fetched(bench)
    bench.clock.advance(1800)
    bench.keys.use([entry(jwks_url=JWKS, audience="other", clock_skew=5, client="email")])
    assert (bench.ids(), bench.changes, len(bench.asked())) == ({"a"}, 1, 1)
    assert bench.told[1:] == []
    bench.clock.advance(1800)
    assert len(bench.asked()) == 2


def test_a_reload_takes_another_name_for_the_same_source(bench: IssuerBench) -> None:
    fetched(bench)
    bench.keys.use([entry(jwks_url=JWKS, name="lab")])
    assert (bench.ids(), bench.ids("lab"), len(bench.asked())) == (None, {"a"}, 1)
    assert bench.changes == 2
    with IssuerLines() as lines:
        bench.clock.advance(3600)
        bench.serve(jwk("b"))
    assert lines == ["issuer lab: keys added: 'b'; removed: 'a'"]
    assert [(s.name, s.succeeded) for s in bench.feed.states()] == [("corp", 1), ("lab", 1)]


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": f"{OTHER}/x"},
        {"jwks_url": f"{JWKS}/other"},
        {"ca_file": "/etc/ca.pem"},
        {"proxy": "http://user:canary@proxy.example:3128"},
        {"token_file": "/nowhere"},
    ],
    ids=str,
)
def test_a_reload_with_another_source_begins_anew(bench: IssuerBench, changes: dict[str, str]) -> None:
    fetched(bench)
    before = source_of(entry(jwks_url=JWKS))
    bench.keys.use([entry(**{"jwks_url": JWKS, **changes})])
    assert (bench.ids(), bench.changes, bench.closed) == (None, 2, [before])
    assert bench.told[-1] == (before.digest, None, None)
    after = source_of(entry(**{"jwks_url": JWKS, **changes}))
    assert after.digest != before.digest
    assert "canary" not in repr(after) + after.digest


def test_an_entry_that_is_gone_is_a_change_if_it_had_keys(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS), entry(name="lab", issuer=OTHER, jwks_url=f"{OTHER}/keys"))
    bench.serve(jwk("a"))
    bench.keys.use([entry(jwks_url=JWKS)])
    assert bench.changes == 1
    bench.keys.use([])
    assert (bench.ids(), bench.changes) == (None, 2)


def test_a_fetch_under_way_of_a_source_that_is_gone_ends(bench: IssuerBench) -> None:
    fetched(bench)
    waiting = bench.asks()
    connection = bench.newest().connection
    bench.keys.use([])
    assert waiting == [0]
    assert connection.closing or connection.aborted
    assert not bench.clock.getDelayedCalls()


def test_a_shorter_time_until_keys_are_stale_counts_at_once(bench: IssuerBench) -> None:
    fetched(bench, headers="Cache-Control: max-age=86400\r\n", max_stale=200_000)
    bench.clock.advance(1000)
    bench.keys.use([entry(jwks_url=JWKS, max_stale=4000)])
    bench.clock.advance(2000)
    assert len(bench.asked()) == 2
    bench.clock.advance(999)
    assert bench.ids() == {"a"}
    bench.clock.advance(1)
    assert bench.ids() is None


def test_with_the_least_max_stale_keys_are_usable_all_the_time(bench: IssuerBench) -> None:
    fetched(bench, max_stale=60)
    for _ in range(5):
        asked = len(bench.asked())
        for _ in range(30):
            bench.clock.advance(1)
            assert bench.ids() == {"a"}
        assert len(bench.asked()) == asked + 1
        bench.clock.advance(9)
        bench.serve(jwk("a"))


def test_nothing_is_left_when_it_stops(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS), entry(name="lab", issuer=OTHER, jwks_url=f"{OTHER}/keys"))
    bench.serve(jwk("a"))
    waiting = bench.asks()
    bench.keys.stop()
    assert waiting == [0]
    assert not bench.clock.getDelayedCalls()
    assert len(bench.closed) == 2
    assert bench.keys.ask("corp") is None
    asked = len(bench.asked())
    bench.keys.use([entry(jwks_url=f"{JWKS}/others")])  # a reload that was under way
    assert len(bench.asked()) == asked
    assert not bench.clock.getDelayedCalls()


def test_a_bug_in_whoever_is_told_does_not_end_the_fetches(bench: IssuerBench) -> None:
    def fail() -> None:
        raise RuntimeError

    bench.keys.on_change = fail
    with IssuerLines() as lines:
        fetched(bench)
    assert "internal error" in lines[0]
    bench.clock.advance(3600)
    assert len(bench.asked()) == 2


def test_issuers_do_not_wait_for_one_another(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS), entry(name="lab", issuer=OTHER, jwks_url=f"{OTHER}/keys"))
    bench.newest(OTHER).answer(key_set(jwk("o")))
    assert (bench.ids("lab"), bench.ids()) == ({"o"}, None)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.sampled_from([0.5, 1.0, 5.0, 30.0, 61.0, 400.0, 3600.0])),
        st.tuples(st.just("answer"), st.sampled_from(["a", "b", None])),
        st.tuples(st.just("ask"), st.none()),
    ),
    max_size=40,
)


@examples(60)
@given(steps=STEPS)
def test_keys_are_those_of_the_last_good_fetch_and_no_older_than_may_be(steps: list[tuple[str, Any]]) -> None:
    """Drawn: time, answers and questions; a model says which keys there are."""
    bench = IssuerBench(Clock())
    bench.begin(entry(jwks_url=JWKS, max_stale=2000))
    keys, good_at, asked_at = None, float("-inf"), float("-inf")
    waits: list[tuple[float, list[float]]] = []
    for what, value in steps:
        now = bench.clock.seconds()
        newest = bench.newest()
        if what == "advance":
            bench.clock.pump([0.5] * int(value * 2))
        elif what == "answer" and not newest.connection.over and not newest.connection.closing:
            if value is None:
                newest.answer(b"", 500)
            else:
                bench.serve(jwk(value))
                keys, good_at = value, now
        elif what == "ask":
            count = len(bench.asked())
            came = bench.asks()
            if came is not None:
                waits.append((now, came))
            if len(bench.asked()) > count:
                assert now - asked_at >= 60
                asked_at = now
        usable = bench.clock.seconds() < good_at + 2000
        assert bench.ids() == ({keys} if usable else None)
    bench.clock.pump([0.5] * 10)
    assert all(came and came[0] - begun <= 5 for begun, came in waits)
    bench.keys.stop()
    assert not bench.clock.getDelayedCalls()
