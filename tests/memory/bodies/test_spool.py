"""The promises of mgw.bodies.spool."""

from __future__ import annotations

import errno
import tracemalloc
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from mgw.bodies.budget import BodyBudget
from mgw.bodies.file import DISK_SECONDS
from mgw.bodies.source import PIECE_BYTES, BodyGoneError, BodySource, read_all, read_pieces
from mgw.bodies.spool import WAITING_BYTES, Spool
from mgw.nouns.errors import GatewayError
from tests.support.bodies import LARGE, Uploader, is_source, patterned, spooled
from tests.support.deferreds import result_of
from tests.support.reactor import in_reactor, running_reactor

T = TypeVar("T")


@given(
    sizes=st.lists(st.integers(1, 300_000), max_size=8),
    steps=st.lists(st.booleans(), max_size=8),
)
def test_any_cut_gives_the_same_bytes_back(sizes: list[int], steps: list[bool]) -> None:
    whole = patterned(sum(sizes))
    with TemporaryDirectory() as directory:
        uploader = Uploader(directory, hashes=True)
        position = 0
        for index, size in enumerate(sizes):
            uploader.send(whole[position : position + size])
            position += size
            if uploader.disk.waiting and steps[index : index + 1] == [True]:
                uploader.disk.step()
        body = uploader.finished()
        assert isinstance(body, bytes) == (len(whole) <= PIECE_BYTES)
        assert (body if isinstance(body, bytes) else uploader.all_of(body)) == whole
        assert isinstance(body, bytes) or body.digest == sha256(whole).digest()
        uploader.body.close()
        uploader.disk.run()


def test_a_body_that_nobody_signs_is_not_hashed(uploader: Uploader) -> None:
    uploader.send(LARGE)
    assert is_source(uploader.finished()).digest is None


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES])
def test_a_small_body_never_meets_the_disk(uploader: Uploader, size: int) -> None:
    uploader.send(b"x" * size)
    assert result_of(uploader.body.finish()) == b"x" * size
    assert uploader.disk.done == 0


def test_the_room_of_a_body_in_memory_is_the_callers_once_it_is_finished(uploader: Uploader) -> None:
    uploader.send(b"body")
    result_of(uploader.body.finish())
    uploader.body.close()
    assert uploader.memory.held == 4


def test_a_large_body_leaves_the_memory_when_it_is_written(uploader: Uploader) -> None:
    uploader.send(LARGE)
    body = is_source(uploader.finished())
    assert (body.size, uploader.body.held) == (len(LARGE), 0)
    assert uploader.held == (0, len(LARGE))


def test_one_write_is_under_way_at_a_time_and_is_worth_its_thread(uploader: Uploader) -> None:
    for start in range(0, len(LARGE), 1000):
        uploader.send(LARGE[start : start + 1000])
        assert len(uploader.disk.waiting) <= 1
    uploader.finished()
    assert uploader.disk.done == 4


def test_a_client_pauses_while_too_much_waits_for_the_disk_and_then_goes_on(uploader: Uploader) -> None:
    while not uploader.paused:
        uploader.send(b"x" * 10_000)
    assert WAITING_BYTES < uploader.body.held <= WAITING_BYTES + 10_000
    while uploader.paused:
        uploader.disk.step()
    assert uploader.body.held <= WAITING_BYTES // 2
    assert uploader.pauses == 1


def test_a_client_that_was_paused_at_its_end_goes_on_too(uploader: Uploader) -> None:
    uploader.send(b"x" * (2 * WAITING_BYTES))
    assert uploader.paused
    uploader.finished()
    assert not uploader.paused


@pytest.mark.parametrize("how", ["closed", "failed"])
def test_the_client_of_a_body_that_is_over_is_not_told_to_go_on(uploader: Uploader, how: str) -> None:
    uploader.send(b"x" * (2 * WAITING_BYTES))
    if how == "closed":
        uploader.body.close()
    else:
        uploader.disk.fail(OSError(errno.EIO, "Input/output error"))
    uploader.disk.run()
    assert uploader.paused


def test_the_end_of_a_body_may_come_while_its_client_is_told_to_go_on(uploader: Uploader) -> None:
    finished: list[Deferred[bytes | BodySource]] = []

    def send_the_rest() -> None:
        uploader.send(b"end")
        finished.append(uploader.body.finish())

    uploader.on_resume = send_the_rest
    uploader.send(b"x" * (WAITING_BYTES + 1))
    uploader.disk.run()
    body = is_source(result_of(finished[0]))
    assert uploader.all_of(body) == b"x" * (WAITING_BYTES + 1) + b"end"


def test_a_body_of_any_size_takes_little_memory_on_a_slow_disk(uploader: Uploader) -> None:
    piece, sent, most = patterned(64 * 1024), 0, 0
    tracemalloc.start()
    while sent < 32 * 1024 * 1024:
        if uploader.paused:
            uploader.disk.step()
        else:
            uploader.send(piece)
            sent += len(piece)
        most = max(most, uploader.memory.held)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most <= WAITING_BYTES + len(piece)
    assert peak < 4 * 1024 * 1024
    assert is_source(uploader.finished()).size == sent


def test_closing_in_the_middle_lets_the_write_end_and_gives_everything_back(
    uploader: Uploader, tmp_path: Path
) -> None:
    uploader.send(LARGE)
    uploader.body.close()
    uploader.body.close()
    assert len(uploader.disk.waiting) == 1
    uploader.disk.run()
    assert uploader.held == (0, 0)
    assert (uploader.errors, spooled(tmp_path)) == ([], set())


