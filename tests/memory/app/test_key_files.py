"""The watch over key files with a clock in hand: when it looks, whom it tells, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from zope.interface import implementer

from mgw.app.key_files import SLICE_KEYS, KeyFiles
from mgw.config.key_settings import NamedKeySettings
from mgw.config.load import parse
from mgw.identity.key_rules import read_keys
from mgw.identity.key_watch import LATEST_SECONDS, KeyWatch
from mgw.identity.keys_dir import KeyChange, KeysDirectory
from mgw.reactor.daemon_threads import DaemonThreads

T = TypeVar("T")


class Threads:
    """Work that a test does when it wants to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.stopped = False

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        def attempt() -> None:
            try:
                found: T | Exception = work()
            except Exception as error:
                found = error
            then(found)

        self.waiting.append(attempt)

    def stop(self) -> None:
        self.stopped = True

    def work(self) -> None:
        waiting, self.waiting = self.waiting, []
        for attempt in waiting:
            attempt()


def text_of(name: str) -> str:
    return f"sha256: {sha256(f'canary-{name}'.encode()).hexdigest()}\n"


def directory_of(path: Path) -> KeysDirectory:
    text = f"providers: {{main: {{kind: openai, api_key: sk-canary-0001}}}}\nedge_auth: {{keys_dir: {path}}}"
    found = read_keys(parse(text, "mgw.yaml", {}))
    assert found is not None
    found.pause = lambda _: None
    return found


def test_it_looks_once_a_second_and_never_twice_at_once(tmp_path: Path) -> None:
    clock, threads, seen = Clock(), Threads(), list[KeyChange]()
    watch = KeyWatch(clock, threads, seen.append, directory_of(tmp_path))
    watch.begin()
    (tmp_path / "alice.yaml").write_text(text_of("a"))
    clock.advance(0.99)
    assert not threads.waiting
    clock.advance(0.01)
    assert len(threads.waiting) == 1
    clock.advance(30)
    assert len(threads.waiting) == 1, "the disk hangs"
    threads.work()
    assert [key.name for key in seen[0].changed] == ["alice"]
    clock.advance(1)
    threads.work()
    assert len(seen) == 1
    watch.stop()
    clock.advance(10)
    assert (threads.waiting, threads.stopped) == ([], True)


def test_a_look_at_a_directory_that_was_replaced_meanwhile_tells_nothing(tmp_path: Path) -> None:
    clock, threads, seen = Clock(), Threads(), list[KeyChange]()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "alice.yaml").write_text(text_of("a"))
    watch = KeyWatch(clock, threads, seen.append)
    watch.begin()
    watch.use(directory_of(tmp_path / "one"))
    threads.work()
    (tmp_path / "one" / "bob.yaml").write_text(text_of("b"))
    clock.advance(1)
    (tmp_path / "other" / "carol.yaml").write_text(text_of("c"))
    watch.use(directory_of(tmp_path / "other"))
    threads.work()
    assert [[key.name for key in change.changed] for change in seen] == [["alice"], ["carol"]]
    assert seen[1].gone == ("alice",)
    clock.advance(1)
    assert len(threads.waiting) == 1
    watch.use(None)
    assert seen[-1].gone == ("carol",)
    threads.work()
    clock.advance(5)
    assert not threads.waiting


@pytest.fixture
def lines() -> Any:  # Any: a fixture's generator
    found: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        text = event["log_format"].format(**event)
        if str(event["log_namespace"]).startswith("mgw.app.key_files"):
            found.append(text)

    globalLogPublisher.addObserver(observe)
    yield found
    globalLogPublisher.removeObserver(observe)


