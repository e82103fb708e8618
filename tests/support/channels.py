"""A client's connection in memory, and a request handler that records what it sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress, ITCPTransport
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.http.head_key import HeadKey
from mgw.http.request_head import RequestHead
from mgw.http.response_writer import reason_phrase
from mgw.memo.known_head import KnownHead
from mgw.nouns.errors import GatewayError
from mgw.web.channel import GatewayChannel
from mgw.web.interfaces import ChannelLimits
from mgw.web.listener import ChannelFactory

LIMITS = ChannelLimits(client_headers=10, client_body_idle=60, client_idle=90, write_stall=300)


@dataclass
class RecordedRequest:
    """One request, and what happened to it."""

    channel: GatewayChannel
    head: RequestHead
    handler: RecordingHandler
    body: bytes = b""
    events: list[str] = field(default_factory=list)

    def on_body_data(self, data: bytes) -> None:
        self.body += data
        if not self.events or self.events[-1] != "body":
            self.events.append("body")

    def on_body_end(self) -> None:
        self.events.append("ended")
        if self.handler.answer is not None:
            self.handler.answer(self)

    def on_whole_body(self, content: bytes) -> None:
        self.on_body_data(content)
        self.on_body_end()

    def on_disconnect(self) -> None:
        self.events.append("disconnected")

    def on_body_timeout(self) -> None:
        self.events.append("too slow")
        self.say(b"too slow", 408)

    def on_malformed_body(self, error: GatewayError) -> None:
        self.events.append("broken")
        self.say(b"broken", error.status)

    def say(self, body: bytes, status: int = 200) -> None:
        """Give a counted answer."""
        self.channel.start(status, reason_phrase(status), [(b"Content-Length", b"%d" % len(body))])
        self.channel.write(body)
        self.channel.finish()

    def echo(self) -> None:
        """Answer with what was asked."""
        self.say(b"%b %b %b" % (self.head.method, self.head.target, self.body))


@dataclass
class RecordingHandler:
    """A handler that accepts every request; ``answer`` is called for each complete one."""

    answer: Callable[[RecordedRequest], None] | None = None
    on_head: Callable[[RecordedRequest], None] | None = None
    requests: list[RecordedRequest] = field(default_factory=list)
    refusals: list[tuple[int, bytes | None]] = field(default_factory=list)

    def find_head(self, key: bytes) -> KnownHead | None:
        return None

    def on_known_request(self, channel: GatewayChannel, known: KnownHead, key: HeadKey) -> RecordedRequest:
        raise AssertionError("nothing is known of any head")

    def on_request(
        self,
        channel: GatewayChannel,
        head: RequestHead,
        key: HeadKey | None = None,
        *,
        waited: bool = False,
    ) -> RecordedRequest:
        assert not waited
        request = RecordedRequest(channel, head, self)
        self.requests.append(request)
        if self.on_head is not None:
            self.on_head(request)
        return request

    def on_malformed_request(
        self, channel: GatewayChannel, error: GatewayError, target: bytes | None
    ) -> None:
        self.refusals.append((error.status, target))
        message = error.message.encode()
        channel.start(error.status, reason_phrase(error.status), [(b"Content-Length", b"%d" % len(message))])
        channel.write(message)
        channel.finish()


def channel_of(factory: ChannelFactory, address: IAddress | None = None) -> GatewayChannel:
    """Return the channel of a new client, for whom there is room."""
    channel = factory.buildProtocol(address)
    assert isinstance(channel, GatewayChannel)
    return channel


class Line:
    """One client, connected to a channel in front of ``handler``."""

    def __init__(self, handler: RecordingHandler | None = None, limits: ChannelLimits = LIMITS) -> None:
        self.clock = Clock()
        self.handler = RecordingHandler(RecordedRequest.echo) if handler is None else handler
        self.factory = ChannelFactory(self.handler, self.clock, limits)
        self.transport = StringTransport()
        self.channel = channel_of(self.factory)
        self.channel.makeConnection(self.transport)  # type: ignore[no-untyped-call]  # Twisted's

    def send(self, data: bytes) -> None:
        """Send some bytes."""
        self.channel.dataReceived(data)

    def leave(self) -> None:
        """Close the client's side."""
        self.channel.connectionLost(Failure(ConnectionDone()))

    def take(self) -> bytes:
        """Return what has come since the last time."""
        data: bytes = self.transport.value()
        self.transport.clear()
        return data

    @property
    def requests(self) -> list[RecordedRequest]:
        return self.handler.requests

    @property
    def closing(self) -> bool:
        """Whether the channel has asked for the end of the connection."""
        return self.transport.disconnecting

    @property
    def aborted(self) -> bool:
        """Whether it has asked for it at once."""
        return self.transport.disconnected

    @property
    def reading(self) -> bool:
        """Whether the channel still reads."""
        return self.transport.producerState == "producing"

    def timers(self) -> int:
        """Return how many timers there are."""
        return len(self.clock.getDelayedCalls())


def get(path: str = "/", *headers: str, version: str = "1.1", method: str = "GET") -> bytes:
    """Return a request without a body."""
    host = ["Host: gateway"] if version == "1.1" else []
    return "\r\n".join([f"{method} {path} HTTP/{version}", *host, *headers, "", ""]).encode("latin-1")


def post(body: bytes, *headers: str, path: str = "/") -> bytes:
    """Return a request with a counted body."""
    return get(path, f"Content-Length: {len(body)}", *headers, method="POST") + body


def chunked(*chunks: bytes, path: str = "/", trailers: bytes = b"") -> bytes:
    """Return a request with a chunked body."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return get(path, "Transfer-Encoding: chunked", method="POST") + body + b"0\r\n" + trailers + b"\r\n"


def answer(body: bytes, status: int = 200, *headers: str) -> bytes:
    """Return the counted answer that :class:`RecordedRequest` gives."""
    lines = [
        f"HTTP/1.1 {status} {reason_phrase(status).decode()}",
        f"Content-Length: {len(body)}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


@implementer(ITCPTransport)
class TcpTransport(StringTransport):
    """A transport of TCP's, which knows whether its packets wait."""

    waits = True

    def setTcpNoDelay(self, enabled: bool) -> None:
        self.waits = not enabled

    def getTcpNoDelay(self) -> bool:
        return not self.waits

    def setTcpKeepAlive(self, enabled: bool) -> None:
        pass

    def getTcpKeepAlive(self) -> bool:
        return False

    def loseWriteConnection(self) -> None:
        pass


CLOSE = "Connection: close"


def silent() -> Line:
    """Return a line whose requests answer nothing by themselves."""
    return Line(RecordingHandler())
