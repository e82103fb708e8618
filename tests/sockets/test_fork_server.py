"""The fork server: what it starts is as the interpreter's own start would have it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.fork_server import Start, Streams, fork_program, start_program
from tests.support.gateway import Collected
from tests.support.waiting import WAIT_SECONDS

SHOWN = """
import json, os, resource, signal, sys
print(json.dumps({
    "arguments": sys.argv,
    "beside": sys.path[0],
    "name": __name__,
    "folder": os.getcwd(),
    "environ": dict(os.environ),
    "parent": os.getppid(),
    "group": os.getpgrp(),
    "files": sorted(os.listdir("/proc/self/fd"))[:-1],
    "limit": resource.getrlimit(resource.RLIMIT_NOFILE),
    "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "input": sys.stdin.read(),
}))
print("to the other stream", file=sys.stderr)
sys.exit(7)
"""
BOTH = pytest.mark.parametrize("start", [fork_program, start_program], ids=["fork", "interpreter"])


def shown(start: Start, folder: Path) -> tuple[int, dict[str, object], bytes]:
    (folder / "script.py").write_text(SHOWN)
    process = start(
        [str(folder / "script.py"), "one", "two"],
        folder,
        {"WANTED": "yes"},
        Streams(stdin=subprocess.PIPE),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    stdout, stderr = Collected(process.stdout), Collected(process.stderr)
    process.stdin.write(b"what is read")
    process.stdin.close()
    found = json.loads(stdout.whole(WAIT_SECONDS))
    return process.wait(WAIT_SECONDS), found, stderr.whole(WAIT_SECONDS)


def test_a_fork_is_what_an_interpreter_would_have_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown(fork_program, tmp_path)  # the server runs by now, with another environment and another limit
    monkeypatch.setenv("CHANGED", "since")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        fork, own = shown(fork_program, tmp_path), shown(start_program, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert fork == own
    status, found, errors = fork
    assert (status, errors) == (7, b"to the other stream\n")
    assert found["parent"] == os.getpid()
    assert found["arguments"] == [str(tmp_path / "script.py"), "one", "two"]


@BOTH
def test_the_signal_that_ended_it_is_its_status(start: Start, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\nprint('runs', flush=True)\ntime.sleep(600)\n")
    process = start([str(tmp_path / "script.py")], tmp_path, {})
    assert process.stdout is not None
    Collected(process.stdout).wait_for(lambda data: b"runs" in data, WAIT_SECONDS, "the script")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.terminate()
    assert process.wait(WAIT_SECONDS) == process.poll() == -signal.SIGTERM


@BOTH
def test_its_cpu_counts_as_that_of_a_child(start: Start, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\nwhile time.process_time() < 0.4: pass\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert start([str(tmp_path / "script.py")], tmp_path, {}).wait(WAIT_SECONDS) == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # In both modes: the kernel shares out what it samples between the two.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime > 0.2
