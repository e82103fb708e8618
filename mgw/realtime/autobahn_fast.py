"""Autobahn's protocols in fewer calls, without a change to Autobahn.

- What Autobahn sets up for a connection takes it 700 calls and is the same for every handshake.  It is done
  once for each side, and each handshake has a copy of that protocol (:class:`Mold`).
- It has names and values colored for its log lines before it asks whether anybody wants them, and asks of
  every function that may be a coroutine's whether it is one.  The methods of a handshake are copied with
  simpler helpers (:func:`_lighter`); Autobahn's own stay as they are, for whoever else uses it.
- ``startHandshake`` renders a text about the connection for a log, in 400 calls.  What it does besides is
  ``_actuallyStartHandshake``, a private name, as are ``_onConnect`` and ``_onOpen``, which only log and lead
  to what does nothing here.

What is not there is done by Autobahn's own, longer way, and what a handshake would change for others is not
shared: that is checked once, when this is imported (:meth:`Mold.check`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, cast

from autobahn.twisted.websocket import WebSocketClientProtocol, WebSocketServerProtocol
from autobahn.websocket.types import ConnectingRequest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, maybeDeferred

_IGNORE: Final = "".format
"""Takes any arguments and does nothing with them, in C: what is ignored costs no call of Python."""
_ADDRESS: Final = IPv4Address("TCP", "127.0.0.1", 0)


class MemoryTransport:
    """Hears that Autobahn gives a handshake up."""

    is_closed = False

    def write(self, data: bytes) -> None:
        """Autobahn writes by ``sendData``, which is another one here."""

    def loseConnection(self) -> None:
        """Note that it closes the connection."""
        self.is_closed = True

    def abortConnection(self) -> None:
        """Note that it breaks the connection."""
        self.is_closed = True

    def unregisterProducer(self) -> None:
        """There is none."""

    def getPeer(self) -> IPv4Address:
        """Return some address."""
        return _ADDRESS

    def getHost(self) -> IPv4Address:
        """Return some address."""
        return _ADDRESS


class _SilentLog:
    """A log in place of Autobahn's, which would tell headers, and so keys."""

    trace = debug = info = warn = error = critical = failure = staticmethod(_IGNORE)


class _Unheard:
    """A Deferred that nobody waits for, for the end of a handshake and of a connection."""

    callback = staticmethod(_IGNORE)


class _Futures:
    """What a handshake uses of txaio, for functions that are no coroutines'."""

    as_future: Any = staticmethod(cast(Any, maybeDeferred))  # Any: Autobahn is half typed, here and below
    add_callbacks: Any = staticmethod(Deferred.addCallbacks)
    resolve = staticmethod(_IGNORE)  # what is resolved is unheard
    failure_format_traceback = staticmethod(_IGNORE)  # for the log


_HELPERS: Final = {"hltype": _IGNORE, "hlval": _IGNORE, "txaio": _Futures}


def _lighter(method: Any) -> Any:  # Any: as above
    """Return a copy of a method of Autobahn's that has simpler helpers."""
    if not isinstance(method, FunctionType):
        return method
    names = method.__globals__ | _HELPERS
    copy = FunctionType(method.__code__, names, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__ = method.__kwdefaults__
    return copy


_SEND: Final[Any] = _lighter(getattr(WebSocketClientProtocol, "_actuallyStartHandshake", None))


class ServerProtocol(WebSocketServerProtocol):
    """Waits for a decision once a request turns out to be a handshake."""

    log = _SilentLog()
    onOpen: Any = staticmethod(_IGNORE)  # Any: as above
    _onOpen: Any = staticmethod(_IGNORE)
    processHandshake: Any = _lighter(WebSocketServerProtocol.processHandshake)
    succeedHandshake: Any = _lighter(WebSocketServerProtocol.succeedHandshake)
    decision: Deferred[tuple[str | None, dict[str, str]]] | None = None

    def onConnect(self, _: object) -> Any:  # Any: Autobahn takes a Deferred, too
        """Have Autobahn wait."""
        self.decision = Deferred()
        return self.decision


class ClientProtocol(WebSocketClientProtocol):
    """Sends a request once it has one."""

    log = _SilentLog()
    onConnect: Any = staticmethod(_IGNORE)  # Any: as above
    onOpen: Any = staticmethod(_IGNORE)
    _onConnect: Any = staticmethod(_IGNORE)
    _onOpen: Any = staticmethod(_IGNORE)
    processHandshake: Any = _lighter(WebSocketClientProtocol.processHandshake)
    asked: ConnectingRequest | None = None

    def startHandshake(self) -> Any:  # Any: as above
        """Send what was asked for."""
        if self.asked is None:  # the one that is copied
            return None
        if _SEND is None:
            return super().startHandshake()  # type: ignore[no-untyped-call]  # Autobahn's
        return _SEND(self, self.asked)

    def onConnecting(self, _: object) -> ConnectingRequest | None:
        """Return what was asked for."""
        return self.asked


class Mold:
    """A protocol that is as one whose connection was just made, and its copies.

    :param build: returns a protocol that has its factory.
    """

    def __init__(self, build: Callable[[], Any]) -> None:  # Any: as above
        self._build = build
        self._first: Any = self._connected()
        self.is_copied = True
        """Whether each handshake has a copy, and not a protocol of its own."""

    def take(self) -> Any:  # Any: as above
        """Return a protocol for one handshake; what it sends is in ``written``.

        The copies share what a handshake only reads: a copy gets its own of all that a handshake changes.
        """
        if self.is_copied:
            first = self._first
            protocol: Any = object.__new__(type(first))
            state = vars(first)
        else:
            protocol = self._connected()
            state = {}
        written: list[bytes] = []
        vars(protocol).update(state, transport=MemoryTransport(), written=written, sendData=written.append)
        return protocol

    def check(self, shake_hands: Callable[[], object]) -> None:
        """Copy no more if handshakes change what the copies share, as one of another Autobahn might.

        :param shake_hands: does one handshake, or more.
        """
        before = self._shared()
        try:
            shake_hands()
        except Exception:  # whatever it is, Autobahn's own way may be free of it
            self.is_copied = False
        else:
            self.is_copied = self._shared() == before

    def _connected(self) -> Any:  # Any: as above
        protocol = self._build()
        protocol.makeConnection(MemoryTransport())
        protocol.is_open = protocol.is_closed = _Unheard()
        return protocol

    def _shared(self) -> list[str]:
        """Return a text for each thing that the copies share, which differs once the thing does."""
        return [
            f"{name} {value!r} {getattr(value, '__dict__', None)!r}"
            for name, value in vars(self._first).items()
        ]
