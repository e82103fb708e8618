"""The gateway under cProfile: which functions the time of a request, or of a chunk, goes to."""

from __future__ import annotations

import pstats

from bench.load import streams, unary
from bench.measure import progress
from bench.processes import Bench

SECONDS = 6


def profile(bench: Bench, what: str, rows: int = 45) -> None:
    """Load the gateway under its profiler and print the functions that took longest.

    The profiler makes calls dear: the order and the counts are worth reading, the seconds are not.
    """
    stats_file = bench.folder / "gateway.stats"
    options = (f"--profile={stats_file}", "--profiler=cprofile", "--savestats")
    server = bench.start("gateway", *options)
    progress(f"profiling: {what}")
    if what == "streams":
        done = streams(server, bench.folder, 64, SECONDS * 100, 10)
        count, failed = done.chunks, done.failed
    else:
        run = unary(server, bench.folder, 100 if what == "large" else 1, 32, SECONDS)
        count, failed = run.requests, run.failed
    bench.stop(server)
    print(f"{count:,.0f} {'chunks' if what == 'streams' else 'requests'}, {failed:.0f} failed")
    stats = pstats.Stats(str(stats_file)).strip_dirs()
    stats.sort_stats("tottime").print_stats(rows)
    stats.sort_stats("cumulative").print_stats(rows)
