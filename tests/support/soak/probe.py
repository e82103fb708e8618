"""The probe of a soak: ``python -m tests.support.soak.probe PORT`` asks one small question after another.

It is a process of its own, so that neither the clients of the soak nor their work are in its times.  It
writes one line for each answer, the microseconds that it took or ``failed``, and ends when its input does.
"""

from __future__ import annotations

import select
import sys
import time

from tests.support.raw_client import RawClient
from tests.support.soak.exchanges import PROBES, Exchange

PAUSE_SECONDS = 0.05
FAILED = "failed"


def main() -> None:
    """Ask until standard input ends."""
    port, number = int(sys.argv[1]), PROBES
    client: RawClient | None = None
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        number += 1
        exchange = Exchange(number, "openai", "c", stream=False, scenario="ok")
        began = time.perf_counter()
        try:
            client = client or RawClient(port)
            client.send(exchange.request())
            response = client.read_response()
            answered = response.status == 200 and exchange.model.encode() in response.body
        except (OSError, AssertionError):
            answered = False
        print(f"{(time.perf_counter() - began) * 1e6:.0f}" if answered else FAILED, flush=True)
        if not answered and client is not None:
            client.socket.close()
            client = None


if __name__ == "__main__":
    main()
