"""What views of a month of usage events cost: ``python -m bench.history [--events N] [--file FILE]``.

It writes events of 30 days to an SQLite file as ``hooks.sqlite`` does, adds up their hours, and measures the
CPU time of the thread that answers each query of the dashboard; each is asked several times, through a
connection of its own, and the fastest counts.  ``--file`` keeps the file, and reads one that is there.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.machines import description
from mgw.dashboard.event_queries import EventFile
from mgw.dashboard.request_list import read_page
from mgw.dashboard.usage_query import By, parse_usage_query
from mgw.dashboard.usage_sql import answer_usage
from mgw.usage.event import Outcome, UsageEvent, encode
from mgw.usage.event_search import EventSearch
from mgw.usage.usage_read import open_period
from mgw.usage.usage_rollup import hour_of
from mgw.usage.usage_table import UsageTable

DAYS: Final = 30
GOAL_MS: Final = 300
ROUNDS: Final = 5
BATCH: Final = 1000
END: Final = 1_769_860_800 - 600
"""2026-01-31T11:50:00Z, so that the last hour is open."""
CLIENTS: Final = ("agents", "web", "batch", "search", "mobile")
MODELS: Final = (
    ("main", "fast", "gpt-5-mini"),
    ("main", "smart", "gpt-5"),
    ("spare", "claude", "claude-sonnet"),
    ("google", "flash", "gemini-flash"),
    ("local", "qwen", "qwen3"),
)
KEYS: Final = {"main": "0123456789ab", "spare": "123456789abc", "google": "23456789abcd", "local": None}
ENDS: Final = (
    (Outcome.OK, None, 200),
    (Outcome.UPSTREAM_ERROR, "upstream_5xx", 503),
    (Outcome.UPSTREAM_ERROR, "upstream_4xx", 429),
    (Outcome.REJECTED, "rate_limit_exceeded", 429),
    (Outcome.CLIENT_ABORT, "client_abort", 499),
)
SEARCHES: Final[dict[str, dict[str, object]]] = {
    "the newest requests": {},
    "requests of a client": {"exact": (("client", "mobile"),)},
    "requests of a provider": {"exact": (("provider", "local"),)},
    "requests of a model": {"exact": (("model", "qwen"),)},
    "requests of a route": {"exact": (("route", "responses"),)},
    "requests with an outcome": {"status": "upstream_error"},
    "requests with a class of statuses": {"status": "5xx"},
    "requests with an error": {"exact": (("error", "upstream_4xx"),)},
    "requests of a key": {"exact": (("key_hash", KEYS["google"]),)},
    "requests of a client that is not there": {"exact": (("client", "nobody"),)},
    "a request by its id": {"exact": (("request_id", f"req_{7:024x}"),)},
    "a request by the provider's id": {"exact": (("upstream_request_id", f"up_{7:024x}"),)},
}


def main(arguments: list[str]) -> int:
    """Run the measurement; 1 where a query takes longer than it should."""
    parser = argparse.ArgumentParser(prog="bench.history", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, help="keep the file, and read it where it is there already")
    said = parser.parse_args(arguments)
    for name, value in description().items():
        sys.stdout.write(f"{name}: {value}\n")
    with TemporaryDirectory() as folder:
        path = said.file or Path(folder, "usage.db")
        if not path.exists():
            write_file(path, said.events)
        sys.stdout.write(f"size of the file: {path.stat().st_size / 1e6:.0f} MB\n")
        slow = [name for name, query in queries(path) if measure(name, query) > GOAL_MS]
    sys.stdout.write(f"slower than {GOAL_MS} ms: {', '.join(slow) or 'none'}\n")
    return int(bool(slow))


def write_file(path: Path, events: int) -> None:
    """Write the events in batches, and then close their hours."""
    table = UsageTable(str(path))
    lines: list[bytes] = []
    seconds = 0.0
    for number, event in enumerate(make_events(events), 1):
        lines.append(encode(event))
        if len(lines) == BATCH or number == events:
            start = time.thread_time()
            table.add(lines)
            seconds += time.thread_time() - start
            lines = []
    sys.stdout.write(f"writing an event: {seconds / events * 1e6:.1f} us\n")
    start, pieces, longest = time.thread_time(), 0, 0.0
    more = True
    while more:
        before = time.thread_time()
        more = table.roll_up(hour_of(END))
        longest, pieces = max(longest, time.thread_time() - before), pieces + 1
    spent = time.thread_time() - start
    sys.stdout.write(
        f"adding up the hours: {spent / events * 1e6:.1f} us for each event, in {pieces} pieces, "
        f"the longest {longest * 1000:.1f} ms\n"
    )
    table.close()


def make_events(count: int) -> Iterator[UsageEvent]:
    """Return events in the order of their times."""
    draw = random.Random(1)
    for number in range(count):
        provider, model, upstream_model = draw.choices(MODELS, (5, 3, 2, 2, 1))[0]
        status, error, http_status = draw.choices(ENDS, (950, 20, 10, 10, 10))[0]
        latency_ms = draw.lognormvariate(7.5, 1.0)
        yield UsageEvent(
            request_id=f"req_{number:024x}",
            time=END - DAYS * 86_400 * (1 - number / count),
            dialect="openai",
            route=draw.choices(("chat", "messages", "responses"), (2, 1, 1))[0],
            provider=provider,
            model=model,
            upstream_model=upstream_model,
            modality="text",
            transport="http",
            tokens_in=draw.randint(100, 20_000),
            tokens_out=draw.randint(10, 2000),
            cost_usd=draw.randint(1, 10**8) / 1e9,
            stream=True,
            status=status,
            http_status=http_status,
            latency_ms=latency_ms,
            ttft_ms=latency_ms * draw.random(),
            attempts=1,
            key_hash=KEYS[provider],
            client=draw.choices(CLIENTS, (6, 3, 2, 1, 1))[0],
            error=error,
            upstream_request_id=f"up_{number:024x}",
        )


def queries(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Return what is asked, and how."""
    file = EventFile(str(path))
    for by in (None, *By):
        yield f"usage of {DAYS} days{f' by {by}' if by else ''}", partial(usage, file, DAYS * 24, by)
    yield "usage of 30 days by model, of one client", partial(usage, file, DAYS * 24, By.MODEL, client="web")
    yield "usage of the last hour by model", partial(usage, file, 1, By.MODEL)
    for name, asked in SEARCHES.items():
        yield name, partial(page, file, asked)


def usage(file: EventFile, hours: int, by: By | None, **filters: str) -> bytes:
    """Answer a query for sums as the dashboard does."""
    since = datetime.fromtimestamp(END - hours * 3600, UTC).isoformat()
    parameters = {"since": since, **({} if by is None else {"by": by.value}), **filters}
    query = parse_usage_query(parameters, END)
    with file.open() as connection:
        assert connection is not None
        connection.execute("BEGIN")
        return answer_usage(query, "sqlite", open_period, connection)


def page(file: EventFile, asked: dict[str, object]) -> bytes:
    """Answer a search as the dashboard does."""
    search = EventSearch(**asked, limit=100)  # type: ignore[arg-type]  # a row of the table above
    with file.open() as connection:
        assert connection is not None
        connection.execute("BEGIN")
        return read_page(search, connection)


def measure(name: str, query: Callable[[], bytes]) -> float:
    """Print and return how many milliseconds of CPU a query takes."""
    found = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        answer = query()
        found.append((time.thread_time() - start) * 1000)
    sys.stdout.write(f"{name:<45} {min(found):8.1f} ms  {len(answer):>9,} bytes\n")
    sys.stdout.flush()
    return min(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