def test_closing_tells_whoever_waits_for_the_end(uploader: Uploader) -> None:
    uploader.send(LARGE)
    finished = uploader.body.finish()
    uploader.body.close()
    with pytest.raises(BodyGoneError):
        result_of(finished)
    uploader.disk.run()


def test_who_no_longer_waits_for_the_end_leaves_the_body_to_be_closed(uploader: Uploader) -> None:
    uploader.send(LARGE)
    finished = uploader.body.finish()
    finished.cancel()
    with pytest.raises(CancelledError):
        result_of(finished)
    uploader.disk.run()
    assert uploader.held == (0, len(LARGE))
    uploader.body.close()
    uploader.disk.run()
    assert uploader.held == (0, 0)


def test_a_body_that_is_closed_is_gone_for_its_readers(uploader: Uploader) -> None:
    uploader.send(LARGE)
    body = is_source(uploader.finished())
    uploader.body.close()
    with pytest.raises(BodyGoneError):
        result_of(body.read(0, 1))
    uploader.disk.run()


def test_nothing_of_a_body_is_printed(uploader: Uploader) -> None:
    uploader.send(b"canary")
    assert "canary" not in repr(uploader.body)


EVENTS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from([1, 100_000, 300_000, 1_500_000])),
    st.tuples(st.just("step"), st.integers(0, 3)),
    st.tuples(
        st.sampled_from(["fail", "finish", "read", "leave", "close", "full", "crowded", "hang"]), st.just(0)
    ),
)


class Schedule:
    """One body through whatever happens to it, in any order."""

    def __init__(self, directory: str) -> None:
        self.uploader = Uploader(directory)
        self.finished: Deferred[bytes | BodySource] | None = None
        self.results: list[object] = []
        self.reads: list[Deferred[bytes]] = []
        self.sent = b""
        self.told = 0

    def write(self, size: int) -> None:
        if self.finished is None:
            piece = patterned(size)
            self.sent += piece
            self.uploader.send(piece)

    def step(self, index: int) -> None:
        waiting = self.uploader.disk.waiting
        if waiting:
            self.uploader.disk.step(index % len(waiting))

    def fail(self, _: int) -> None:
        if self.uploader.disk.waiting:
            self.uploader.disk.fail(OSError(errno.EIO, "Input/output error"))

    def finish(self, unused: int) -> None:
        if self.finished is None:
            self.finished = self.uploader.body.finish()
            _ = self.finished.addBoth(self.results.append)

    def read(self, _: int) -> None:
        for result in self.results:
            if hasattr(result, "read"):
                read = result.read(0, PIECE_BYTES)
                read.addErrback(lambda failure: None)
                self.reads.append(read)

    def leave(self, _: int) -> None:
        for read in self.reads:
            read.cancel()
        if self.finished is not None:
            self.finished.cancel()

    def close(self, _: int) -> None:
        self.uploader.body.close()

    def hang(self, _: int) -> None:
        self.uploader.clock.advance(DISK_SECONDS)

    def full(self, _: int) -> None:
        self.uploader.room.max_bytes = 1_000_000

    def crowded(self, _: int) -> None:
        self.uploader.memory.max_bytes = 1_200_000


@pytest.mark.slow
@given(events=st.lists(EVENTS, max_size=25))
def test_whatever_happens_everything_is_given_back_and_told_at_most_once(
    events: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as directory:
        schedule = Schedule(directory)
        for name, argument in events:
            act: Callable[[int], None] = getattr(schedule, name)
            act(argument)
        uploader = schedule.uploader
        whole = [result for result in schedule.results if isinstance(result, bytes)]
        uploader.body.close()
        uploader.disk.run()
        assert uploader.held == (sum(map(len, whole)), 0)
        assert whole in ([], [schedule.sent])
        assert len(uploader.errors) <= 1
        assert len(schedule.results) == (schedule.finished is not None)
        assert not spooled(Path(directory))
        assert not uploader.clock.getDelayedCalls()


@pytest.mark.slow
def test_bodies_go_through_real_threads_to_a_real_disk_and_back(tmp_path: Path) -> None:
    body_bytes = patterned(20 * 1024 * 1024)
    reactor = running_reactor()
    pool = ThreadPool(0, 3, "bodies")

    def run(work: Callable[[], T], /) -> Deferred[T]:
        return deferToThreadPool(reactor, pool, work)

    async def there_and_back() -> bytes:
        spool = Spool(str(tmp_path / "new"), run, BodyBudget(1 << 30), Clock())
        errors: list[GatewayError] = []
        memory = BodyBudget(1 << 30)
        paused: list[bool] = []
        body = spool.begin(
            pause=lambda: paused.append(True), resume=paused.clear, failed=errors.append, memory=memory
        )
        for start in range(0, len(body_bytes), 100_000):
            body.write(body_bytes[start : start + 100_000])
        source = is_source(await body.finish())
        pieces: list[bytes] = []
        await read_pieces(source, pieces.append)
        whole = await read_all(source)
        assert whole == b"".join(pieces)
        body.close()
        assert (memory.held, errors, paused) == (0, [], [])
        return whole

    pool.start()
    try:
        assert in_reactor(there_and_back) == body_bytes
    finally:
        pool.stop()
    assert not spooled(tmp_path)
