"""A reverse proxy of Klein and treq on Twisted's own HTTP, written with care, to compare the gateway with.

It relays and does nothing else: no key, no metering, no log.  It keeps its connections to the upstream,
streams the answer unbuffered, pauses the upstream for a slow client and leaves it when the client leaves.

    python -m bench.klein_proxy PORT UPSTREAM_PORT
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from klein import Klein
from treq.client import HTTPClient
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, ConnectingCancelledError
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool, ResponseDone, ResponseNeverReceived
from twisted.web.http import BAD_GATEWAY
from twisted.web.http_headers import Headers
from twisted.web.iweb import UNKNOWN_LENGTH
from twisted.web.server import Request, Site

NOT_FORWARDED = frozenset(
    b"connection host keep-alive proxy-connection te trailer transfer-encoding upgrade content-length".split()
)


def end_to_end(headers: Headers) -> Headers:
    """All headers but those of one connection (RFC 9110 7.6.1) and the length, which each side says itself.

    treq's agent adds an empty ``Content-Encoding``, hence the look at the values.
    """
    pairs = headers.getAllRawHeaders()
    return Headers({k: values for k, values in pairs if values != [b""] and k.lower() not in NOT_FORWARDED})


class Relay(Protocol):
    """Write the upstream's body to the client, at the client's pace."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.over: Deferred[None] = Deferred(lambda _: self.transport.loseConnection())

    def connectionMade(self) -> None:
        self.request.registerProducer(self.transport, streaming=True)

    def dataReceived(self, data: bytes) -> None:
        self.request.write(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.over.called:  # the client left: Klein has cancelled the handler
            return
        self.request.unregisterProducer()
        if reason.check(ResponseDone):
            self.over.callback(None)
        else:
            self.request.transport.abortConnection()


@dataclass
class Proxy:
    """One upstream behind every path."""

    client: HTTPClient
    base_url: bytes
    app: ClassVar[Klein] = Klein()

    @app.route("/", branch=True)
    async def relay(self, request: Request) -> None:
        """Ask the upstream the same and stream its answer."""
        try:
            answer = await self.client.request(
                request.method.decode("ascii"),
                self.base_url + request.uri,
                headers=end_to_end(request.requestHeaders),
                data=request.content.read() or None,
                unbuffered=True,
                allow_redirects=False,
            )
        except (ConnectError, ConnectingCancelledError, ResponseNeverReceived):  # or the client left
            request.setResponseCode(BAD_GATEWAY)
            return
        request.setResponseCode(answer.code, answer.phrase)
        request.responseHeaders = end_to_end(answer.headers)
        if answer.length is not UNKNOWN_LENGTH:
            request.setHeader(b"content-length", b"%d" % answer.length)
        relay = Relay(request)
        answer.deliverBody(relay)
        await relay.over


class QuietSite(Site):
    """A site without an access log."""

    def log(self, request: Request) -> None:
        """Write nothing."""


def main(port: int, upstream_port: int) -> None:
    """Serve until the process is ended."""
    pool = HTTPConnectionPool(reactor)
    pool.maxPersistentPerHost = 256
    proxy = Proxy(HTTPClient(Agent(reactor, pool=pool)), b"http://127.0.0.1:%d" % upstream_port)
    reactor.listenTCP(port, QuietSite(proxy.app.resource()), backlog=4096, interface="127.0.0.1")
    reactor.run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
