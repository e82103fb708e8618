"""The gateway with a watch on its reactor: how much CPU it uses between two turns.

A request that is worked on for long keeps all others waiting until the reactor turns again.  What counts is
the CPU time of the process between two beats of a timer, whichever thread uses it: other processes on the
machine do not lengthen it.
"""

from __future__ import annotations

import json
import resource
import sys
import time

from twisted.internet import protocol, reactor
from twisted.protocols.basic import LineReceiver

BEAT_SECONDS = 0.002
MOST_BYTES = 8 * 2**30


class Watch(LineReceiver):
    """Answers each line with the longest beat since the last one, in milliseconds."""

    delimiter = b"\n"

    def connectionMade(self) -> None:
        self.last = time.process_time()
        self.longest = 0.0
        self._beat()

    def lineReceived(self, line: bytes) -> None:
        self._note()
        self.sendLine(b"%f" % (self.longest * 1000.0))  # type: ignore[no-untyped-call]  # Twisted's
        self.longest = 0.0

    def _note(self) -> None:
        now = time.process_time()
        self.longest = max(self.longest, now - self.last)
        self.last = now

    def _beat(self) -> None:
        self._note()
        reactor.callLater(BEAT_SECONDS, self._beat)  # type: ignore[attr-defined]  # the installed reactor


def main() -> None:
    from mgw.app.check import reader_of
    from mgw.app.service import GatewayService

    read = reader_of(sys.argv[1])
    service = GatewayService(read(), read, reactor, None)
    service.privilegedStartService()
    service.startService()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))

    def begin() -> None:
        factory = protocol.ServerFactory.forProtocol(Watch)
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]  # as above
        print(json.dumps([service.gateway.addresses[0], port.getHost().port]), flush=True)

    reactor.callWhenRunning(begin)  # type: ignore[attr-defined]  # as above
    reactor.run()  # type: ignore[attr-defined]  # as above


if __name__ == "__main__":
    main()
