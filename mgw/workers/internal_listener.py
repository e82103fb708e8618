"""The private UNIX socket on which the supervisor receives requests that workers forward.

It lies in a directory that only the user of the service may enter, and whoever connects is asked for his user
once more.  So what a connection says of its client is believed (:mod:`mgw.workers.forwarding`): the server
sees the client's address, whether it speaks TLS, and the id of its request as if it had come directly.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from struct import calcsize, unpack
from tempfile import gettempdir, mkdtemp
from typing import Any, Final, Literal, cast

import msgspec
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress, IListeningPort
from twisted.internet.protocol import Protocol, ServerFactory, connectionDone
from twisted.python.failure import Failure

from mgw.http.head_key import HeadKey
from mgw.http.request_head import RequestHead
from mgw.memo.known_head import KnownHead
from mgw.nouns.errors import GatewayError
from mgw.nouns.token_flaw import TokenFlaw
from mgw.reactor.deadline import Deadline
from mgw.reactor.transport import RelayTransport
from mgw.usage.record import EndedRequest
from mgw.web.channel import GatewayChannel
from mgw.web.interfaces import ChannelLimits, RequestObserver, RequestReceiver
from mgw.web.listener import BACKLOG, ChannelFactory
from mgw.web.server import WebServer
from mgw.web.waiting_request import WaitingRequest
from mgw.workers.forwarding import ForwardedClient

MAX_PATH_BYTES: Final = 107
"""What the kernel takes (``sun_path``, unix(7))."""
LINE_SECONDS: Final = 10.0
"""How long the line about the client may take."""
MAX_LINE_BYTES: Final = 1024
LIMITS: Final = ChannelLimits(
    client_headers=LINE_SECONDS,
    client_body_idle=60.0,
    client_idle=LINE_SECONDS,
    write_stall=7 * 86400.0,
    max_head_bytes=128 * 1024,
    max_headers=512,
)
"""More than a client may take: the worker has checked that, and alone sees what a slow client receives."""

_PREFIX: Final = "mgw-hub"
_SOCKET: Final = "http"
_CREDENTIALS: Final = "3i"  # struct ucred: process, user, group
_PEER_CREDENTIALS: Final[int | None] = getattr(socket, "SO_PEERCRED", None)


@dataclass(slots=True)
class InternalListener:
    """The socket, and the connections that came by it.

    :param directories: where the directory of the socket may be made; the first that will do is taken.
    """

    reactor: Any  # Any: a reactor has no one type
    server: WebServer
    directories: Sequence[str]
    user: int | None = None
    """The user whose processes may connect; ``None``: the one that this process has at the time."""
    channels: ChannelFactory = field(init=False)
    """The connections: whoever stops the supervisor drains them."""
    _requests: _ForwardedRequests = field(init=False, repr=False)
    _directory: str | None = None
    _port: IListeningPort | None = None

    def __post_init__(self) -> None:
        self._requests = _ForwardedRequests(self.server)
        self.channels = ChannelFactory(self._requests, self.reactor, LIMITS)

    def start(self) -> str:
        """Listen; return the path of the socket.

        Processes that are forked later inherit the socket, and would keep it open: fork before.

        :raises ValueError: there is no place for it; it says why.
        """
        factory = _ConnectionFactory(self)
        problems = []
        for directory in self.directories:
            remove_stale(directory)
            try:
                path = make_socket_path(directory)
            except OSError as error:
                problems.append(f"{directory}: {error.strerror}")
                continue
            try:
                self._port = self.reactor.listenUNIX(path, factory, backlog=BACKLOG, mode=0o600)
            except CannotListenError as error:
                problems.append(f"{directory}: {error.socketError}")
                rmtree(os.path.dirname(path), ignore_errors=True)
                continue
            self._directory = os.path.dirname(path)
            return path
        raise ValueError(f"cannot create a socket for the workers: {'; '.join(problems)}")

    async def stop(self) -> None:
        """Take no more connections, let those that there are end, and remove the socket."""
        port, self._port = self._port, None
        if port is not None:
            stopping = port.stopListening()
            if isinstance(stopping, Deferred):
                await stopping
        await self.channels.stopped()
        directory, self._directory = self._directory, None
        if directory is not None:
            rmtree(directory, ignore_errors=True)

    def connection(self) -> ForwardedConnection:
        """Return the protocol of a new connection."""
        user = os.geteuid() if self.user is None else self.user
        return ForwardedConnection(self.channels, self._requests, user)


def socket_directories(spool_directory: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return where the socket's directory may be made.

    That is in systemd's ``RuntimeDirectory=``, which systemd clears even when the service was killed; else
    with the spool, else among temporary ones.
    """
    runtime = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    return [*([runtime] if os.path.isabs(runtime) else []), spool_directory, gettempdir()]


