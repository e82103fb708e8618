"""Gateways with and without workers, and what the kernel knows of their processes."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.load import EDGE_KEY
from bench.machines import cpu_seconds, process_tree
from bench.processes import (
    USUAL,
    Bench,
    Server,
    free_port,
    gateway_command,
    run_server,
    wait_until_answers,
)
from tests.support.wires import CHAT, sized_request

WORKER: Final = "mgw-worker-"
_START_SECONDS: Final = 30.0
_MAPPING: Final = re.compile(
    r"^[0-9a-f]+-[0-9a-f]+ \S+ ([0-9a-f]+) \S+ \d+ +(/.*)\n((?:[A-Z]\w*:.*\n)+)", re.MULTILINE
)
"""A part of a file in memory: its place in the file, the file, and lines of what the kernel knows of it."""


@dataclass(slots=True)
class Gateway:
    """A gateway that runs on all cores, with everything on."""

    server: Server

    @property
    def address(self) -> tuple[str, int]:
        """Where its clients connect."""
        return "127.0.0.1", self.server.port

    def processes(self) -> dict[int, str]:
        """Return what each of its processes is called, by pid."""
        return {pid: _name(pid) for pid in process_tree(self.server.pid)}

    def cpu(self) -> dict[int, float]:
        """Return the seconds of CPU time that each process has used."""
        return {pid: cpu_seconds(pid) for pid in process_tree(self.server.pid)}

    def memory(self) -> float:
        """Return the memory of all processes in MiB; what several of them share counts once."""
        folders = [Path(f"/proc/{pid}") for pid in process_tree(self.server.pid)]
        own = sum(_kib("Pss_Anon", (folder / "smaps_rollup").read_text()) for folder in folders)
        return (own + file_kib([(folder / "smaps").read_text() for folder in folders])) / 1024

    def pss_by_name(self) -> list[tuple[str, float]]:
        """Return the share of each process (``Pss``): other programs have one in what they map too."""
        rollups = (
            (name, Path(f"/proc/{pid}/smaps_rollup").read_text()) for pid, name in self.processes().items()
        )
        return [(name, _kib("Pss", rollup) / 1024) for name, rollup in rollups]


@dataclass(frozen=True, slots=True)
class Gateways:
    """Starts gateways, which end with their bench."""

    bench: Bench

    def start(self, name: str, workers: int | None) -> Gateway:
        """Start one on all cores, and wait until it answers.

        :raises DidNotStartError: it does not.
        """
        folder, port = self.bench.folder / name.replace(" ", "-"), free_port()
        folder.mkdir()
        fill = {**USUAL, "temp": str(folder), "port": str(port)}
        fill["upstream_port"] = str(self.bench.upstream_port)
        command = gateway_command(folder, fill, ())
        with (folder / "mgw.yaml").open("a") as config:
            config.write(f"spool: {{dir: {folder}/spool}}\n")
            if workers is not None:
                config.write(f"workers: {workers}\n")
        began, command = time.perf_counter(), ["setpriv", "--pdeathsig", "TERM", *command]
        server = run_server(name, command, folder, port)
        self.bench.servers.append(server)
        wait_until_answers(server, began, folder, limit_seconds=_START_SECONDS)
        return Gateway(server)


def request() -> bytes:
    """Return a request of 1 KiB; its answer has as much."""
    text = sized_request(CHAT, "up/bench-1k", 1024)
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nAccept: application/json\r\n"
        f"Authorization: Bearer {EDGE_KEY}\r\nContent-Type: application/json\r\n"
        f"User-Agent: OpenAI/Python 3.54.0\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def file_kib(maps: Sequence[str]) -> int:
    """Return how much of files processes have in memory, such as libraries: each file once.

    ``Pss`` would leave out what is shared with programs that are not the gateway's, such as what asks it.

    :param maps: what the kernel says of the memory of each process (``smaps``).
    """
    largest: dict[tuple[str, str], int] = {}
    for text in maps:
        for place, path, entries in _MAPPING.findall(text):
            held = _kib("Rss", entries) - _kib("Anonymous", entries)
            largest[path, place] = max(held, largest.get((path, place), 0))
    return sum(largest.values())


def _kib(name: str, entries: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", entries, re.MULTILINE)
    assert found is not None, "the kernel has it (CONFIG_PROC_PAGE_MONITOR)"
    return int(found[1])
