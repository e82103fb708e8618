"""What all processes of a gateway take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from bench.workers.gateways import Gateways, request
from bench.workers.paced import PacedClient
from bench.workers.report import Section

RATE: Final = 400
SECONDS: Final = 2.0
MIB_PER_WORKER: Final = 35.0
"""What each worker beyond the first may add."""


def measure_memory(gateways: Gateways) -> Section:
    """Load gateways of several sizes for a while, and look at their memory."""
    section = Section(
        "memory after some requests, all processes together",
        ("all on", "Pss MiB", "above one process", "above one worker", "may be"),
    )
    taken: dict[int | None, float] = {}
    for workers in (None, 1, 2, 4):
        name = "one process" if workers is None else f"{workers} worker{'s' * (workers > 1)}"
        gateway = gateways.start(f"memory {name}", workers)
        with PacedClient(gateway.address, [request()], 32) as client:
            failed = len(client.run(RATE, SECONDS).failures)
            time.sleep(0.2)
            taken[workers] = gateway.pss()
            parts = gateway.pss_by_name()
        section.rows.append((name, f"{taken[workers]:.1f}", *_compared(taken, workers)))
        if workers is not None and workers > 1:
            more, most = taken[workers] - taken[1], _most(workers)
            section.promise(f"{name}: at most {most:.0f} MiB more than one: {more:.1f}", is_kept=more <= most)
        section.notes.append(f"{name}: " + ", ".join(f"{part} {mib:.1f}" for part, mib in parts))
        section.promise(f"{name}: no request fails: {failed} did", is_kept=not failed)
        gateways.stop(gateway)
    return section


def _most(workers: int) -> float:
    return MIB_PER_WORKER * (workers - 1)


def _compared(taken: Mapping[int | None, float], workers: int | None) -> tuple[str, str, str]:
    if workers is None:
        return "–", "–", "–"
    above = f"{taken[workers] - taken[None]:.1f}"
    if workers == 1:
        return above, "–", "–"
    return above, f"{taken[workers] - taken[1]:.1f}", f"{_most(workers):.0f}"
