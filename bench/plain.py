"""A server for benches that need no compiled program: no pinned core, no rivals, ended with the bench."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.processes import START_LIMIT, Launch, Server, environment, free_port, wait_until_answers


@contextmanager
def gateway(folder: Path, config: str) -> Iterator[Server]:
    """Serve a configuration with ``twistd``, as an operator would; ``$port`` is filled in.

    :raises DidNotStartError: it does not answer; the text has the end of its log.
    """
    port = free_port()
    file = folder / "mgw.yaml"
    file.write_text(config.replace("$port", str(port)))
    twistd = str(Path(sys.executable).with_name("twistd"))
    log = f"--logfile={folder / 'mgw.log'}"
    command = [sys.executable, twistd, "-n", "--pidfile=", log, "mgw", "-c", str(file)]
    with started("gateway", command, folder, port) as server:
        yield server


@contextmanager
def started(
    name: str,
    command: list[str],
    folder: Path,
    port: int,
    health: str = "/healthz",
    limit_seconds: float = START_LIMIT,
) -> Iterator[Server]:
    """Run a command, wait until it answers on ``port``, and end it afterwards.

    :raises DidNotStartError: it does not answer; the text has the end of what it wrote.
    """
    with (folder / f"{name}.out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, env=environment())
    server = Server(name, process, port, 0.0)
    try:
        launch = Launch(_no_command, health, limit_seconds)
        wait_until_answers(server, time.perf_counter(), folder, launch)
        yield server
    finally:
        server.stop()


def _no_command(folder: Path, fill: dict[str, str], options: tuple[str, ...]) -> list[str]:
    raise NotImplementedError("it runs already")
