"""A process that is killed while it stores batches, or takes over those of another; run as a script.

It prints what the next process finds, a line of JSON for each moment of the kill.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mgw.usage.spool_database import Piece
from mgw.usage.spool_files import SpoolFiles
from tests.support.killed import killed_at_each_call

Lines = list[bytes]
Found = dict[str, list[int]]
"""The numbers of the events in each batch, by the batch's key."""
Work = Callable[[str, Callable[[], None]], None]
"""Work in a folder, which calls its second argument after each step."""
SINK: Final = "test"
FAST_DISK: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
KEYS: Final = [f"{number:024x}" for number in range(1, 5)]
A, B, C, D = KEYS
FULL: Final = range(500, 700)
"""The events of one batch on a disk that is to be filled, some 120 kB."""
FEW_AT_ONCE: Final = range(1000)
"""The events of a batch that is stored in as many pieces as one may have."""
DISK_BYTES: Final = 4 * 1024 * 1024
FAILURES: Final = (OSError, sqlite3.Error)
STEPS: Final[tuple[dict[str, range], ...]] = (
    {A: range(3)},
    {A: range(3, 5)},
    {B: range(10, 200)},
    {A: range(0)},
    {C: range(300, 301), D: range(400, 420)},
    {B: range(0)},
    {C: range(301, 303), D: range(420, 421)},
)
"""What each step appends to batches, all of it together; a batch without any is removed."""


def event(number: int) -> bytes:
    """A line of about 600 bytes."""
    return b'{"request_id":"%06d","padding":"%s"}\n' % (number, b"x" * 560)


def numbers_of(lines: Lines) -> list[int]:
    """Return the numbers of whole and unchanged events; -1 for any other line."""
    found = []
    for line in lines:
        number = int(line[15:21]) if line[15:21].isdigit() else -1
        found.append(number if line == event(number) else -1)
    return found


class Spool:
    """The spool of one process, in one sink's name."""

    def __init__(self, folder: str) -> None:
        self._files = SpoolFiles(folder).of_sink(SINK)
        self._sizes: dict[str, int] = {}

    def append(self, batches: dict[str, range]) -> None:
        """Add events to batches."""
        pieces = []
        for key, numbers in batches.items():
            lines = b"".join(map(event, numbers))
            start = self._sizes.get(key, 0)
            pieces.append(Piece(key, start, SINK, len(numbers), lines))
            self._sizes[key] = start + len(lines)
        self._files.add(pieces)

    def remove(self, *keys: str) -> None:
        """Delete batches."""
        self._files.remove(keys)

    def read(self, key: str) -> list[int]:
        return numbers_of(self._files.read(key))

    def take_over(self) -> Found:
        """Return what the dead have left."""
        return {each.key: numbers_of(self._files.read(each.key)) for each in self._files.take_over().batches}

    def close(self) -> None:
        self._files.close()


def states() -> list[Found]:
    """Return what is stored before the first step and after each of them."""
    found: list[Found] = [{}]
    for step in STEPS:
        after = {name: list(values) for name, values in found[-1].items()}
        for key, numbers in step.items():
            after[key] = [*after.get(key, []), *numbers] if numbers else []
        found.append({key: values for key, values in after.items() if values})
    return found


def play(folder: str, on_step: Callable[[], None]) -> None:
    """Do all steps."""
    spool = Spool(folder)
    for step in STEPS:
        if all(step.values()):
            spool.append(step)
        else:
            spool.remove(*step)
        on_step()


def take_over(folder: str, on_step: Callable[[], None]) -> None:
    """Take over what the dead have left."""
    Spool(folder).take_over()
    on_step()


def found_in(folder: str) -> Found:
    """Return what the next process finds, which ends as it should."""
    spool = Spool(folder)
    found = spool.take_over()
    spool.close()
    return found


