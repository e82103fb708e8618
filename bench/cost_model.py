"""What a million requests cost, and what is full next, from measured inputs: ``python -m bench.cost_model``.

It multiplies; it measures nothing.  Each input says where it is from; ``--set NAME=VALUE`` puts in your own.
``docs/deployment.rst`` has the tables that are printed with none (``--rst``).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

RATES: Final = (10, 1_000, 100_000)
"""Requests in a second."""
HOURS_PER_MONTH: Final = 730


@dataclass(frozen=True, slots=True)
class Input:
    """A number that goes in."""

    name: str
    value: float
    what: str
    source: str


_PERFORMANCE: Final = "performance.rst"
_ASSUMED: Final = "assumed"
INPUTS: Final = (
    Input("relayed_us", 93.2, "CPU of a relayed request of 1 kB, µs", _PERFORMANCE),
    Input("translated_us", 190.3, "CPU of a translated request of 4 kB, µs", _PERFORMANCE),
    Input("chunk_us", 62.7, "CPU of a relayed chunk at 50 chunks/s, µs", _PERFORMANCE),
    Input("translated_chunk_us", 76.1, "CPU of a translated chunk, µs", _PERFORMANCE),
    Input("stream_kib", 5.7, "memory of an open stream, KiB", _PERFORMANCE),
    Input("hub_us", 73.0, "CPU of the supervisor for a request of a worker, µs", "workers.rst"),
    Input("service_mib", 92.0, "memory of a service with one worker, MiB", "workers.rst"),
    Input("worker_mib", 14.0, "memory of each further worker, MiB", "workers.rst"),
    Input("event_bytes", 900.0, "a usage event and its log lines, bytes", "counted"),
    Input("stream_files", 2.0, "open files of a stream: client, provider", "counted"),
    Input("redis_calls", 2.0, "Redis scripts for a request of a limited key", "fleet.rst"),
    Input("redis_per_second", 50_000.0, "scripts that one Redis runs in a second", _ASSUMED),
    Input("streamed", 0.5, "share of requests that are streamed", _ASSUMED),
    Input("translated", 0.2, "share of requests that are translated", _ASSUMED),
    Input("limited", 1.0, "share of requests with a limited key, on several hosts", _ASSUMED),
    Input("chunks", 300.0, "chunks of a stream", _ASSUMED),
    Input("stream_seconds", 10.0, "duration of a stream", _ASSUMED),
    Input("busy", 0.6, "share of a core that may be in use", _ASSUMED),
    Input("host_cores", 16.0, "cores of a host", _ASSUMED),
    Input("host_files", 65_536.0, "open files of a process (LimitNOFILE)", "deployment.rst"),
    Input("core_hour_usd", 0.04, "price of a core for an hour, USD", _ASSUMED),
    Input("gib_hour_usd", 0.005, "price of a GiB for an hour, USD", _ASSUMED),
)


@dataclass(frozen=True, slots=True)
class Size:
    """What a rate of requests takes."""

    rate: int
    workers: int
    hosts: int
    cores: float
    """In use, on average."""
    streams: float
    memory_gib: float
    events_mb: float
    """Written in a second."""
    redis_calls: float
    """In a second."""
    usd_per_million: float
    usd_per_month: float
    next_limit: str
    """What is full first as requests grow, and at how many in a second."""


@dataclass(frozen=True, slots=True)
class Model:
    """What follows from the inputs, by name."""

    of: Mapping[str, float]

    @property
    def worker_us(self) -> float:
        """CPU of a worker for an average request."""
        of, translated = self.of, self.of["translated"]
        request = (1 - translated) * of["relayed_us"] + translated * of["translated_us"]
        chunk = (1 - translated) * of["chunk_us"] + translated * of["translated_chunk_us"]
        return request + of["streamed"] * of["chunks"] * chunk

    @property
    def per_worker(self) -> float:
        """Requests that a worker answers in a second: by its CPU, and by its open files."""
        of = self.of
        by_files = of["host_files"] / (of["streamed"] * of["stream_seconds"] * of["stream_files"])
        return min(of["busy"] * 1e6 / self.worker_us, by_files)

    @property
    def per_host(self) -> float:
        """Requests that a host answers in a second; what its supervisor needs is no worker's."""
        of = self.of
        share = self.worker_us / (self.worker_us + of["hub_us"])
        by_cores = self.per_worker * of["host_cores"] * share
        return min(by_cores, of["busy"] * 1e6 / of["hub_us"])

    def size(self, rate: int) -> Size:
        """Return what so many requests in a second take."""
        of = self.of
        hosts = ceil(rate / self.per_host)
        workers = ceil(rate / self.per_worker)
        streams = rate * of["streamed"] * of["stream_seconds"]
        cores = rate * (self.worker_us + (of["hub_us"] if workers > 1 else 0)) / 1e6
        fixed = hosts * of["service_mib"] + (workers - hosts) * of["worker_mib"]
        memory = (fixed + streams * of["stream_kib"] / 1024) / 1024
        hourly = ceil(cores / of["busy"]) * of["core_hour_usd"] + memory * of["gib_hour_usd"]
        return Size(
            rate=rate,
            workers=workers,
            hosts=hosts,
            cores=cores,
            streams=streams,
            memory_gib=memory,
            events_mb=rate * of["event_bytes"] / 1e6,
            redis_calls=rate * of["limited"] * of["redis_calls"] if hosts > 1 else 0.0,
            usd_per_million=hourly / (rate * 3600 / 1e6),
            usd_per_month=hourly * HOURS_PER_MONTH,
            next_limit=self._next_limit(rate, hosts),
        )

    def _next_limit(self, rate: int, hosts: int) -> str:
        of = self.of
        redis = of["redis_per_second"] / (of["limited"] * of["redis_calls"])
        limits = [
            (self.per_worker, "one process: set workers"),
            (self.per_host, "one host: add hosts, and Redis"),
            (redis, "one Redis: give groups of hosts their own prefix and Redis"),
        ]
        for most, what in limits:
            if rate < most:
                return f"{what}, at {_number(most)}/s"
        return f"{what}, reached at {_number(most)}/s; beyond it hosts: now {hosts}"


