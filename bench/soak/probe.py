"""The probe of a soak: ``python -m bench.soak.probe PORT`` asks one small question after another.

It is a process of its own, so that neither the clients of the soak nor their work are in its times.  It
writes one line for each answer, the microseconds that it took or ``failed``, and ends when its input does.
"""

from __future__ import annotations

import select
import socket
import sys
import time

from bench.soak.exchanges import PROBES, Exchange

PAUSE_SECONDS = 0.05
ANSWER_SECONDS = 30.0
FAILED = "failed"


def main() -> None:
    """Ask until standard input ends."""
    port, number = int(sys.argv[1]), PROBES
    connection: socket.socket | None = None
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        number += 1
        exchange = Exchange(number, "openai", "c", stream=False, scenario="ok")
        began = time.perf_counter()
        try:
            connection = connection or socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
            connection.sendall(exchange.request())
            answered = _is_answered(connection, exchange)
        except OSError:
            answered = False
        print(f"{(time.perf_counter() - began) * 1e6:.0f}" if answered else FAILED, flush=True)
        if not answered and connection is not None:
            connection.close()
            connection = None


def _is_answered(connection: socket.socket, exchange: Exchange) -> bool:
    """Read one answer, which has a length; false where it is another one or none."""
    held = b""
    while data := connection.recv(65536):
        held += data
        head, end, body = held.partition(b"\r\n\r\n")
        if end and len(body) >= _length_in(head):
            return held.startswith(b"HTTP/1.1 200 ") and exchange.model.encode() in body
    return False


def _length_in(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0])


if __name__ == "__main__":
    main()
