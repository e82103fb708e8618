"""Replies of Redis are walked over before anybody makes room for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hiredis import ProtocolError, Reader
from hypothesis import given
from hypothesis import strategies as st

from mgw.redis.replies import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_HOSTS,
    MAX_NUMBER,
    MAX_REPLY_BYTES,
    MAX_REST_MS,
    Beat,
    Begun,
    Executed,
    ReplyGuard,
    Sums,
    TotalRow,
    UnreadableReplyError,
    read_beat,
    read_begun,
    read_cooldowns,
    read_ended,
    read_executed,
    read_state,
)

SCALARS = st.one_of(
    st.integers(-5, 10**6).map(b":%d\r\n".__mod__),
    st.binary(max_size=20).map(lambda data: b"$%d\r\n%b\r\n" % (len(data), data)),
    st.sampled_from([b"+OK\r\n", b"-ERR no\r\n", b"_\r\n", b"#t\r\n", b",1.5\r\n", b"$-1\r\n", b"*-1\r\n"]),
)


def _array(kind: bytes, each: int) -> Any:  # Any: a function that strategies map with
    return lambda items: (
        kind + b"%d\r\n" % (len(items) // each) + b"".join(items[: len(items) // each * each])
    )


REPLIES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(_array(b"*", 1)), st.lists(SCALARS, max_size=4).map(_array(b">", 1))
    ),
    max_leaves=8,
)


def refuses(pieces: list[bytes]) -> bool:
    guard = ReplyGuard()
    try:
        for piece in pieces:
            guard.feed(piece)
    except UnreadableReplyError:
        return True
    return False


@given(replies=st.lists(REPLIES, max_size=5), data=st.data())
def test_what_redis_may_say_passes_in_any_pieces(replies: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(replies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert not refuses(pieces)
    guard = ReplyGuard()
    guard.feed(whole)
    assert guard == ReplyGuard(), "nothing is held behind whole replies"


@given(
    pieces=st.lists(
        st.one_of(REPLIES, st.binary(max_size=12), st.text("*%$>:-0123456789\r\n").map(str.encode))
    )
)
def test_what_the_guard_lets_pass_is_refused_by_its_reader_or_small(pieces: list[bytes]) -> None:
    refused = refuses(pieces)
    assert refused == refuses([b"".join(pieces)]), "however it is cut"
    if refused:
        return
    reader = Reader()
    try:
        for piece in pieces:
            reader.feed(piece)
        while reader.gets() is not False:
            pass
    except (ProtocolError, TypeError, ValueError, OverflowError):
        return


@pytest.mark.parametrize(
    "data",
    [
        *(b"*1000000000\r\n", b"%1000000000\r\n", b"~1000000000\r\n", b">1000000000\r\n", b"$1000000000\r\n"),
        *(
            b"*-2\r\n",
            b"$-2\r\n",
            b"$?\r\n",
            b"*?\r\n",
            b"|1\r\n",
            b"*\r\n",
            b"$1_0\r\n",
            b"HTTP/1.1 400 Bad\r\n",
            b"\r\n",
        ),
        *(b"*1\r\n" * 9, b"*100000\r\n*1\r\n", b":1\n", b"$99999999999999999999\r\n"),
    ],
)
def test_what_asks_for_too_much_or_is_no_reply_is_refused(data: bytes) -> None:
    assert refuses([data])
    assert refuses([data[at : at + 1] for at in range(len(data))])


def test_a_line_or_a_text_without_an_end_is_refused_in_time() -> None:
    assert refuses([b"+"] + [b"x" * 65536] * 65)
    assert refuses([b"$%d\r\n" % MAX_REPLY_BYTES])
    assert not refuses([b"*%d\r\n" % MAX_ELEMENTS + b"_\r\n" * MAX_ELEMENTS])


def takes_text(size: int) -> bool:
    """Whether a text passes whose reply has so many bytes, with its head and the line break behind it."""
    head = b"$%d\r\n"
    length = size - len(head % size) - 2
    return not refuses([head % length + b"x" * length, b"\r\n"])


def announces_text(size: int) -> bool:
    """Whether a text may be announced that ends so many bytes behind the beginning of its reply."""
    head = b"$%d\r\n"
    return not refuses([head % (size - len(head % size))])


def reads(read: Callable[[Any], object], reply: Any) -> bool:
    try:
        read(reply)
    except UnreadableReplyError:
        return False
    return True


LIMITS: Final[dict[str, tuple[Callable[[int], bool], int]]] = {
    "the bytes of a text": (takes_text, MAX_REPLY_BYTES),
    "the bytes of a text that has not come": (announces_text, MAX_REPLY_BYTES),
    "the bytes of a line": (lambda size: not refuses([b"+" + b"x" * (size - 3) + b"\r\n"]), MAX_REPLY_BYTES),
    "elements": (lambda count: not refuses([b"*%d\r\n" % count]), MAX_ELEMENTS),
    "elements of two arrays": (
        lambda count: not refuses([b"*2\r\n_\r\n*%d\r\n" % (count - 2)]),
        MAX_ELEMENTS,
    ),
    "arrays within arrays": (lambda levels: not refuses([b"*1\r\n" * levels + b"_\r\n"]), MAX_DEPTH),
    "hosts": (lambda hosts: reads(read_beat, [1, hosts]), MAX_HOSTS),
    "how long a limit stands": (lambda wait: reads(read_begun, [0, 1, wait, [], []]), MAX_NUMBER),
    "how long an account rests": (lambda rest: reads(read_cooldowns, [b"a", b"%d" % rest]), MAX_REST_MS),
}


@pytest.mark.parametrize("name", LIMITS)
def test_exactly_so_much_is_taken_and_one_more_is_not(name: str) -> None:
    takes, limit = LIMITS[name]
    assert (takes(limit), takes(limit + 1)) == (True, False)


def test_an_answer_has_the_shape_that_its_script_gives_it() -> None:
    assert read_begun([1, 0, 0, [b"1700000000000", b""], []]) == Begun(1, 0, 0, ("1700000000000", ""))
    assert read_begun([0, 2, 1000, [], [[9, 2, 1, 0, 0]]]) == Begun(0, 2, 1000, (), (Sums(9, 2, 1),))
    assert read_begun([-1, 0, 0, [], []]) == Begun(-1, 0, 0)
    assert read_beat([1, 3]) == Beat(is_known=True, hosts=3)
    assert read_beat([0, 0]) == Beat(is_known=False, hosts=0)
    assert read_cooldowns([b"a", b"12", b"b", b"0"]) == [(b"a", 12), (b"b", 0)]


@pytest.mark.parametrize(
    "reply",
    [
        *(
            None,
            1,
            b"",
            {},
            set(),
            [],
            [1],
            [1, 0, 0, []],
            [1, 0, 0, [], [], 0],
            [True, 0, 0, [], []],
            [2, 0, 0, [], []],
            [-2, 0, 0, [], []],
        ),
        *([1, None, 0, [], []], [1, b"0", 0, [], []], [1, -1, 0, [], []], [1, 0, None, [], []]),
        *([1, 0, 1.5, [], []], [b"1", 0, 0, [], []], [1, 0, 0, b"", []], [1, 0, 0, [1], []]),
        *([1, 0, 0, [b"x"], []], [1, 0, 0, [b"\xff"], []], [1, 0, 0, [b"1" * 21], []]),
        *([0, 1, 0, [], []], [0, 1, -1, [], []], [0, 1, MAX_NUMBER + 1, [], []], [[1], 0, 0, [], []]),
        *([1, 0, 0, [], b""], [1, 0, 0, [], [1]], [1, 0, 0, [], [[1, 2]]], [1, 0, 0, [], [[1, 2, b"3"]]]),
    ],
    ids=repr,
)
def test_any_other_shape_of_a_decision_is_unreadable(reply: object) -> None:
    with pytest.raises(UnreadableReplyError):
        read_begun(reply)


@pytest.mark.parametrize(
    "reply",
    [None, [], [1], [1, 0], [1, -1], [2, 3], [1, MAX_HOSTS + 1], [1, None], [True, 1], [1, 1, 1], [1.0, 1]],
    ids=repr,
)
def test_any_other_shape_of_a_heartbeat_is_unreadable(reply: object) -> None:
    with pytest.raises(UnreadableReplyError):
        read_beat(reply)


@pytest.mark.parametrize(
    "reply",
    [None, b"", [b"a"], [b"a", 1], [1, b"1"], [b"a", b"-1"], [b"a", b"1e3"], [b"a", b"9" * 16], [b"a", None]],
    ids=repr,
)
def test_any_other_shape_of_rests_is_unreadable(reply: object) -> None:
    with pytest.raises(UnreadableReplyError):
        read_cooldowns(reply)


@pytest.mark.parametrize(
    "reply",
    [None, 1, [1], [0, []], [1, [[1, 2, 3]]], [1, [[1, 2, 3, 0, 0, 4, 2**53 + 1]]], [1, [], 2]],
    ids=repr,
)
def test_any_other_shape_of_an_end_is_unreadable(reply: object) -> None:
    with pytest.raises(UnreadableReplyError):
        read_ended(reply)


def test_an_end_that_a_host_without_an_id_has_told_counts_nothing() -> None:
    assert read_ended([]) is None
    assert read_ended([1, [[7, 6, 5, 4, 3, 2, 1]]]) == (Sums(7, 6, 5, 4, 3, 2, 1),)
    assert read_ended([1, [[2**60, 2**60, 0, 0, 0, 0, 0]]]) == (Sums(MAX_NUMBER, MAX_NUMBER, 0),)


ABOUT = b"group:research/alice\nusd_total\n1\ntotal\n9007199254740992"


@pytest.mark.parametrize(
    "reply",
    [
        *(None, [1], [[ABOUT, 1, 2]], [[ABOUT, 1, 2, b"3"]], [[b"alice\nusd_total\n1\ntotal", 1, 2, 3]]),
        *(
            [[ABOUT + b"0", 1, 2, 3]],
            [[ABOUT.replace(b"\n1\n", b"\n2\n"), 1, 2, 3]],
            [[ABOUT[:-1] + b"x", 1, 2, 3]],
        ),
    ],
    ids=repr,
)
def test_any_other_shape_of_totals_is_unreadable(reply: object) -> None:
    with pytest.raises(UnreadableReplyError):
        read_state(reply)


def test_a_total_says_what_it_is() -> None:
    row = TotalRow("group:research/alice", "usd_total", True, "total", 2**53, 9, 5, 2)
    assert read_state([[ABOUT, 9, 5, 2]]) == [row]


def test_what_was_executed_are_numbers_and_buckets() -> None:
    assert read_executed([[3, []], [0, [b"7", b" 12 "]]]) == [
        Executed(3, {}),
        Executed(0, {7: ("", "12", "")}),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        3,
        [b"3", []],
        [-1, []],
        [1],
        [1, b""],
        [1, [b"1"]],
        [1, [b"x", b"1"]],
        [1, [b"1", b"x"]],
        [1, [1, b"1"]],
    ],
    ids=repr,
)
def test_any_other_shape_of_what_was_executed_is_unreadable(entry: object) -> None:
    with pytest.raises(UnreadableReplyError):
        read_executed([entry])
