"""Keys of issuers from the supervisor to its workers, over a channel in memory."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mgw.clients.tokens.key_set import MAX_SET_BYTES
from mgw.identity.issuers import IssuerKeys
from mgw.identity.key_source import source_of
from mgw.workers.channel import ChannelError
from mgw.workers.messages import (
    ChannelMessage,
    Done,
    Failed,
    IssuerKeysAnswer,
    IssuerKeysChanged,
    IssuerKeysQuestion,
    KeysChanged,
)
from mgw.workers.pool import TAKEN_SECONDS, WorkerPool
from mgw.workers.shared_issuer_keys import AT_ONCE_BYTES, SupervisorKeys, answer_issuer_question
from tests.support.channel_messages import sent
from tests.support.deferreds import result_of
from tests.support.issuers import JWKS, IssuerBench, IssuerLines, entry, ids_of, jwk, key_set

Work = tuple[Callable[[], Any], Callable[[Any], None]]


def large(*keys: dict[str, Any]) -> bytes:
    """A set of keys that is parsed in a thread."""
    return key_set(*keys) + b" " * AT_ONCE_BYTES


class Threads:
    """Work that a test does when it wants to."""

    def __init__(self) -> None:
        self.waiting: list[Work] = []
        self.stopped = False

    def run(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.waiting.append((work, then))

    def stop(self) -> None:
        self.stopped = True

    def work(self) -> None:
        while self.waiting:
            work, then = self.waiting.pop(0)
            then(work())


class Questions:
    """The channel of a worker: what it asks waits for :meth:`deliver`."""

    def __init__(self, bench: IssuerBench, tell: Callable[[], None]) -> None:
        self._bench = bench
        self._tell = tell
        self.asked: list[tuple[IssuerKeysQuestion, Deferred[ChannelMessage]]] = []
        self.count = 0

    def ask(self, question: ChannelMessage, seconds: float) -> Deferred[ChannelMessage]:
        assert isinstance(question, IssuerKeysQuestion)
        assert seconds == 5.0
        self.count += 1
        answer: Deferred[ChannelMessage] = Deferred()
        self.asked.append((question, answer))
        return answer

    def deliver(self) -> None:
        """Have the supervisor get the questions, and answer them when it likes."""
        asked, self.asked = self.asked, []
        for question, answer in asked:
            found = answer_issuer_question(question, self._bench.feed)
            _ = found.addCallback(self._answer, answer)

    def _answer(self, message: ChannelMessage, answer: Deferred[ChannelMessage]) -> None:
        self._tell()  # it was said before
        answer.callback(sent(message))

    def fail(self) -> None:
        """Lose the channel."""
        asked, self.asked = self.asked, []
        for _, answer in asked:
            answer.errback(ChannelError("the channel was lost"))


class Play:
    """A supervisor and one worker."""

    def __init__(self, **changes: object) -> None:
        self.bench = IssuerBench()
        self.settings = entry(jwks_url=JWKS, **changes)
        self.clock: Clock = self.bench.clock
        self.threads = Threads()
        self.questions = Questions(self.bench, self.tell)
        self.changes = 0
        self.worker, self.feed = self.start_worker()

    def start_worker(self) -> tuple[IssuerKeys, SupervisorKeys]:
        """Start another worker in place of the first."""
        self.feed = feed = SupervisorKeys(self.clock, self.clock.seconds, self.questions, self.threads)
        self.worker = worker = IssuerKeys(self.clock, self.clock.seconds, feed, self._on_change)
        for found in self.bench.feed.documents():
            _ = feed.take(IssuerKeysChanged(*found))
        worker.use([self.settings])
        worker.begin()
        return worker, feed

    def begin(self, *keys: dict[str, Any]) -> None:
        """Have the supervisor fetch keys, and the worker know them."""
        self.bench.begin(self.settings)
        self.bench.serve(*keys)
        self.tell()
        self.threads.work()

    def tell(self) -> None:
        """Deliver what the supervisor has told."""
        told, self.bench.told[:] = list(self.bench.told), []
        for message in told:
            found = sent(IssuerKeysChanged(*message))
            assert isinstance(found, IssuerKeysChanged)
            _ = self.feed.take(found)

    def ids(self) -> set[str | None] | None:
        return ids_of(self.worker.keys_of("corp"))

    def asks(self) -> list[object] | None:
        """Ask in the worker; the list has the ids that are known when the answer comes."""
        waiting: Any = self.worker.ask("corp")
        if waiting is None:
            return None
        came: list[object] = []
        waiting.addCallback(lambda _: came.append(self.ids()))
        return came

    def waits_for_first(self) -> list[object] | None:
        """Wait for the first keys in the worker, likewise."""
        waiting: Any = self.worker.first("corp")
        if waiting is None:
            return None
        came: list[object] = []
        waiting.addCallback(lambda _: came.append(self.ids()))
        return came

    def _on_change(self) -> None:
        self.changes += 1


def test_a_worker_knows_keys_that_the_supervisor_fetched() -> None:
    play = Play()
    play.begin(jwk("a"))
    assert (play.ids(), play.changes) == ({"a"}, 1)


@pytest.mark.parametrize("more", [0, 1])
def test_a_worker_parses_small_documents_at_once(more: int) -> None:
    play = Play()
    play.begin(jwk("a"))
    document = key_set(jwk("b"))
    document += b" " * (AT_ONCE_BYTES - len(document) + more)
    _ = play.feed.take(IssuerKeysChanged(source_of(play.settings).digest, document, 0.0))
    assert play.ids() == ({"a"} if more else {"b"})


def test_a_worker_parses_large_ones_in_a_thread_and_has_the_keys_before_meanwhile() -> None:
    play = Play()
    play.begin(jwk("a"))
    play.clock.advance(3600)
    play.bench.newest().answer(large(jwk("b")))
    play.tell()
    assert play.ids() == {"a"}
    play.threads.work()
    assert (play.ids(), play.changes) == ({"b"}, 2)


def test_a_worker_that_begins_later_has_the_keys_with_their_age_at_once() -> None:
    play = Play(max_stale=7200)
    play.bench.begin(play.settings)
    play.bench.newest().answer(large(jwk("a")))
    play.clock.advance(3500)
    play.start_worker()
    assert play.ids() == {"a"}
    assert not play.threads.waiting
    play.clock.advance(3699)
    assert play.ids() == {"a"}
    play.clock.advance(1)
    assert play.ids() is None


def test_a_good_fetch_without_a_change_keeps_the_keys_of_workers_good() -> None:
    play = Play(max_stale=7200)
    play.begin(jwk("a"))
    for _ in range(5):
        play.clock.advance(3600)
        play.bench.serve(jwk("a"))
        assert [(document, age) for _, document, age in play.bench.told] == [(None, 0.0)]
        play.tell()
        assert not play.threads.waiting
    assert (play.ids(), play.changes) == ({"a"}, 1)
    play.clock.pump([60.0] * 120)
    assert (play.ids(), play.changes) == (None, 2)


def test_what_is_told_is_known_in_its_order() -> None:
    play = Play()
    play.begin(jwk("a"))
    digest = source_of(play.settings).digest
    for document, age in ((large(jwk("b")), 0.0), (None, 0.0), (key_set(jwk("c")), 0.0), (None, 5.0)):
        _ = play.feed.take(IssuerKeysChanged(digest, document, age))
    assert len(play.threads.waiting) == 1
    play.threads.work()
    assert play.ids() == {"c"}
    _ = play.feed.take(IssuerKeysChanged(digest, large(jwk("d")), 0.0))
    _ = play.feed.take(IssuerKeysChanged(digest, None, None))
    play.threads.work()
    assert play.ids() is None


def test_a_worker_says_when_it_knows_what_it_was_told() -> None:
    play = Play()
    play.begin(jwk("a"))
    digest = source_of(play.settings).digest
    known: list[set[str | None] | None] = []
    for document in (key_set(jwk("b")), large(jwk("c")), key_set(jwk("d"))):
        taken = play.feed.take(IssuerKeysChanged(digest, document, 0.0))
        _ = taken.addCallback(lambda _: known.append(play.ids()))
    assert known == [{"b"}]
    play.threads.work()
    assert known == [{"b"}, {"d"}, {"d"}]


def test_the_log_tells_of_a_change_when_all_workers_use_it() -> None:
    bench = IssuerBench()
    bench.taken = Deferred()
    with IssuerLines() as lines:
        bench.begin(entry(jwks_url=JWKS))
        bench.serve(jwk("a"))
        assert (bench.ids(), lines) == ({"a"}, [])
        bench.taken.callback(None)
        assert lines == ["issuer corp: keys added: 'a'"]


class Worker:
    """A worker as the supervisor sees it."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.channel = self
        self.told: list[ChannelMessage] = []
        self.asked: list[tuple[ChannelMessage, float, Deferred[ChannelMessage]]] = []

    def tell(self, message: ChannelMessage) -> None:
        self.told.append(message)

    def ask(self, question: ChannelMessage, seconds: float) -> Deferred[ChannelMessage]:
        answer: Deferred[ChannelMessage] = Deferred()
        self.asked.append((question, seconds, answer))
        return answer


