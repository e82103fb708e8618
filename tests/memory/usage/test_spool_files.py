"""Who has which file of undelivered events; what becomes of damaged files, and of those of old versions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.usage.spool_database import Piece, StoredBatch
from mgw.usage.spool_files import SinkSpool, SpoolFiles, TakenOver
from tests.support.crashing_spool import FAST_DISK
from tests.support.laws import examples
from tests.support.stored_events import MIB, stored_lines

KEYS = [f"{number:024x}" for number in range(20)]
PAGE = 4096


def spool_in(folder: Path, sink: str = "test") -> SinkSpool:
    """The spool of another process, for all that the files know."""
    return SpoolFiles(str(folder)).of_sink(sink)


def store(spool: SinkSpool, key: str, *events: bytes) -> None:
    spool.add([Piece(key, 0, spool.sink, len(events), b"".join(event + b"\n" for event in events))])


def lines_of(spool: SinkSpool, found: TakenOver) -> dict[str, list[bytes]]:
    return {batch.key: spool.read(batch.key) for batch in found.batches}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "events").iterdir() if not path.name.endswith("-journal"))


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    spool = spool_in(tmp_path / "spool")
    assert spool.take_over() == TakenOver([], [])
    spool.close()
    assert not (tmp_path / "spool").exists()


def test_a_file_whose_process_has_died_is_the_next_ones_with_all_batches_in_it(tmp_path: Path) -> None:
    one = spool_in(tmp_path)
    store(one, KEYS[1], b"b", b"c")
    store(one, KEYS[0], b"a")
    one.close()
    other = spool_in(tmp_path)
    found = other.take_over()
    assert found.batches == [StoredBatch(KEYS[0], 1, 2), StoredBatch(KEYS[1], 2, 4)]
    store(other, KEYS[2], b"d")
    assert names(tmp_path) == ["outbox.db"]


def test_each_process_has_a_file_of_its_own_and_later_those_of_the_dead(tmp_path: Path) -> None:
    spools = [spool_in(tmp_path) for _ in range(3)]
    for key, spool in zip(KEYS, spools, strict=False):
        store(spool, key, key.encode())
    assert names(tmp_path) == ["outbox-1.db", "outbox-2.db", "outbox.db"]
    assert [spool.take_over().batches for spool in spools] == [[], [], []]
    spools[0].close()
    spools[1].close()
    found = lines_of(spools[2], spools[2].take_over())
    assert found == {key: [key.encode() + b"\n"] for key in KEYS[:2]}
    assert (tmp_path / "events/outbox-2.db-journal").stat().st_size == MIB, "its space is kept for removals"
    for key in KEYS[:3]:
        spools[2].remove([key])
    assert not stored_lines(tmp_path)


def test_an_emptied_file_of_the_dead_is_free_again(tmp_path: Path) -> None:
    one, other = spool_in(tmp_path), spool_in(tmp_path)
    store(one, KEYS[0], b"a")
    store(other, KEYS[1], b"b")
    one.close()
    other.take_over()
    other.remove([KEYS[0]])
    other.take_over()
    third = spool_in(tmp_path)
    store(third, KEYS[2], b"c")
    assert names(tmp_path) == ["outbox-1.db", "outbox.db"]


def test_sinks_share_a_file_and_have_their_own_batches(tmp_path: Path) -> None:
    files = SpoolFiles(str(tmp_path))
    one, other = files.of_sink("one"), files.of_sink("other")
    store(one, KEYS[0], b"a")
    store(other, KEYS[1], b"b")
    one.close()
    again, more = files.of_sink("one"), files.of_sink("other")
    assert lines_of(again, again.take_over()) == {KEYS[0]: [b"a\n"]}
    assert more.take_over().batches == [], "they belong to an outbox that has not ended"
    other.close()
    assert lines_of(more, more.take_over()) == {KEYS[1]: [b"b\n"]}
    assert names(tmp_path) == ["outbox.db"]


def test_many_batches_are_taken_over_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgw.usage.spool_files.TAKEN_AT_ONCE", 3)
    spool = spool_in(tmp_path)
    for key in KEYS[:7]:
        store(spool, key, b"a")
    spool.close()
    again = spool_in(tmp_path)
    found = [again.take_over() for _ in range(4)]
    assert [[batch.key for batch in each.batches] for each in found] == [KEYS[:3], KEYS[3:6], KEYS[6:7], []]


def test_a_file_is_smaller_when_its_batches_are_gone(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    for key in KEYS:
        store(spool, key, b"x" * 2 * MIB)
    file = tmp_path / "events/outbox.db"
    assert file.stat().st_size > 40 * MIB
    for key in KEYS[:-1]:
        spool.remove([key])
    assert file.stat().st_size < 16 * MIB
    assert spool.read(KEYS[-1]) == [b"x" * 2 * MIB + b"\n"]
    assert (tmp_path / "events/outbox.db-journal").stat().st_size <= MIB


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    with closing(sqlite3.connect(tmp_path / "events/outbox.db")) as connection:
        connection.execute("PRAGMA user_version = 2")
        connection.execute("CREATE TABLE batches (other)")
    before = (tmp_path / "events/outbox.db").read_bytes()
    spool = spool_in(tmp_path)
    store(spool, KEYS[0], b"a")
    assert spool.take_over().problems == []
    assert (tmp_path / "events/outbox.db").read_bytes() == before
    assert names(tmp_path) == ["outbox-1.db", "outbox.db"]


def test_a_file_without_its_table_gets_one(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    with closing(sqlite3.connect(tmp_path / "events/outbox.db")) as connection:
        connection.execute("PRAGMA user_version = 1")
    spool = spool_in(tmp_path)
    store(spool, KEYS[0], b"a")
    assert spool.read(KEYS[0]) == [b"a\n"]


def test_a_file_that_is_renamed_while_it_is_opened_gets_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, file = sqlite3.connect, tmp_path / "events/outbox.db"

    def rename(path: str, **options: Any) -> Any:  # Any: as SQLite has it
        found = connect(path, **options)
        if path == str(file) and not file.with_suffix(".old").exists():
            file.rename(file.with_suffix(".old"))
            file.touch()
        return found

    monkeypatch.setattr(sqlite3, "connect", rename)
    spool = spool_in(tmp_path)
    store(spool, KEYS[0], b"a")
    assert spool.read(KEYS[0]) == [b"a\n"]
    spool.close()
    monkeypatch.undo()
    again = spool_in(tmp_path)
    assert lines_of(again, again.take_over()) == {KEYS[0]: [b"a\n"]}


def make_link(path: Path) -> None:
    (path.parent / "target").write_bytes(b"")
    path.symlink_to(path.parent / "target")


@pytest.mark.parametrize("make", [Path.mkdir, make_link, os.mkfifo], ids=["folder", "link", "pipe"])
def test_what_is_no_file_is_left_alone(make: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    make(tmp_path / "events/outbox.db")
    spool = spool_in(tmp_path)
    store(spool, KEYS[0], b"a")
    assert "outbox-1.db" in names(tmp_path)


@pytest.mark.parametrize(
    "content", [b"no database, but a text" * 500, b"SQLite format 3\0" + b"x" * 9000, bytes(9000)]
)
def test_a_file_that_is_no_database_is_moved_aside_and_said(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events/outbox.db").write_bytes(content)
    spool = spool_in(tmp_path)
    found = spool.take_over()
    assert found.batches == []
    assert found.problems == [f"outbox.db was damaged and is {tmp_path}/events/outbox.db.damaged now"]
    assert (tmp_path / "events/outbox.db.damaged").read_bytes() == content
    store(spool, KEYS[0], b"a")
    spool.close()
    again = spool_in(tmp_path)
    assert lines_of(again, again.take_over()) == {KEYS[0]: [b"a\n"]}


def test_the_journal_of_a_damaged_file_is_not_left_for_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    for ending in ("", "-journal"):
        (tmp_path / f"events/outbox.db{ending}").write_bytes(b"no database" * 100)
    spool_in(tmp_path).take_over()
    assert not (tmp_path / "events/outbox.db-journal").exists()


def events_of(number: int) -> list[bytes]:
    """The events of a batch: many small ones, or few large ones."""
    return [b"%04d-%04d:" % (number, at) + b"x" * (50 * number) for at in range(1 + 3 * number)]


WHOLE = {key: [event + b"\n" for event in events_of(number)] for number, key in enumerate(KEYS)}


def write_batches(folder: Path) -> Path:
    spool = spool_in(folder)
    for number, key in enumerate(KEYS):
        store(spool, key, *events_of(number))
    spool.close()
    return folder / "events/outbox.db"


@cache
def sound_file() -> bytes:
    """A file of batches."""
    with TemporaryDirectory(dir=FAST_DISK) as folder:
        return write_batches(Path(folder)).read_bytes()


@given(
    at=st.floats(0, 1, exclude_max=True),
    damage=st.sampled_from(["cut", "zeros", "garbage", "one bit"]),
    garbage=st.binary(min_size=1, max_size=2 * PAGE),
)
@examples(150)
def test_whatever_is_torn_no_wrong_event_is_delivered_and_no_start_fails(
    at: float, damage: str, garbage: bytes
) -> None:
    sound = sound_file()
    first = int(at * len(sound))
    page = first - first % PAGE
    torn = {
        "cut": sound[:first],
        "zeros": sound[:page] + bytes(PAGE) + sound[page + PAGE :],
        "garbage": (sound[:first] + garbage + sound[first + len(garbage) :])[: len(sound)],
        "one bit": sound[:first] + bytes([sound[first] ^ garbage[0] or 1]) + sound[first + 1 :],
    }[damage]
    with TemporaryDirectory(dir=FAST_DISK) as folder:
        (Path(folder) / "events").mkdir()
        (Path(folder) / "events/outbox.db").write_bytes(torn)
        spool = spool_in(Path(folder))
        found = spool.take_over()
        for key, lines in lines_of(spool, found).items():
            assert key in WHOLE or not lines
            assert lines in ([], WHOLE.get(key))
        store(spool, "f" * 24, b"after")
        spool.close()
        again = spool_in(Path(folder))
        after = lines_of(again, again.take_over())
        assert after["f" * 24] == [b"after\n"]


def test_a_page_of_lines_that_is_damaged_takes_one_batch_with_it(tmp_path: Path) -> None:
    sound = sound_file()
    last = events_of(19)[-1]
    at = sound.index(last) + len(last) // 2
    (tmp_path / "events").mkdir()
    (tmp_path / "events/outbox.db").write_bytes(sound[:at] + b"!" + sound[at + 1 :])
    spool = spool_in(tmp_path)
    found = lines_of(spool, spool.take_over())
    assert found == WHOLE | {KEYS[19]: []}


@pytest.mark.parametrize(("number", "lost"), [(12, 0), (19, len(WHOLE[KEYS[19]]))])
def test_a_file_that_is_cut_keeps_the_batches_before_and_counts_what_is_known_of_the_rest(
    number: int, lost: int, tmp_path: Path
) -> None:
    sound = sound_file()
    (tmp_path / "events").mkdir()
    (tmp_path / "events/outbox.db").write_bytes(sound[: sound.index(events_of(number)[-1]) - PAGE])
    spool = spool_in(tmp_path)
    found = spool.take_over()
    read = lines_of(spool, found)
    assert {key: lines for key, lines in read.items() if lines} == {key: WHOLE[key] for key in KEYS[:number]}
    assert sum(batch.count - len(read[batch.key]) for batch in found.batches) == lost
    assert names(tmp_path) == ["outbox-1.db", "outbox.db.damaged"]
    assert spool.take_over() == TakenOver([], []), "it is said once"


def test_a_file_that_is_damaged_while_it_is_used_is_moved_aside_and_the_rest_is_kept(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    for key in KEYS[:3]:
        store(spool, key, b"x" * 4 * MIB)  # more than SQLite keeps of a file in memory
    file = tmp_path / "events/outbox.db"
    os.truncate(file, file.stat().st_size - 2 * MIB)
    assert spool.read(KEYS[2]) == []
    assert spool.read(KEYS[0]) == [b"x" * 4 * MIB + b"\n"]
    store(spool, KEYS[3], b"after")
    found = spool.take_over()
    assert found.batches == [], "they have their owner still"
    assert "damaged" in found.problems[0]


def old_file(folder: Path, owner: str, key: str, content: bytes) -> Path:
    """A batch as version 0.4 left it."""
    place = folder / "events/test" / owner
    place.mkdir(parents=True, exist_ok=True)
    (place / "lock").touch()
    (folder / "events/test/lock").touch()
    (place / f"{key}.jsonl").write_bytes(content)
    return place


def test_batches_of_an_older_version_are_delivered_in_order_and_their_files_go(tmp_path: Path) -> None:
    old_file(tmp_path, "one", KEYS[1], b"b\nc\n")
    old_file(tmp_path, "one", KEYS[2], b"d\n" + b"in part")
    old_file(tmp_path, "one", KEYS[3], b"in part")
    old_file(tmp_path, "other", KEYS[0], b"a\n")
    spool = spool_in(tmp_path)
    found = spool.take_over()
    assert [batch.count for batch in found.batches] == [1, 2, 1]
    assert lines_of(spool, found) == {KEYS[0]: [b"a\n"], KEYS[1]: [b"b\n", b"c\n"], KEYS[2]: [b"d\n"]}
    assert names(tmp_path) == ["outbox.db"]


def test_an_older_version_that_still_runs_keeps_its_batches_until_its_end(tmp_path: Path) -> None:
    place = old_file(tmp_path, "one", KEYS[0], b"a\n")
    lock = os.open(place / "lock", os.O_RDWR)
    flock(lock, LOCK_EX)
    spool = spool_in(tmp_path)
    assert spool.take_over() == TakenOver([], [])
    assert place.exists()
    os.close(lock)
    assert lines_of(spool, spool.take_over()) == {KEYS[0]: [b"a\n"]}
    assert not place.exists()


def test_batches_of_an_older_version_wait_for_their_sink(tmp_path: Path) -> None:
    place = old_file(tmp_path, "one", KEYS[0], b"a\n")
    assert spool_in(tmp_path, "other").take_over().batches == []
    assert place.exists()