def make_socket_path(directory: str) -> str:
    """Make a private directory below another one; return the path that the socket is to have.

    :raises OSError: it cannot be made, or the path is too long for a socket.
    """
    made = mkdtemp(prefix=f"{_PREFIX}-{os.getpid()}-", dir=directory)
    path = os.path.join(made, _SOCKET)
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        os.rmdir(made)
        raise OSError(0, f"a socket path may have at most {MAX_PATH_BYTES} bytes")
    return path


def remove_stale(directory: str) -> None:
    """Remove what processes of ours have left behind that could not clean up.

    A process may be dead by its number and alive, in another container that shares the directory: so nothing
    is removed while somebody listens.
    """
    for made in Path(directory).glob(f"{_PREFIX}-*-*"):
        number = made.name.removeprefix(f"{_PREFIX}-").partition("-")[0]
        try:
            is_ours = made.lstat().st_uid == os.geteuid() and made.is_dir() and not made.is_symlink()
        except OSError:  # somebody else has removed it
            continue
        if is_ours and number.isdecimal() and not (_is_alive(int(number)) or _is_heard(made / _SOCKET)):
            rmtree(made, ignore_errors=True)


def _is_alive(process: int) -> bool:
    if process == os.getpid():  # an earlier one that had our number: we have made nothing yet
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _is_heard(path: Path) -> bool:
    """Whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # noqa: FBT003  the socket module's
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


class _ConnectionFactory(ServerFactory):
    """Makes the protocols of connections."""

    noisy = False

    def __init__(self, listener: InternalListener) -> None:
        self._listener = listener

    def buildProtocol(self, addr: IAddress | None) -> ForwardedConnection:  # noqa: ARG002  workers have none
        """Make one."""
        return self._listener.connection()


class ForwardedConnection(Protocol):
    """One connection of a worker: a line about the client, and then what a channel of the gateway takes."""

    def __init__(self, channels: ChannelFactory, requests: _ForwardedRequests, user: int) -> None:
        self._channels = channels
        self._requests = requests
        self._user = user
        self._deadline = Deadline(channels.wheel, self._abort)
        self._line = b""
        self._channel: GatewayChannel | None = None

    def connectionMade(self) -> None:
        """Let processes of our user in, and nobody else."""
        if _user_of(self.transport) in {self._user, None}:
            self._deadline.start(LINE_SECONDS)
        else:
            self._abort()

    def dataReceived(self, data: bytes) -> None:
        """Read the line, then pass on what comes."""
        if self._channel is not None:
            self._channel.dataReceived(data)
            return
        self._line += data
        line, newline, rest = self._line.partition(b"\n")
        if len(line) > MAX_LINE_BYTES:
            self._abort()
        elif newline:
            self._open(line, rest)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell the channel."""
        self._deadline.close()
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.connectionLost(reason)
            self._requests.forget(channel)

    def _open(self, line: bytes, rest: bytes) -> None:
        self._deadline.stop()
        self._line = b""
        try:
            client = msgspec.json.decode(line, type=ForwardedClient)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._abort()
            return
        channel = self._channels.buildProtocol(None)
        if not isinstance(channel, GatewayChannel):  # more than any process can have
            self._abort()
            return
        self._channel = channel
        self._requests.expect(channel, client.request_id)
        transport = ForwardedTransport(cast(RelayTransport, self.transport), client)
        channel.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
        channel.is_secure = client.is_secure
        if rest:
            channel.dataReceived(rest)

    def _abort(self) -> None:
        cast(RelayTransport, self.transport).abortConnection()


