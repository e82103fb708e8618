"""The connection of one host to Redis: reconnects, and fails fast while Redis is unreachable.

It is up once Redis has taken a write: from the handshake to the first heartbeat, everything is one attempt.
Anything that goes wrong afterwards (no reply in time, an error, an id that is gone) ends the connection, and
with it whatever waits; from then on nobody waits until it is up again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from ssl import SSLError
from typing import Any, Final, TypeVar

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import DNSLookupError
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.config.fleet import RedisAddress
from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.redis.protocol import UNREADABLE, Argument, RedisError, RedisProtocol
from mgw.redis.replies import (
    Beat,
    UnreadableReplyError,
    read_beat,
    read_count,
    read_hello,
    read_message,
    read_ok,
    read_subscribed,
)
from mgw.redis.scripts import HEARTBEAT, HOST_MS, SCRIPTS, Script
from mgw.upstream.address import Address
from mgw.upstream.connect import dialler_to
from mgw.upstream.dial import Attempt, Dialler, EndpointDialler
from mgw.upstream.tls import CertificateNameError, describe_tls_error

ANSWER_SECONDS: Final = 0.25
"""How long somebody waits for a decision."""
CONNECT_SECONDS: Final = 3.0
"""The limit for the connection and for the handshake, each."""
HEARTBEAT_SECONDS: Final = 3.0
MIN_RETRY_SECONDS: Final = 0.1
MAX_RETRY_SECONDS: Final = 5.0

_JOINED: Final = b"joined"
"""What a host publishes that has come up, so that all know at once how many there are."""
GIVEN_UP: Final = "it had dropped this host"
_NEVER_UP: Final = "never"
_log: Final = Logger()
T = TypeVar("T")


class _Factory(Factory):
    noisy = False

    def __init__(self, build: Callable[[], RedisProtocol]) -> None:
        self._build = build

    def buildProtocol(self, addr: IAddress | None) -> RedisProtocol:  # noqa: ARG002 (the interface's)
        return self._build()


def dialler_of(address: RedisAddress, reactor: Any) -> Dialler:  # Any: of half a dozen interfaces
    """Return what makes connections to Redis.

    :raises ValueError: TLS cannot be spoken with a host of this name.
    """
    if address.path is not None:
        return EndpointDialler(UNIXClientEndpoint(reactor, address.path, timeout=CONNECT_SECONDS))
    scheme = "https" if address.secure else "http"
    return dialler_to(Address(scheme, address.host, address.port, b"", b""), reactor)


@dataclass(slots=True, eq=False)
class RedisLink:
    """The link of this host to one Redis.

    :param random: returns a number from 0 to 1.
    """

    reactor: Any  # of half a dozen interfaces
    random: Callable[[], float]
    address: RedisAddress | None = None
    prefix: str = ""
    hosts: int = 1
    """How many there are, this one included, when that was last known."""
    errors: int = 0
    """How often it went down, or did not come up."""
    host: str = ""
    """The id of this host on this connection."""
    on_up: list[Callable[[], None]] = field(default_factory=list)
    """Told before anybody else may send: what it is to know is sent first."""
    on_down: list[Callable[[], None]] = field(default_factory=list)
    on_message: Callable[[bytes], None] = field(default=lambda _: None)
    """Told of what other hosts, or this one, publish on :attr:`channel`."""
    is_host: bool = True
    """Whether it serves requests.  Otherwise it only asks, and has no share of anything."""
    kept_keys: Callable[[], Iterable[str]] = field(default=lambda: ())
    """The keys that a heartbeat keeps."""
    _dialler: Dialler | None = None
    _protocol: RedisProtocol | None = None
    _attempt: Attempt | None = None
    _is_up: bool = False
    _is_stopped: bool = True
    _failures: int = 0
    _is_asking: bool = False
    _must_ask: bool = False
    """Somebody has joined since it was asked how many hosts there are."""
    _must_say: str = _NEVER_UP
    """What the log is to be told when Redis is there: nothing where it was not told that it was away."""
    _number: int = 0
    """The number of the attempt to connect, so that what comes of one that was given up is known."""
    _timer: IDelayedCall | None = None
    _away: RateLimitedLog = field(init=False)

    def __post_init__(self) -> None:
        self._away = RateLimitedLog(self.reactor)

    @property
    def is_up(self) -> bool:
        """Whether Redis answers."""
        return self._is_up

    @property
    def channel(self) -> str:
        """What hosts publish on."""
        return f"{self.prefix}news"

    @property
    def hosts_key(self) -> str:
        """The key of the sorted set of hosts."""
        return f"{self.prefix}hosts"

    def start(self, address: RedisAddress, prefix: str) -> None:
        """Leave what it was connected to; connect, and stay connected until :meth:`stop`.

        :raises ValueError: TLS cannot be spoken with a host of this name; then nothing has changed.
        """
        dialler = dialler_of(address, self.reactor)
        self.stop()
        self._dialler = dialler
        self.address, self.prefix, self.hosts, self.host = address, prefix, 1, ""
        self._failures, self._is_stopped, self._must_say = 0, False, _NEVER_UP
        self._connect()

    def stop(self) -> None:
        """Leave: what this host has counts for nothing at the others from now on."""
        self._is_stopped = True
        self._number += 1
        protocol, was_up = self._protocol, self._is_up
        if was_up and protocol is not None:
            _ignore(protocol.send("ZREM", self.hosts_key, self.host))
            self._protocol = None  # its end is not news
            self._down()
            assert protocol.transport is not None, "it was connected"
            protocol.transport.loseConnection()
        elif protocol is not None:
            protocol.abort()
        self._cancel_timer()
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()

    def run(self, script: Script[T], keys: Iterable[str], *arguments: Argument) -> Deferred[T]:
        """Run a script; what it answers, or :class:`RedisError`, within :data:`ANSWER_SECONDS`."""
        if not self._is_up:
            return fail(RedisError("Redis is unavailable"))
        return self._run(script, keys, *arguments)

    def tell(self, *command: Argument) -> None:
        """Send a command that answers a number, which does not matter; that it fails ends the connection."""
        if self._is_up:
            _ignore(self._send(read_count, *command))

    def fault(self, reason: str) -> None:
        """Give up the connection, on which something went wrong, and begin anew."""
        self._lost(reason)

    def _run(self, script: Script[T], keys: Iterable[str], *arguments: Argument) -> Deferred[T]:
        names = list(keys)
        return self._send(script.read, "EVALSHA", script.digest, len(names), *names, *arguments)

    def _send(self, read: Callable[[Any], T], *command: Argument) -> Deferred[T]:
        protocol = self._protocol
        if protocol is None:
            return fail(RedisError("Redis is unavailable"))
        answer = protocol.send(*command).addCallback(_readable, read)
        limit = self.reactor.callLater(ANSWER_SECONDS, self._too_late, protocol)

        def ended(result: Any) -> Any:  # Any: as above
            if limit.active():
                limit.cancel()
            if isinstance(result, Failure) and self._protocol is protocol:
                self._lost(str(result.value))
            return result

        return answer.addBoth(ended)

    def _too_late(self, protocol: RedisProtocol) -> None:
        if self._protocol is protocol:
            self._lost(f"it did not answer within {ANSWER_SECONDS:g} s")

    def _connect(self) -> None:
        assert self._dialler is not None, "it was started"
        self._number += 1
        number = self._number
        self._timer = self.reactor.callLater(CONNECT_SECONDS, self._not_connected, number, TimeoutError())
        attempt = self._dialler.dial(
            _Factory(self._build), partial(self._connected, number), partial(self._not_connected, number)
        )
        if self._number == number:
            self._attempt = attempt

    def _build(self) -> RedisProtocol:
        return RedisProtocol(self, secure=self.address is not None and self.address.secure)

    def on_lost(self, protocol: RedisProtocol) -> None:
        """Handle the end of a connection (:class:`mgw.redis.protocol.Listener`)."""
        if protocol is self._protocol:
            self._lost(_words(protocol.error))

    def _not_connected(self, number: int, error: Exception) -> None:
        if number != self._number:
            return
        self._number += 1
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
        self._failed(_words(error))

    def _connected(self, number: int, protocol: Any) -> None:  # Any: ours, since our factory makes it
        if number != self._number or self._is_stopped:
            protocol.abort()
            return
        self._number += 1
        self._attempt = None
        self._cancel_timer()
        self._protocol = protocol
        if protocol.is_over:
            self._lost(_words(protocol.error))
        elif protocol.is_made:
            self.on_made(protocol)
        else:
            self._timer = self.reactor.callLater(CONNECT_SECONDS, self._lost, "the TLS handshake timed out")

    def on_made(self, protocol: RedisProtocol) -> None:
        """Begin to use a connection (:class:`mgw.redis.protocol.Listener`)."""
        if protocol is not self._protocol:
            return  # the attempt is about to say the same
        self._cancel_timer()
        self._timer = self.reactor.callLater(CONNECT_SECONDS, self._lost, "it did not answer the handshake")
        shake = Deferred.fromCoroutine(self._shake_hands(protocol))
        _ = shake.addErrback(lambda failure: self._shaken_off(protocol, failure))

    async def _shake_hands(self, protocol: RedisProtocol) -> None:
        address = self.address
        assert address is not None, "it was started"
        login: list[str] = []
        if address.password is not None:
            login = ["AUTH", address.user or "default", address.password.reveal()]
        _readable(await protocol.send("HELLO", 3, *login), read_hello)
        if address.database:
            _readable(await protocol.send("SELECT", address.database), read_ok)
        for script in SCRIPTS:
            if await protocol.send("SCRIPT", "LOAD", script.text) != script.digest.encode("ascii"):
                raise RedisError(UNREADABLE)
        before, self.host = self.host, token_hex(8)
        if not self.is_host:
            self._up(1)
            return
        beat = _readable(await protocol.send(*self._heartbeat("new", before)), read_beat)
        _readable(await protocol.send("SUBSCRIBE", self.channel), read_subscribed)
        self._up(beat.hosts)

    def _shaken_off(self, protocol: RedisProtocol, failure: Failure) -> None:
        if self._protocol is protocol:
            if not failure.check(RedisError):
                _log.failure("the handshake with Redis failed", failure)
            self._lost(str(failure.value) if failure.check(RedisError) else "the handshake failed")

    def _heartbeat(self, new: str, before: str) -> list[Argument]:
        keys = [self.hosts_key, *self.kept_keys()]
        return ["EVALSHA", HEARTBEAT.digest, len(keys), *keys, self.host, new, before, HOST_MS]

    def _up(self, hosts: int) -> None:
        self._cancel_timer()
        self.hosts = max(1, hosts)
        self._is_up = True
        for told in self.on_up:
            told()
        if not self._is_up:
            return
        if self._must_say == _NEVER_UP:
            _log.info("limits are shared through Redis by {hosts} hosts", hosts=self.hosts)
        elif self._must_say:
            _log.info("Redis is available again: limits are shared by {hosts} hosts", hosts=self.hosts)
        self._must_say = ""
        if self.is_host:
            self._timer = self.reactor.callLater(HEARTBEAT_SECONDS, self._beat)
            self.tell("PUBLISH", self.channel, _JOINED)

    def _beat(self) -> None:
        self._timer = self.reactor.callLater(HEARTBEAT_SECONDS, self._beat)
        self._ask_for_hosts()

    def _ask_for_hosts(self) -> None:
        """Say that this host is alive, and learn how many are: one question at a time, whoever joins."""
        self._must_ask = self._is_asking
        if self._is_asking:
            return
        self._is_asking = True
        asked = self._send(read_beat, *self._heartbeat("", ""))
        _ = asked.addCallbacks(self._beaten, lambda _: None).addCallback(self._has_asked)

    def _has_asked(self, _: None) -> None:
        self._is_asking = False
        if self._must_ask and self._is_up:
            self._ask_for_hosts()

    def _beaten(self, beat: Beat) -> None:
        if beat.is_known:
            self.hosts = beat.hosts
            self._failures = 0  # only now: what answers a handshake and nothing else is not asked ever faster
        else:
            self._lost(GIVEN_UP)

    def on_push(self, push: list[Any]) -> None:  # Any: what Redis pushes
        """Pass a message on (:class:`mgw.redis.protocol.Listener`)."""
        message = read_message(push)
        if message is not None and self._is_up:
            if message == _JOINED:
                self._ask_for_hosts()
            else:
                self.on_message(message)

    def _lost(self, reason: str) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is None:
            return
        self._down()
        protocol.abort()
        self._failed(reason)

    def _down(self) -> None:
        if self._is_up:
            self._is_up = False
            for told in self.on_down:
                told()

    def _failed(self, reason: str) -> None:
        self._cancel_timer()
        if self._is_stopped:
            return
        self.errors += 1
        if self._away.is_due():
            self._must_say = "again"
            _log.warn(
                "Redis is unavailable ({reason}): this host enforces its share of all limits, 1 of {hosts}",
                reason=reason,
                hosts=self.hosts,
            )
        seconds = min(MAX_RETRY_SECONDS, MIN_RETRY_SECONDS * 2 ** min(self._failures, 10))
        self._failures += 1
        self._timer = self.reactor.callLater(seconds * (0.5 + self.random() / 2), self._connect)

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()


def _words(error: BaseException) -> str:
    """Say why there is no connection, without where it should go."""
    match error:
        case RedisError():
            return str(error)
        case Refused():
            return "it refused the connection"
        case DNSLookupError():
            return "its host name has no address"
        case CertificateNameError() | SSLError():
            return f"it {describe_tls_error(error)}"
        case TimeoutError() | CancelledError():
            return f"it did not accept a connection within {CONNECT_SECONDS:g} s"
        case _:
            return "the connection failed"


def _readable(reply: Any, read: Callable[[Any], T]) -> T:  # Any: what Redis says
    """Return what a reply says.

    :raises RedisError: it has the shape of another one.
    """
    try:
        return read(reply)
    except UnreadableReplyError:
        raise RedisError(UNREADABLE) from None


def _ignore(answer: Deferred[Any]) -> None:
    _ = answer.addErrback(lambda failure: failure.trap(RedisError) and None)
