"""What all processes of a gateway take."""

from __future__ import annotations

import time
from typing import Final

from bench.results import Report
from bench.table import Table
from bench.workers.gateways import Gateways, request
from bench.workers.paced import PacedClient

RATE: Final = 400
SECONDS: Final = 2.0
MIB_PER_WORKER: Final = 35.0
"""What each worker beyond the first may add."""


def measure_memory(report: Report, gateways: Gateways) -> None:
    """Load gateways of several sizes for a while, and look at their memory."""
    table = Table(["memory after some requests", "MiB", "above one process", "above one worker"])
    taken: dict[int | None, float] = {}
    for workers in (None, 1, 2, 4):
        name = "one process" if workers is None else f"{workers} worker{'s' * (workers > 1)}"
        gateway = gateways.start(f"memory {name}", workers)
        with PacedClient(gateway.address, [request()], 32) as client:
            failed = client.run(RATE, SECONDS).failed
            time.sleep(0.2)
            taken[workers] = gateway.memory()
            parts = gateway.pss_by_name()
        above = [f"{taken[workers] - taken[base]:.0f}" if base in taken else "" for base in (None, 1)]
        table.rows.append([name, f"{taken[workers]:.0f}", *above])
        if workers is not None and workers > 1:
            more, most = taken[workers] - taken[1], MIB_PER_WORKER * (workers - 1)
            report.promise(f"{name}: at most {most:.0f} MiB more than one: {more:.1f}", is_kept=more <= most)
        report.notes.append(f"{name}: " + ", ".join(f"{part} {mib:.1f}" for part, mib in parts))
        report.promise(f"{name}: no request fails: {failed} did", is_kept=not failed)
        gateways.bench.stop(gateway.server)
    report.tables.append(table)