def model(changed: Mapping[str, float] | None = None) -> Model:
    """Return the model with the inputs above, some of them changed."""
    return Model({**{one.name: one.value for one in INPUTS}, **(changed or {})})


def size_table(found: Model) -> list[tuple[str, ...]]:
    """Return the table of sizes, its header first."""
    sizes = [found.size(rate) for rate in RATES]
    rows: list[tuple[str, ...]] = [("", *(f"{size.rate:,} requests/s" for size in sizes))]
    rows.append(("cores in use", *(_number(size.cores) for size in sizes)))
    rows.append(("workers", *(f"{size.workers:,}" for size in sizes)))
    rows.append(("hosts", *(f"{size.hosts:,}" for size in sizes)))
    rows.append(("open streams", *(f"{size.streams:,.0f}" for size in sizes)))
    rows.append(("memory, GiB", *(_number(size.memory_gib) for size in sizes)))
    rows.append(("usage events and log, MB/s", *(_number(size.events_mb) for size in sizes)))
    rows.append(("Redis scripts/s", *(f"{size.redis_calls:,.0f}" for size in sizes)))
    rows.append(("USD for a million requests", *(f"{size.usd_per_million:.2f}" for size in sizes)))
    rows.append(("USD for a month", *(f"{size.usd_per_month:,.0f}" for size in sizes)))
    rows.append(("full next", *(size.next_limit for size in sizes)))
    return rows


def input_table() -> list[tuple[str, ...]]:
    """Return the table of inputs, its header first."""
    rows: list[tuple[str, ...]] = [("input", "", "value", "from")]
    return [*rows, *((f"``{one.name}``", one.what, f"{one.value:g}", one.source) for one in INPUTS)]


def as_rst(table: Sequence[Sequence[str]]) -> str:
    """Return a table as the pages have it."""
    header, *rows = [", ".join(f'"{cell}"' for cell in row) for row in table]
    lines = [".. csv-table::", f"   :header: {header}", "", *(f"   {row}" for row in rows)]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _as_text(table: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def _setting(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if name not in {one.name for one in INPUTS}:
        raise argparse.ArgumentTypeError(f"there is no input {name!r}")
    return name, float(value)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="bench.cost_model", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--set", action="append", type=_setting, default=[], metavar="NAME=VALUE")
    parser.add_argument("--rst", action="store_true", help="as the page has them")
    options = parser.parse_args()
    changed = dict(options.set)
    show = as_rst if options.rst else _as_text
    inputs = [
        (*row[:2], f"{changed[name]:g}" if (name := row[0].strip("`")) in changed else row[2], row[3])
        for row in input_table()
    ]
    print(show(inputs))
    print()
    print(show(size_table(model(changed))))


if __name__ == "__main__":
    main()