def test_new_keys_are_taken_over_when_each_worker_has_answered_or_cannot() -> None:
    workers: Any = [Worker(0), Worker(1)]  # Any: in place of those of a supervisor
    supervisor: Any = SimpleNamespace(workers=workers)
    pool = WorkerPool(supervisor)
    assert pool.tell_issuer_keys("d", None, 0.0) is None
    assert pool.tell_issuer_keys("d", None, None) is None
    assert [len(worker.told) for worker in workers] == [2, 2]
    taken = pool.tell_issuer_keys("d", b"{}", 0.0)
    assert taken is not None
    (first,), (second,) = (worker.asked for worker in workers)
    assert first[:2] == (IssuerKeysChanged("d", b"{}", 0.0), TAKEN_SECONDS)
    first[2].callback(Done())
    assert not taken.called
    second[2].errback(ChannelError("the channel was lost"))
    assert result_of(taken) is None


def test_the_same_goes_for_keys_of_files() -> None:
    workers: Any = [Worker(0)]  # Any: as above
    supervisor: Any = SimpleNamespace(workers=workers)
    taken = WorkerPool(supervisor).tell_keys((), ("ann",))
    ((question, _, answer),) = workers[0].asked
    assert isinstance(question, KeysChanged)
    assert question.gone == ("ann",)
    assert not taken.called
    answer.callback(Done())
    assert result_of(taken) is None


