"""The gateway under cProfile: which functions the time of a request, or of a chunk, goes to."""

from __future__ import annotations

import pstats
from collections import Counter

from bench.load import streams, unary
from bench.processes import Bench
from bench.results import progress

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
    for owner, share in shares(pstats.Stats(str(stats_file))):
        print(f"{owner:>24} {share:6.1%}")
    stats = pstats.Stats(str(stats_file)).strip_dirs()
    stats.sort_stats("tottime").print_stats(rows)
    stats.sort_stats("cumulative").print_stats(rows)


def shares(stats: pstats.Stats) -> list[tuple[str, float]]:
    """Whose functions the busy time went to, the largest share first; waiting in the poll is not busy."""
    seconds: Counter[str] = Counter()
    rows: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = stats.stats  # type: ignore[attr-defined]  # typeshed has no such field
    for (file, _, name), (_, _, own, _, _) in rows.items():
        if "epoll" not in name:
            seconds[_owner(file, name)] += own
    total = sum(seconds.values())
    return [(owner, own / total) for owner, own in seconds.most_common()]


def _owner(file: str, name: str) -> str:
    if "'_socket.socket'" in name:
        return "the kernel: send, recv"
    if file == "~":
        return "built-in functions"
    for owner in ("mgw", "twisted", "klein"):
        if f"/{owner}/" in file:
            return owner
    return "other Python"