class ForwardedTransport:
    """A worker's connection, as if it were the client's.

    :param transport: the worker's.
    """

    def __init__(self, transport: RelayTransport, client: ForwardedClient) -> None:
        self.transport = transport
        self._client = client
        self.write = transport.write
        self.pauseProducing = transport.pauseProducing
        self.resumeProducing = transport.resumeProducing
        self.loseConnection = transport.loseConnection
        self.abortConnection = transport.abortConnection
        self.getHost = transport.getHost

    def loseWriteConnection(self) -> None:
        """Close our side when everything is written."""
        self.transport.loseWriteConnection()

    def registerProducer(self, producer: object, streaming: Literal[True]) -> None:
        """Tell ``producer`` when the buffer is full, and when it is empty."""
        self.transport.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        """Stop telling the producer."""
        self.transport.unregisterProducer()

    def getPeer(self) -> IAddress:
        """Return the client's address."""
        client = self._client
        if not client.host:
            return UNIXAddress(None)
        kind = IPv6Address if ":" in client.host else IPv4Address
        return kind("TCP", client.host, client.port)


@dataclass(slots=True)
class _ForwardedRequests:
    """Handles the requests as the server does, under the ids that workers have given them."""

    server: WebServer
    _ids: dict[GatewayChannel, str] = field(default_factory=dict)

    def expect(self, channel: GatewayChannel, request_id: str) -> None:
        """Know the id of the request that will come by a channel."""
        self._ids[channel] = request_id

    def forget(self, channel: GatewayChannel) -> None:
        """The channel is gone."""
        self._ids.pop(channel, None)

    def find_head(self, key: bytes) -> KnownHead | None:  # noqa: ARG002  none is kept
        """Return nothing: a head is looked at whenever it comes."""
        return None

    def on_known_request(
        self,
        channel: GatewayChannel,  # noqa: ARG002
        known: KnownHead,  # noqa: ARG002
        key: HeadKey,  # noqa: ARG002
    ) -> RequestReceiver | None:
        """Take nothing in this way."""
        raise AssertionError("no head is known")

    def on_request(
        self,
        channel: GatewayChannel,
        head: RequestHead,
        key: HeadKey | None = None,  # noqa: ARG002
        *,
        waited: bool = False,
    ) -> RequestReceiver:
        """Take a request whose head is complete."""
        self._name(channel)
        receiver = self.server.on_request(channel, head, waited=waited)
        if isinstance(receiver, WaitingRequest):  # it has no name yet
            self._ids[channel] = self.server.request_ids.take()
        return receiver

    def on_malformed_request(
        self, channel: GatewayChannel, error: GatewayError, target: bytes | None
    ) -> None:
        """Refuse what is not HTTP."""
        self._name(channel)
        self.server.on_malformed_request(channel, error, target)

    def _name(self, channel: GatewayChannel) -> None:
        request_id = self._ids.pop(channel, None)
        if request_id is not None:
            self.server.request_ids.give_next(request_id)


@dataclass(slots=True)
class WithoutAccessLines:
    """What observes the server of a supervisor: the worker that forwards a request has told of its end."""

    observer: RequestObserver

    def record(self, ended: EndedRequest) -> None:
        """Leave it to the worker, unless it has a usage event, which nobody else knows."""
        if ended.settled is not None:
            self.observer.record(ended)

    def edge_rejected(self, reason: str = "key") -> None:
        """Count a request whose ``key`` or ``origin`` does not fit."""
        self.observer.edge_rejected(reason)

    def token_rejected(self, issuer: str, flaw: TokenFlaw) -> None:
        """Count and log a token that is refused."""
        self.observer.token_rejected(issuer, flaw)

    def malformed(self) -> None:
        """Count an input that is no HTTP."""
        self.observer.malformed()


def _user_of(transport: object) -> int | None:
    """Return the user of the process at the other end of a UNIX socket; ``None`` where nothing tells."""
    handle = transport.getHandle() if hasattr(transport, "getHandle") else None
    if _PEER_CREDENTIALS is None or not isinstance(handle, socket.socket):
        return None
    data = handle.getsockopt(socket.SOL_SOCKET, _PEER_CREDENTIALS, calcsize(_CREDENTIALS))
    user: int = unpack(_CREDENTIALS, data)[1]
    return user