def fill(folder: str) -> dict[str, object]:
    """Append until the disk is full, read all of it, remove the oldest, and append once more."""
    spool, keys = Spool(folder), [f"{number:024x}" for number in range(1, 200)]
    stored, failed = 0, 0
    for key in keys:
        try:
            spool.append({key: FULL})
        except FAILURES:
            failed += 1
            if failed == 3:
                break
        else:
            stored += 1
    before = {key: spool.read(key) for key in keys[:stored]}
    for key in keys[:2]:
        spool.remove(key)
    spool.append({keys[-1]: FULL})
    after = [*keys[2:stored], keys[-1]]
    return {"stored": stored, "before": all(found == list(FULL) for found in before.values()), "after": after}


def crowd(folder: str) -> dict[str, object]:
    """Store batches, have somebody else take the whole rest of the disk, and remove all but the last."""
    spool = Spool(folder)
    for number in FEW_AT_ONCE:
        spool.append({KEYS[0]: range(number, number + 1)})
    small = [f"{number:024x}" for number in range(1000, 2200)]
    spool.append(dict.fromkeys(small, range(1)))
    for key in KEYS[1:]:
        spool.append({key: FULL})
    with Path(folder, "other").open("wb", buffering=0) as other, suppress(OSError):
        while other.write(bytes(4096)) == 4096:
            pass
    spool.remove(*KEYS[:-1], *small)
    return {"stored": len(KEYS), "before": True, "after": KEYS[-1:]}


def on_a_full_disk(folder: str, play_on: Callable[[str], dict[str, object]]) -> None:
    """Play on a disk of a few MiB of our own, be killed, and say what was found by the next process."""
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder], check=True)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, json.dumps(play_on(folder)).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        expected = json.loads(said.read())
    os.waitpid(child, 0)
    sys.stdout.write(json.dumps(expected | {"found": found_in(folder)}))


def leave_batches(folder: str) -> None:
    """Be killed behind the last step."""
    for _ in killed_at_each_call(partial(play, folder), range(sys.maxsize - 1, sys.maxsize)):
        pass


def leave_another_file(folder: str) -> None:
    """Leave batches in a file that is not the one of the next process."""
    leave_batches(folder)
    file = Path(folder, "events/outbox.db")
    for ending in ("", "-journal"):
        os.rename(f"{file}{ending}", f"{file.parent}/outbox-1.db{ending}")
    file.touch()


def leave_old_files(folder: str) -> None:
    """Leave batches as version 0.4 did: of an owner that has died."""
    for key, numbers in states()[-1].items():
        place = Path(folder, "events", SINK, f"owner of {key}")
        place.mkdir(parents=True)
        (place / "lock").touch()
        (place / f"{key}.jsonl").write_bytes(b"".join(map(event, numbers)) + b'{"request_id":')


def leave_damage(folder: str) -> None:
    """Leave a file without its last page, which is one of a large batch that is lost."""
    leave_batches(folder)
    spool = Spool(folder)
    spool.take_over()
    spool.append({"f" * 24: range(1000, 1500)})
    spool.close()
    file = Path(folder, "events/outbox.db")
    os.truncate(file, file.stat().st_size - 4096)


def be_killed(prepare: Callable[[str], object], work: Work, steps: int) -> None:
    """Have work killed at each stop, or each so many, and say what was found by the next process."""
    for stop in count(step=int(sys.argv[2])):
        with TemporaryDirectory(dir=FAST_DISK) as folder:
            prepare(folder)
            ((_, done),) = killed_at_each_call(partial(work, folder), range(stop, stop + 1))
            sys.stdout.write(json.dumps({"stop": stop, "done": done, "found": found_in(folder)}) + "\n")
            if done == steps:
                return


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["full", str(place)]:
            on_a_full_disk(place, fill)
        case ["crowded", str(place)]:
            on_a_full_disk(place, crowd)
        case ["store", _]:
            be_killed(lambda _: None, play, len(STEPS))
        case ["take over", _]:
            be_killed(leave_batches, take_over, 1)
        case ["move", _]:
            be_killed(leave_another_file, take_over, 1)
        case ["import", _]:
            be_killed(leave_old_files, take_over, 1)
        case ["rescue", _]:
            be_killed(leave_damage, take_over, 1)