def test_without_workers_new_keys_are_taken_over_at_once() -> None:
    taken = WorkerPool().tell_issuer_keys("d", b"{}", 0.0)
    assert taken is not None
    assert result_of(taken) is None


def test_a_worker_asks_for_a_key_that_it_does_not_know() -> None:
    play = Play()
    play.begin(jwk("a"))
    waiting = [play.asks() for _ in range(3)]
    assert play.questions.count == 1
    play.questions.deliver()
    play.bench.newest().answer(large(jwk("a"), jwk("b", "two")))
    assert waiting == [[], [], []], "what was told before the answer is not parsed yet"
    play.threads.work()
    assert waiting == [[{"a", "b"}]] * 3
    play.clock.advance(59)
    assert play.asks() is None
    play.clock.advance(1)
    assert play.asks() == []


def test_the_answer_waits_for_what_was_told_before_it() -> None:
    play = Play()
    play.begin(jwk("a"))
    waiting = play.asks()
    (_, answer), play.questions.asked = play.questions.asked[0], []
    _ = play.bench.asks()
    play.bench.newest().answer(large(jwk("b")))
    play.tell()
    answer.callback(IssuerKeysAnswer(60.0))
    assert (waiting, play.ids()) == ([], {"a"})
    play.threads.work()
    assert waiting == [{"b"}]


def test_within_the_minute_of_another_worker_s_question_the_answer_comes_at_once() -> None:
    play = Play()
    play.begin(jwk("a"))
    _ = play.bench.asks()
    play.bench.serve(jwk("a"))
    play.clock.advance(20)
    waiting = play.asks()
    play.questions.deliver()
    assert waiting == [{"a"}]
    assert len(play.bench.asked()) == 2
    play.clock.advance(39)
    assert play.asks() is None, "the answer said for how long"
    play.clock.advance(1)
    assert play.asks() == []


def test_without_an_answer_nobody_waits_longer_than_five_seconds() -> None:
    play = Play()
    play.begin(jwk("a"))
    waiting = play.asks()
    play.clock.advance(5)
    assert waiting == [{"a"}]
    play.questions.fail()
    again = play.asks()
    assert again == []
    play.questions.fail()
    assert again == [{"a"}]


def test_a_fetch_that_takes_long_is_answered_after_five_seconds() -> None:
    play = Play()
    play.begin(jwk("a"))
    waiting = play.asks()
    play.questions.deliver()
    play.clock.advance(5)
    assert waiting == [{"a"}]
    assert play.asks() is None
    play.bench.serve(jwk("b"))
    play.tell()
    play.threads.work()
    assert play.ids() == {"b"}, "its keys come nevertheless"


def test_a_supervisor_without_that_source_says_so() -> None:
    play = Play()
    question = IssuerKeysQuestion("unknown")
    found: list[ChannelMessage] = []
    _ = answer_issuer_question(question, play.bench.feed).addCallback(found.append)
    assert isinstance(found[0], Failed)


def test_a_worker_goes_back_to_the_configuration_before_with_its_keys() -> None:
    """One after the other takes the new one; where one cannot, all go back."""
    play = Play()
    play.begin(jwk("a"))
    play.worker.use([entry(jwks_url=f"{JWKS}/other")])
    assert play.ids() is None
    play.worker.use([play.settings])
    assert play.ids() == {"a"}


