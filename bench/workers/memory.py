"""What all processes of a gateway take."""

from __future__ import annotations

import time
from typing import Final

from bench.workers.gateways import Gateways, request
from bench.workers.paced import PacedClient
from bench.workers.report import Section

RATE: Final = 400
SECONDS: Final = 2.0
MIB_PER_WORKER: Final = 35.0
"""What each worker beyond the first may add to the memory of one process."""


def measure_memory(gateways: Gateways) -> Section:
    """Load gateways of several sizes for a while, and look at their memory."""
    section = Section(
        "memory after some requests, all processes together", ("all on", "Pss MiB", "above one", "may be")
    )
    one = 0.0
    for workers in (None, 1, 2, 4):
        name = "one process" if workers is None else f"{workers} worker{'s' * (workers > 1)}"
        gateway = gateways.start(f"memory {name}", workers)
        with PacedClient(gateway.address, [request()], 32) as client:
            failed = len(client.run(RATE, SECONDS).failures)
            time.sleep(0.2)
            taken = gateway.pss()
            parts = gateway.pss_by_name()
        one = one or taken
        more, most = taken - one, MIB_PER_WORKER * ((workers or 1) - 1)
        limits = (f"{most:.0f}",) if workers not in (None, 1) else ("-",)
        section.rows.append((name, f"{taken:.1f}", f"{more:.1f}", *limits))
        if workers not in (None, 1):
            section.promise(f"{name}: at most {most:.0f} MiB more: {more:.1f}", is_kept=more <= most)
        section.notes.append(f"{name}: " + ", ".join(f"{part} {mib:.1f}" for part, mib in parts))
        section.promise(f"{name}: no request fails: {failed} did", is_kept=not failed)
        gateways.stop(gateway)
    return section
