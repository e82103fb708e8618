"""The gateway with a watch on its reactor: how much CPU it uses between two turns, and its largest memory.

A request that is worked on for long keeps all others waiting until the reactor turns again.  What counts is
the CPU time of the process between two beats of a timer, whichever thread uses it: other processes on the
machine do not lengthen it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from twisted.internet import protocol, reactor
from twisted.protocols.basic import LineReceiver

BEAT_SECONDS = 0.002


class Watch:
    """What was seen since the last :meth:`reset`."""

    def __init__(self) -> None:
        self.reset()
        self._beat()

    def reset(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew (proc(5))
        self.before = memory("VmRSS")
        self.began = self.last = time.process_time()
        self.longest = 0.0

    def report(self) -> dict[str, float]:
        self.note()
        return {
            "longest_ms": self.longest * 1000.0,
            "cpu_ms": (time.process_time() - self.began) * 1000.0,
            "resident_bytes": memory("VmRSS"),
            "peak_bytes": max(0, memory("VmHWM") - self.before),
        }

    def note(self) -> None:
        now = time.process_time()
        self.longest = max(self.longest, now - self.last)
        self.last = now

    def _beat(self) -> None:
        self.note()
        reactor.callLater(BEAT_SECONDS, self._beat)  # type: ignore[attr-defined]  # the installed reactor


class Control(LineReceiver):
    """One word in, one line of JSON out."""

    delimiter = b"\n"
    watch: Watch

    def lineReceived(self, line: bytes) -> None:
        if line == b"reset":
            self.watch.reset()
        self.sendLine(json.dumps(self.watch.report()).encode())  # type: ignore[no-untyped-call]  # Twisted's


def memory(name: str) -> int:
    """A line of ``/proc/self/status``, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def main() -> None:
    from mgw.app.daemon import reader_of
    from mgw.app.service import GatewayService

    read = reader_of(sys.argv[1])
    service = GatewayService(read(), read, reactor, None)
    service.privilegedStartService()
    service.startService()
    limit = 8 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def begin() -> None:
        factory = protocol.ServerFactory()
        factory.protocol = Control  # type: ignore[assignment]  # a class is a callable
        Control.watch = Watch()
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]  # as above
        print(json.dumps([service.gateway.addresses[0], port.getHost().port]), flush=True)

    reactor.callWhenRunning(begin)  # type: ignore[attr-defined]  # as above
    reactor.run()  # type: ignore[attr-defined]  # as above


if __name__ == "__main__":
    main()
