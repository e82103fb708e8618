"""The command ``mgw``, run to its end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.fork_server import ROOT, Start, Streams, fork_program
from tests.support.gateway import Collected
from tests.support.waiting import WAIT_SECONDS

MGW: Final = ("-m", "mgw.cli.main")
"""What Python is to start for ``mgw``; its own arguments follow."""


def run_mgw(
    arguments: Sequence[str],
    *,
    folder: Path = ROOT,
    environ: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    start: Start = fork_program,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command without a terminal, and return its exit status and all that it has written.

    :param environ: variables beside those of this process.
    :param stdin: what it reads, or None for nothing.
    :raises AssertionError: it does not end.
    """
    command = [*MGW, *arguments]
    streams = Streams(stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
    process = start(command, folder, environ or {}, streams)
    assert process.stdout is not None
    assert process.stderr is not None
    stdout, stderr = Collected(process.stdout), Collected(process.stderr)
    try:
        if process.stdin is not None:
            with process.stdin as stream:
                stream.write(stdin or b"")
        status = process.wait(WAIT_SECONDS)
    finally:
        process.kill()
        process.wait()
    return subprocess.CompletedProcess(
        command, status, stdout.whole(WAIT_SECONDS), stderr.whole(WAIT_SECONDS)
    )
