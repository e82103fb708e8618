"""Workers as real processes: forked with reactors of their own, replaced when killed, and gone at the end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fork_server import ROOT, Streams, start_program
from tests.support.gateway import Collected
from tests.support.waiting import WAIT_SECONDS, wait_until


class Program:
    """The program under test, by its lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._stdin = process, process.stdin
        self._stdout = Collected(process.stdout)
        self._seen = 0

    def command(self, text: str) -> None:
        self._stdin.write(text.encode() + b"\n")
        self._stdin.flush()

    def next(self, word: str) -> list[str]:
        """Return the words of the next line that begins so, without it."""
        start = f"{word} ".encode() if word else b""

        def lines(data: bytes) -> list[bytes]:
            return [line + b" " for line in data.split(b"\n")[:-1]][self._seen :]

        self._stdout.wait_for(
            lambda data: any(line.startswith(start) for line in lines(data)), WAIT_SECONDS, word
        )
        for line in lines(self._stdout.data):
            self._seen += 1
            if line.startswith(start):
                return line.decode().split()[1:]
        raise AssertionError(word)

    def pids(self) -> list[int]:
        """Return those of the fork server and the workers."""
        self.command("pids")
        return [int(pid) for pid in self.next("pids")]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    process = start_program(
        ["-m", "tests.support.forked_workers"], ROOT, {}, Streams(subprocess.PIPE, subprocess.PIPE, None)
    )
    yield Program(process)
    process.kill()
    process.wait()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_workers_are_forked_replaced_and_gone_at_the_end(program: Program) -> None:
    program.next("serving")
    server, first, second = program.pids()
    names = ["mgw-fork", "mgw-worker-0", "mgw-worker-1"]
    wait_until(lambda: [name_of(pid) for pid in (server, first, second)] == names, "their names")
    wait_until(lambda: Path(f"/proc/{first}/oom_score_adj").read_text().strip() == "100", "its score")
    program.command("echo 0 hello")
    text, is_new, files = program.next("echoed")
    assert (text, is_new) == ("hello", "True")
    assert files.split(",") == ["anon_inode", *["pipe"] * 4, "socket"]  # epoll, its wakers, the channel

    os.kill(first, signal.SIGKILL)
    assert program.next("detached") == ["0"]
    slot, replaced = program.next("attached")
    assert slot == "0"
    assert int(replaced) not in (first, second)
    for signal_number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all
        for pid in program.pids():
            os.kill(pid, signal_number)
    program.command("echo 0 again")
    assert program.next("echoed")[0] == "again"

    pids = program.pids()
    program.command("stop")
    program.next("stopped")
    assert program.process.wait(WAIT_SECONDS) == 0
    assert not [pid for pid in pids if is_alive(pid)]


def test_all_end_with_the_process_that_started_them(program: Program) -> None:
    program.next("serving")
    pids = program.pids()
    program.process.kill()
    program.process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "the end of all")


def test_workers_go_on_without_the_fork_server(program: Program) -> None:
    program.next("serving")
    server, first, _ = program.pids()
    os.kill(server, signal.SIGKILL)
    program.next("lost")
    program.command("echo 0 hello")
    assert program.next("echoed")[0] == "hello"
    program.command("stop")
    program.next("stopped")
    assert program.process.wait(WAIT_SECONDS) == 0
    assert not is_alive(first)
