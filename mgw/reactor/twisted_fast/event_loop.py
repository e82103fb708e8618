"""A shorter path from the kernel's event to the protocol, on Twisted's own epoll reactor.

For every event the stock reactor makes a logging context, a dict copied from another, and calls through four
layers.  A relayed chunk is one such event, and most of its time in Python went there.  Here the common event,
"a connection has input", calls the transport's ``doRead`` at once.  Clients who want to connect come last in
a turn, and few at a time (:mod:`mgw.reactor.twisted_fast.tcp_transport`), so that those who are there wait
for no burst of them.  All else goes Twisted's own way: output, errors, hang-ups, pipes and the wakers of
threads and signals.  So does whatever follows from an error, with Twisted's words in the log.

The kernel reports connections in the order in which their input came, and each may have a millisecond's work
to read.  When hundreds bring more than can be read, a turn would last seconds, and a short request as long as
two of them, or a hundred, since each accepts few clients.  So connections whose last read gave much are busy:
they are read behind all others, in turn, for a moment; who is left comes first in the next turn.  In a turn
that has read busy connections, clients are accepted for a share of that time.

Between two polls the stock reactor also looks for timers, new ones and calls of threads, twice over.  Here
it is asked only when there may be any: each poll says when the next timer is due, and lists say the rest.

One thing differs.  Messages of the old ``twisted.python.log`` that a protocol writes while it reads do not
begin with the name of their connection.  The gateway writes none.

It stands on names of Twisted's that are not documented, so a connection is tried before it is used.  Where
that fails, or the reactor is another one, Twisted's own loop stays.
"""

from __future__ import annotations

import socket
from collections import OrderedDict
from contextlib import suppress
from select import EPOLLIN, EPOLLOUT
from typing import Any, Final

from twisted.internet import tcp, unix
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.log import callWithLogger, err

from mgw.reactor.twisted_fast.tcp_transport import MAX_ACCEPTS, TcpTransport, accept_clients

MAX_EVENTS: Final = 256
"""The most events in one turn, so that timers need not wait for thousands of connections."""

MAX_POLLS: Final = 100
"""Before the reactor looks by itself for what else there is to do."""
MAX_WAIT: Final = 0.1
"""The same in seconds without an event."""

BUSY_READ_SECONDS: Final = 0.01
"""How long a turn reads busy connections, but for the last one."""
ACCEPT_SHARE: Final = 0.5
"""For what part of that time it accepts clients."""

_log: Final = Logger()
_CONNECTIONS: Final[frozenset[Any]] = frozenset(
    {TcpTransport, tcp.Server, tcp.Client, unix.Server, unix.Client}
)
"""The transports that are read directly; TLS lies on top of them."""
_IN_OR_OUT: Final = EPOLLIN | EPOLLOUT
_MOST_TURNS: Final = 20
"""The turns in which the trial must be over: other connections may have events too."""
_QUESTION: Final = b"?"


class EventLoop:
    """The event loop of one reactor: the fast one while it is wanted and can be had, else Twisted's."""

    def __init__(self, reactor: Any) -> None:  # Any: any reactor, and names that no interface has
        self._reactor = reactor
        self._wanted: bool | None = None
        self.max_accepts = MAX_ACCEPTS
        """How many clients a port accepts in one turn; 1 where other processes accept from it, too."""

    def use(self, *, fast: bool) -> None:
        """Change to the fast loop, or back; the log says why it is Twisted's.  The reactor must run."""
        if fast == self._wanted:
            return
        self._wanted = fast
        if not fast:
            self.restore()
            _log.info("fast_event_loop is off: events are dispatched by Twisted")
        elif type(self._reactor) is not EPollReactor:
            name = type(self._reactor).__name__
            _log.info("fast_event_loop: events are dispatched by Twisted's {name}", name=name)
        else:
            self._try_fast()

    def restore(self) -> None:
        """Leave the reactor as it was."""
        for name in ("doPoll", "doIteration", "iterate"):
            vars(self._reactor).pop(name, None)

    def _try_fast(self) -> None:
        try:
            dispatcher = _Dispatcher(self._reactor, self.max_accepts)
            self._reactor.doPoll = dispatcher.poll
            self._reactor.doIteration = dispatcher.poll_until_due
            self._reactor.iterate = dispatcher.iterate
            _check(self._reactor)
        except Exception as error:  # whatever another release of Twisted's may come to
            self.restore()
            _log.warn(
                "fast_event_loop: the self-check failed; events are dispatched by Twisted ({kind}: {error})",
                kind=type(error).__name__,
                error=error,
            )


