"""How long others wait while many requests are served: ``python -m bench.crowd [streams] [bodies]``.

A gateway gets a crowd at once: chat streams at full speed that tell no usage, or chats with large bodies.
Meanwhile somebody asks for ``/healthz`` again and again, each time on a new connection.  That is done for a
client without limits, for one whose tokens are counted at the end, and for one that holds an estimate before,
in turns.  All listens on the loopback address and ends with the run.
"""

from __future__ import annotations

import argparse
import http.client
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from bench.load import EDGE_KEY, END_MARKS, PATHS, NothingMeasuredError, result
from bench.machines import description, peak_bytes, process_tree, tree_cpu_seconds
from bench.processes import HERE, LOAD_CORE, Bench, Server, bound_run, pinned, serving_gateway
from tests.support.wires import sized_request

LIMIT_SECONDS: Final = 900
BODY_BYTES: Final = 1024 * 1024
BODIES_AT_A_TIME: Final = 50
PAUSE_SECONDS: Final = 0.02
"""Between two requests for the health."""
_PLAIN: Final = f'"{EDGE_KEY}"'
_LIMITED: Final = f'{{{{name: bench, key: "{EDGE_KEY}", limits: [{{rows}}]}}}}'
_TOKENS: Final = "tokens: 900000000000, per: "
KEYS: Final = {
    "no limits": _PLAIN,
    "tokens, after": _LIMITED.format(rows=f"{{{_TOKENS}minute}}"),
    "tokens, before": _LIMITED.format(rows=f"{{{_TOKENS}minute, count: before}}"),
    "tokens and usd": _LIMITED.format(rows=f"{{{_TOKENS}minute}}, {{usd: 5000000, per: month}}"),
}
"""The keys of clients, by what their limits count."""
_FURTHER: Final = """
limit_store: "$temp/limits.db"
prices: {rows: [{provider: up, model: "*", input: 1, output: 1}]}
"""
_ROW: Final = "{:28} {:>8} {:>8} {:>8} {:>7} {:>9} {:>7} {:>9} {:>6} {:>7}"
_TITLES: Final = "p50 ms", "p99 ms", "worst ms", "asked", "all in s", "CPU s", "waited s", "MiB", "failed"
"""``waited``: how long the gateway could have worked and had no core, since others had them."""


class Case(NamedTuple):
    """What a crowd does."""

    key: str
    bodies: bool
    open: int
    chunks: int
    workers: int


@dataclass(slots=True)
class Health:
    """Asks for the health until it is stopped."""

    port: int
    seconds: list[float]
    stopped: threading.Event

    def ask(self) -> None:
        """Ask in turns."""
        while not self.stopped.is_set():
            began = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                self.seconds.append(time.perf_counter() - began)
            except OSError:
                self.seconds.append(float("inf"))
            finally:
                connection.close()
            self.stopped.wait(PAUSE_SECONDS)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.crowd", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help="streams, bodies (default: both)")
    parser.add_argument("--open", type=int, default=800, metavar="N", help="requests at a time (800)")
    parser.add_argument("--chunks", type=int, default=600, help="of each stream (600)")
    parser.add_argument("--rounds", type=int, default=1, help="how often, in turns (1)")
    parser.add_argument("--workers", type=int, default=0, help="of the gateway (0: none)")
    parser.add_argument("--only", default="", help="only rows with this in their name")
    options = parser.parse_args()
    bound_run(LIMIT_SECONDS, on_one_core=False)
    print(_ROW.format("latency of /healthz", *_TITLES))
    with tempfile.TemporaryDirectory(prefix="mgw-crowd-") as name, Bench(Path(name)) as bench:
        for part in options.parts or ("streams", "bodies"):
            for number in range(options.rounds):
                for key in filter(lambda key: options.only in key, KEYS):
                    case = Case(key, part == "bodies", options.open, options.chunks, options.workers)
                    folder = bench.folder / f"{part}-{number}-{key.replace(' ', '-')}"
                    folder.mkdir()
                    print(_ROW.format(f"{part}, {key}", *_measured(bench, folder, case)), flush=True)
    facts = description()
    print(f"\n{facts['cores']} cores, {facts['cpu']}, Linux {facts['kernel']}, {facts['python']}")
    return 0


def _measured(bench: Bench, folder: Path, case: Case) -> tuple[str, ...]:
    """Return the row of a crowd."""
    template = (HERE / "mgw.yaml").read_text() + _FURTHER
    config = template.replace(f'$other_keys"{EDGE_KEY}"', KEYS[case.key])
    if case.workers:
        config += f"workers: {case.workers}\n"
    with serving_gateway(folder, config, upstream_port=str(bench.upstream_port)) as server:
        health = Health(server.port, [], threading.Event())
        asking = threading.Thread(target=health.ask, daemon=True)
        cpu, waited, began = tree_cpu_seconds(server.pid), _waited(server.pid), time.perf_counter()
        asking.start()
        failed = _load(bench.folder, server, case)
        elapsed = time.perf_counter() - began
        health.stopped.set()
        asking.join()
        used, peak = tree_cpu_seconds(server.pid) - cpu, peak_bytes(server.pid)
        waited = _waited(server.pid) - waited
    times = sorted(health.seconds)
    shown = (times[len(times) // 2], times[int(len(times) * 0.99)], times[-1])
    return (
        *(f"{seconds * 1000:.0f}" for seconds in shown),
        str(len(times)),
        f"{elapsed:.1f}",
        f"{used:.2f}",
        f"{waited:.2f}",
        f"{peak / 2**20:.0f}",
        f"{failed:.0f}",
    )


def _waited(pid: int) -> float:
    """Return how long the threads of a process, and of those that it has started, have waited for a core."""
    files = (file for one in process_tree(pid) for file in Path(f"/proc/{one}/task").glob("*/schedstat"))
    return sum(int(file.read_text().split()[1]) for file in files) / 1e9


def _load(folder: Path, server: Server, case: Case) -> float:
    """Make the load, and return how many requests have failed."""
    if case.bodies:
        return _post_all(server.port, case.open)
    model = f"up/bench-untold-{case.chunks}-0"
    asked = sized_request("chat", model, 1024, stream=True)
    to = (str(server.port), PATHS["chat"], END_MARKS["chat"])
    command = pinned(LOAD_CORE, str(folder / "streams"), *to, str(case.open), EDGE_KEY, asked.decode())
    done = subprocess.run(command, capture_output=True, check=False)
    lines = done.stdout.splitlines()
    if len(lines) < 2:
        raise NothingMeasuredError(done.stderr)
    return result(lines[-1])["failed"]


def _post_all(port: int, count: int) -> int:
    """Post so many large bodies, some at a time; return how many have failed."""
    body = sized_request("chat", "up/bench-1k", BODY_BYTES)
    left, failed = list(range(count)), []

    def post() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Authorization": f"Bearer {EDGE_KEY}", "Content-Type": "application/json"}
        with suppress(IndexError):
            while True:
                number = left.pop()
                try:
                    connection.request("POST", PATHS["chat"], body, headers)
                    response = connection.getresponse()
                    response.read()
                    if response.status != HTTPStatus.OK:
                        failed.append(number)
                except (OSError, http.client.HTTPException):
                    failed.append(number)
                    connection.close()

    threads = [threading.Thread(target=post, daemon=True) for _ in range(BODIES_AT_A_TIME)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
