"""The dashboard's queries over a month of usage events take little of their thread's time.

``make bench-history`` runs this with a million events (``MGW_HISTORY_EVENTS``) and prints the times.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from mgw.dashboard.event_queries import EventFile
from mgw.dashboard.request_list import read_page
from mgw.dashboard.usage import answer_usage
from mgw.dashboard.usage_query import By, parse_usage_query
from mgw.usage.event import Outcome, UsageEvent
from mgw.usage.event_search import EventSearch
from mgw.usage.record import encode
from mgw.usage.usage_read import open_period
from mgw.usage.usage_rollup import hour_of
from mgw.usage.usage_table import UsageTable

EVENTS: Final = int(os.environ.get("MGW_HISTORY_EVENTS", "20000"))
GOAL_MS: Final = 300
ROUNDS: Final = 5
BATCH: Final = 1000
PAGE: Final = 100
DAYS: Final = 30
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
SEARCHES: Final[dict[str, EventSearch]] = {
    "the newest requests": EventSearch(limit=PAGE),
    "requests of a client": EventSearch(exact=(("client", "mobile"),), limit=PAGE),
    "requests of a provider": EventSearch(exact=(("provider", "local"),), limit=PAGE),
    "requests of a model": EventSearch(exact=(("model", "qwen"),), limit=PAGE),
    "requests of a route": EventSearch(exact=(("route", "responses"),), limit=PAGE),
    "requests with an outcome": EventSearch(status="upstream_error", limit=PAGE),
    "requests with a class of statuses": EventSearch(status="5xx", limit=PAGE),
    "requests with an error": EventSearch(exact=(("error", "upstream_4xx"),), limit=PAGE),
    "requests of a key": EventSearch(exact=(("key_hash", "23456789abcd"),), limit=PAGE),
    "requests of a client that does not exist": EventSearch(exact=(("client", "nobody"),), limit=PAGE),
    "a request by its id": EventSearch(exact=(("request_id", f"req_{7:024x}"),), limit=PAGE),
    "a request by the provider's id": EventSearch(
        exact=(("upstream_request_id", f"up_{7:024x}"),), limit=PAGE
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_query_over_a_month_of_events_holds_its_thread_long(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    write_events(path)
    taken = {name: milliseconds(name, query) for name, query in queries(path)}
    assert not {name: found for name, found in taken.items() if found > GOAL_MS}


def write_events(path: Path) -> None:
    """Write the events in batches as ``hooks.sqlite`` does, and then add up their hours."""
    table, seconds = UsageTable(str(path)), 0.0
    lines = map(encode, make_events())
    while batch := list(islice(lines, BATCH)):
        start = time.thread_time()
        table.add(batch)
        seconds += time.thread_time() - start
    pieces: list[float] = []
    more = True
    while more:
        start = time.thread_time()
        more = table.roll_up(hour_of(END))
        pieces.append(time.thread_time() - start)
    table.close()
    say(f"\n{EVENTS:,} events, {path.stat().st_size / EVENTS:.0f} bytes each")
    say(f"writing an event: {seconds / EVENTS * 1e6:.1f} us")
    say(f"adding up the hours: {sum(pieces) / EVENTS * 1e6:.1f} us for each event")
    say(f"the longest of {len(pieces)} pieces of that: {max(pieces) * 1e3:.1f} ms")


def make_events() -> Iterator[UsageEvent]:
    """Yield events in the order of their times."""
    draw = random.Random(1)
    for number in range(EVENTS):
        provider, model, upstream_model = draw.choices(MODELS, (5, 3, 2, 2, 1))[0]
        status, error, http_status = draw.choices(ENDS, (950, 20, 10, 10, 10))[0]
        latency_ms = draw.lognormvariate(7.5, 1.0)
        yield UsageEvent(
            request_id=f"req_{number:024x}",
            time=END - DAYS * 86_400 * (1 - number / EVENTS),
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
    """Yield what the dashboard asks, and how."""
    file = EventFile(str(path))
    for by in (None, *By):
        yield f"usage of {DAYS} days{f' by {by}' if by else ''}", partial(usage, file, DAYS * 24, by)
    yield "usage of 30 days by model, of one client", partial(usage, file, DAYS * 24, By.MODEL, client="web")
    yield "usage of the last hour by model", partial(usage, file, 1, By.MODEL)
    for name, search in SEARCHES.items():
        yield name, partial(page, file, search)


def usage(file: EventFile, hours: int, by: By | None, **filters: str) -> bytes:
    """Answer a query for sums."""
    since = datetime.fromtimestamp(END - hours * 3600, UTC).isoformat()
    query = parse_usage_query({"since": since, **({} if by is None else {"by": by.value}), **filters}, END)
    with file.open() as connection:
        assert connection is not None
        connection.execute("BEGIN")
        return answer_usage(query, "sqlite", open_period, connection)


def page(file: EventFile, search: EventSearch) -> bytes:
    """Answer a search."""
    with file.open() as connection:
        assert connection is not None
        connection.execute("BEGIN")
        return read_page(search, connection)


def milliseconds(name: str, query: Callable[[], bytes]) -> float:
    """Return the CPU time of a query's fastest round."""
    found = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        assert query()
        found.append((time.thread_time() - start) * 1000)
    say(f"{name:<45} {min(found):8.1f} ms")
    return min(found)


def say(line: str) -> None:
    """Print a line where pytest shows output (``-s``)."""
    sys.stdout.write(f"{line}\n")