def test_a_source_that_the_supervisor_has_no_longer_is_forgotten() -> None:
    play = Play()
    play.begin(jwk("a"))
    changed = entry(jwks_url=f"{JWKS}/other")
    play.worker.use([changed])
    play.bench.keys.use([changed])
    play.tell()
    play.bench.serve(jwk("b"))
    play.tell()
    play.threads.work()
    assert play.ids() == {"b"}
    play.worker.use([play.settings])
    assert play.ids() is None


UNUSABLE = [b"{", b'{"keys": []}', b"\xff", key_set(*(jwk(str(number)) for number in range(101)))]


@pytest.mark.parametrize("document", UNUSABLE)
def test_a_document_that_cannot_be_used_changes_nothing(document: bytes) -> None:
    play = Play()
    play.begin(jwk("a"))
    _ = play.feed.take(IssuerKeysChanged(source_of(play.settings).digest, document, 0.0))
    play.threads.work()
    assert play.ids() == {"a"}


def test_a_large_set_passes_the_channel() -> None:
    document = key_set(jwk("a"))
    document += b" " * (MAX_SET_BYTES - len(document))
    message = IssuerKeysChanged("source", document, 0.0)
    assert sent(message) == message


def test_a_bug_in_whoever_is_told_does_not_end_what_follows() -> None:
    play = Play()

    def fail() -> None:
        raise RuntimeError

    play.worker.on_change = fail
    with IssuerLines() as lines:
        play.begin(jwk("a"))
    assert "internal error" in lines[-1]
    play.clock.advance(3600)
    play.worker.on_change = play._on_change
    play.bench.serve(jwk("b"))
    play.tell()
    play.threads.work()
    assert play.ids() == {"b"}


def test_nothing_is_left_when_a_worker_stops() -> None:
    play = Play()
    play.begin(jwk("a"))
    waiting = play.asks()
    play.worker.stop()
    assert waiting == [{"a"}]
    play.bench.keys.stop()
    assert play.threads.stopped
    assert not play.clock.getDelayedCalls()
    assert play.asks() is None


def test_the_first_fetch_of_the_supervisor_is_waited_for() -> None:
    play = Play()
    play.bench.begin(play.settings)
    came = [play.waits_for_first() for _ in range(3)]
    assert play.questions.count == 1
    play.questions.deliver()
    assert came == [[]] * 3
    play.bench.serve(jwk("a"))
    assert came == [[{"a"}]] * 3
    assert play.waits_for_first() is None


def test_a_first_fetch_that_has_failed_is_not_waited_for_again() -> None:
    play = Play()
    play.bench.begin(play.settings)
    play.bench.newest().answer(b"", 500)
    came = play.waits_for_first()
    play.questions.deliver()
    assert came == [None]
    assert play.waits_for_first() is None
    play.clock.advance(1)  # the second try is under way
    assert play.waits_for_first() is None
    play.bench.serve(jwk("a"))
    play.tell()
    assert play.ids() == {"a"}


def test_an_issuer_that_only_the_worker_has_yet_is_asked_for_again() -> None:
    play = Play()
    came = play.waits_for_first()
    play.questions.deliver()
    assert came == []
    play.clock.advance(5)
    assert came == [None]
    play.bench.begin(play.settings)
    came = play.waits_for_first()
    assert play.questions.count == 2
    play.questions.deliver()
    play.bench.serve(jwk("a"))
    assert came == [{"a"}]


def test_who_comes_while_workers_reload_before_the_supervisor_waits_for_its_first_fetch() -> None:
    play = Play()
    came = [play.waits_for_first(), play.waits_for_first()]
    play.questions.deliver()
    play.clock.advance(1)
    play.bench.begin(play.settings)
    play.bench.serve(jwk("a"))
    assert came == [[], []]
    play.tell()
    assert came == [[{"a"}]] * 2
    assert play.questions.count == 1
    assert not play.feed._asking_first


def test_who_waits_for_an_issuer_that_is_no_longer_configured_goes_on() -> None:
    play = Play()
    came = play.waits_for_first()
    play.worker.use([])
    assert came == [None]
    play.questions.deliver()
    assert not play.feed._asking_first


def test_a_lost_channel_leaves_nobody_waiting_for_first_keys_for_longer() -> None:
    play = Play()
    came = play.waits_for_first()
    play.questions.fail()
    play.clock.advance(5)
    assert came == [None]


def test_who_waits_for_the_first_keys_goes_on_after_five_seconds_or_at_the_end() -> None:
    play = Play()
    play.bench.begin(play.settings)
    came = play.waits_for_first()
    play.clock.advance(4.9)
    assert came == []
    play.clock.advance(0.1)
    assert came == [None]
    came = play.waits_for_first()
    play.feed.stop()
    assert came == [None]
    assert play.waits_for_first() is None