def test_all_processes_know_of_a_change_before_the_log_does(
    tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, threads = Clock(), Threads()
    told: list[tuple[str, list[str], list[str], int]] = []

    def teller(who: str) -> Callable[[Sequence[NamedKeySettings], Sequence[str]], None]:
        return lambda changed, gone: told.append((who, [key.name for key in changed], list(gone), len(lines)))

    monkeypatch.setattr(DaemonThreads, "run", lambda _, work, then: threads.run(work, then))
    (tmp_path / "alice.yaml").write_text(text_of("a"))
    (tmp_path / "broken.yaml").write_text("")
    files = KeyFiles(clock, directory_of(tmp_path), teller("own"), teller("workers"))
    files.begin()
    assert lines == [
        "edge_auth.keys_dir: keys read: 1",
        f"{tmp_path}/broken.yaml:1: expected a mapping of settings, found nothing",
    ]
    assert not told, "the gate began with these"
    lines.clear()
    (tmp_path / "alice.yaml").write_text(text_of("a") + "disabled: true\n")
    (tmp_path / "bob.yaml").write_text(text_of("b"))
    clock.advance(1)
    threads.work()
    assert told == [
        ("own", ["alice", "bob"], [], 0),
        ("workers", ["alice", "bob"], [], 0),
    ]
    assert lines == ["key alice: changed (disabled)", "key bob: added"]
    (tmp_path / "alice.yaml").unlink()
    clock.advance(1)
    threads.work()
    assert told[-1] == ("workers", [], ["alice"], 2)
    assert lines[-1] == "key alice: removed"
    assert files.invalid == 1
    files.stop()


def test_the_log_waits_for_other_processes(
    tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, threads, taken = Clock(), Threads(), Deferred[None]()
    monkeypatch.setattr(DaemonThreads, "run", lambda _, work, then: threads.run(work, then))
    files = KeyFiles(clock, directory_of(tmp_path), lambda *_: None, lambda *_: taken)
    files.begin()
    lines.clear()
    (tmp_path / "alice.yaml").write_text(text_of("a"))
    clock.advance(1)
    threads.work()
    assert not lines
    taken.callback(None)
    assert lines == ["key alice: added"]
    files.stop()


def test_many_changes_are_taken_over_in_slices_and_what_is_gone_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, threads = Clock(), Threads()
    monkeypatch.setattr(DaemonThreads, "run", lambda _, work, then: threads.run(work, then))
    (tmp_path / "gone.yaml").write_text(text_of("gone"))
    taken: list[tuple[int, list[str]]] = []
    files = KeyFiles(
        clock, directory_of(tmp_path), lambda changed, gone: taken.append((len(changed), list(gone)))
    )
    files.begin()
    (tmp_path / "gone.yaml").unlink()
    for number in range(SLICE_KEYS + 1):
        (tmp_path / f"k{number}.yaml").write_text(text_of(str(number)))
    clock.advance(1)
    threads.work()
    assert taken == [(0, ["gone"])]
    clock.advance(0)
    assert taken[1:] == [(SLICE_KEYS, []), (1, [])]


def test_what_is_gone_or_wrong_is_told_in_slices_too(
    tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, threads = Clock(), Threads()
    monkeypatch.setattr(DaemonThreads, "run", lambda _, work, then: threads.run(work, then))
    for number in range(SLICE_KEYS + 1):
        (tmp_path / f"k{number}.yaml").write_text(text_of(str(number)))
    done, taken = list[int](), list[tuple[int, int]]()
    files = KeyFiles(
        *(clock, directory_of(tmp_path), lambda _, gone: taken.append((len(gone), len(lines)))),
        on_done=lambda: done.append(len(lines)),
    )
    files.begin()
    lines.clear()
    for number in range(SLICE_KEYS + 1):
        (tmp_path / f"k{number}.yaml").rename(tmp_path / f"none.{number}.yaml")
        (tmp_path / f"none.{number}.yaml").write_text("")
    clock.advance(1)
    threads.work()
    clock.advance(0)
    most = SLICE_KEYS
    assert taken == [(most, 0), (1, most), (0, most + 1), (0, 2 * most + 1)]
    assert all(line.endswith(": removed") for line in lines[: SLICE_KEYS + 1])
    assert done == [2 * SLICE_KEYS + 2], "the dashboard learns of it although faults come last"
    files.stop()


def test_a_key_that_is_read_anew_stays_the_same_object(tmp_path: Path) -> None:
    (tmp_path / "alice.yaml").write_text(text_of("a"))
    before = directory_of(tmp_path)
    again = KeysDirectory(before.path, before.rules, before.keys)
    again.read_all()
    assert again.keys["alice"] is before.keys["alice"]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_reload_revives_no_key_that_was_revoked_while_it_was_read(tmp_path: Path, is_deleted: bool) -> None:
    clock, threads, seen = Clock(), Threads(), list[KeyChange]()
    alice = tmp_path / "alice.yaml"
    alice.write_text(text_of("a"))
    watch = KeyWatch(clock, threads, seen.append)
    watch.begin()
    watch.use(directory_of(tmp_path))
    threads.work()
    read_by_reload = directory_of(tmp_path)
    if is_deleted:
        alice.unlink()
    else:
        alice.write_text(text_of("a") + "disabled: true\n")
    clock.advance(1)
    threads.work()
    revoked = list(seen)
    assert len(revoked) == 2
    watch.use(read_by_reload)
    threads.work()
    assert seen == revoked
    clock.advance(1)
    threads.work()
    assert seen == revoked


def test_a_directory_of_another_configuration_counts_although_nothing_changes_in_it(tmp_path: Path) -> None:
    clock, threads, seen = Clock(), Threads(), list[KeyChange]()
    (tmp_path / "alice.yaml").write_text(text_of("a"))
    (tmp_path / "broken.yaml").write_text("")
    watch = KeyWatch(clock, threads, seen.append)
    watch.begin()
    watch.use(directory_of(tmp_path))
    assert not seen
    threads.work()
    assert [key.name for key in seen[0].changed] == ["alice"]
    assert len(seen[0].faults) == 1
    clock.advance(1)
    threads.work()
    assert len(seen) == 1


def test_another_directory_counts_although_the_disk_of_the_one_before_hangs(tmp_path: Path) -> None:
    clock, threads, seen = Clock(), Threads(), list[KeyChange]()
    (tmp_path / "alice.yaml").write_text(text_of("a"))
    watch = KeyWatch(clock, threads, seen.append)
    watch.begin()
    watch.use(directory_of(tmp_path))
    clock.advance(LATEST_SECONDS)
    assert [key.name for key in seen[0].changed] == ["alice"]
    threads.work()
    clock.advance(LATEST_SECONDS)
    assert len(seen) == 1