class _Dispatcher:
    """Calls what an event is for."""

    __slots__ = (
        *("_busy", "_disconnect", "_last_looked", "_looked", "_max_accepts", "_poll", "_reactor"),
        *("_read_or_write", "_reads", "_selectables"),
    )

    def __init__(self, reactor: Any, max_accepts: int) -> None:  # Any: as above
        self._reactor = reactor
        self._max_accepts = max_accepts
        self._poll = reactor._poller.poll
        self._selectables = reactor._selectables
        self._reads = reactor._reads
        self._busy: OrderedDict[int, TcpTransport] = OrderedDict()
        """Those that may have input, by descriptor, the one that was read longest ago first."""
        self._looked = self._last_looked = 0.0
        """When busy connections were read before the last time, and the last time.

        Whatever was found to be busy since the former still is: else one turn of many long reads would
        outlast them all, and the next would read them all again.
        """
        self._read_or_write = reactor._doReadOrWrite
        self._disconnect = reactor._disconnectSelectable

    def poll_until_due(self, timeout: float | None) -> None:
        """Handle events until there may be something else to do."""
        reactor = self._reactor
        for _ in range(MAX_POLLS):
            if (
                not self.poll(timeout)
                or reactor._newTimedCalls
                or reactor.threadCallQueue
                or reactor._justStopped
                or not reactor.running
            ):
                return
            timed = reactor._pendingTimedCalls
            timeout = timed[0].time - reactor.seconds() if timed else MAX_WAIT
            if timeout <= 0:
                return
            timeout = min(timeout, MAX_WAIT)

    def iterate(self, delay: float | None = 0.0) -> None:
        """Take one turn, for whoever calls the reactor from within."""
        self._reactor.runUntilCurrent()
        self.poll(delay)

    def poll(self, timeout: float | None) -> bool:
        """Wait for events and handle them; ``None`` waits for ever.  What they raise is logged.

        Returns whether there were any.
        """
        get, busy = self._selectables.get, self._busy
        ports: list[tuple[int, tcp.Port]] = []
        # Those known to be busy do not keep the kernel from reporting others.
        events = self._poll(-1 if timeout is None else timeout, MAX_EVENTS + len(busy))
        for descriptor, event in events:
            selectable: Any = get(descriptor)  # Any: a descriptor of any make
            if selectable is None:  # another event's handler has removed it
                continue
            if event & _IN_OR_OUT != EPOLLIN or selectable.__class__ not in _CONNECTIONS:
                if event == EPOLLIN and selectable.__class__ is tcp.Port:
                    ports.append((descriptor, selectable))
                else:
                    callWithLogger(selectable, self._read_or_write, selectable, descriptor, event)
            elif selectable.__class__ is TcpTransport and selectable.busy_until:
                self._wait_or_read(descriptor, selectable)
            else:
                self._read(selectable)
        seconds = self._read_busy() if busy else 0.0
        for descriptor, port in ports:  # whoever is here already goes first
            if get(descriptor) is port:
                accept_clients(port, self._max_accepts, seconds * ACCEPT_SHARE)
        return bool(events)

    def _wait_or_read(self, descriptor: int, transport: TcpTransport) -> None:
        """Read from a connection that has been busy, behind the others if it still is."""
        if descriptor in self._busy or self._looked < transport.busy_until:
            self._busy[descriptor] = transport
        else:
            self._read(transport)

    def _read_busy(self) -> float:
        """Read busy connections for a moment, each at most once; return how long it took."""
        busy, seconds = self._busy, self._reactor.seconds
        began = now = seconds()
        self._looked, self._last_looked = self._last_looked, began
        left = len(busy)
        while busy and left:  # none is left where what is read takes a turn of its own
            left -= 1
            descriptor, transport = busy.popitem(last=False)
            if self._selectables.get(descriptor) is transport and descriptor in self._reads:
                self._read(transport)
            now = seconds()
            if now - began >= BUSY_READ_SECONDS:
                break
        return float(now - began)

    def _read(self, selectable: Any) -> None:  # Any: a connection of any make
        try:
            reason = selectable.doRead()
        except BaseException as error:  # as Twisted does: the connection is lost, and the process lives
            callWithLogger(selectable, self._on_error, selectable, error)
            return
        if reason is not None:
            self._end(selectable, reason)

    def _end(self, selectable: object, reason: Exception) -> None:
        try:
            if type(selectable) is TcpTransport:
                selectable.end(reason)
                return
            self._disconnect(selectable, reason, True)  # noqa: FBT003  Twisted's signature
        except BaseException:  # as Twisted does
            callWithLogger(selectable, err)

    def _on_error(self, selectable: object, error: BaseException) -> None:
        err()  # which finds it by itself
        self._disconnect(selectable, error, False)  # noqa: FBT003  Twisted's signature


class _Echo(Protocol):
    """The trial's end of the trial's connection."""

    is_lost = False

    def dataReceived(self, data: bytes) -> None:
        """Send it back."""
        self.transport.write(data)  # type: ignore[union-attr]  # there is one

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002  Twisted's signature
        """Remember it."""
        self.is_lost = True


def _check_names(reactor: Any) -> None:  # Any: as above
    """See whether all is there that is looked at between two polls.

    :raises Exception: it is not.
    """
    for name in ("_pendingTimedCalls", "_justStopped", "running", "threadCallQueue"):
        getattr(reactor, name)
    timer = reactor.callLater(0, _Echo)
    timer.cancel()
    if timer not in reactor._newTimedCalls:
        raise RuntimeError("a new timer was not found")


def _check(reactor: Any) -> None:  # Any: as above
    """Have a connection answer and end.

    :raises Exception: it did not, or something is missing.
    """
    _check_names(reactor)
    ours, theirs = socket.socketpair()
    theirs.settimeout(0)
    echo = _Echo()
    connection = tcp.Server(ours, echo, ("", 0), None, 0, reactor)  # type: ignore[arg-type]  # of no port
    echo.makeConnection(connection)  # type: ignore[no-untyped-call]  # Twisted's
    try:
        theirs.send(_QUESTION)
        answer = b""
        for _ in range(_MOST_TURNS):
            reactor.doPoll(0)
            with suppress(BlockingIOError):
                answer = answer or theirs.recv(len(_QUESTION))
            if answer:
                theirs.close()
            if echo.is_lost:
                break
        if answer != _QUESTION or not echo.is_lost:
            raise RuntimeError("a connection was not served")
    finally:
        theirs.close()
        if not echo.is_lost:
            connection.connectionLost(connectionDone)
