"""One connection to Redis: commands out, replies in order, and pushed messages between them.

The bytes are those of RESP3, which ``hiredis`` reads and writes; a connection begins with ``HELLO 3``.

Source: redis.io, "Redis serialization protocol specification" (RESP3).
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final
from typing import Protocol as TypingProtocol

from hiredis import ProtocolError, PushNotification, Reader, ReplyError, pack_command
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.redis.replies import ReplyGuard, UnreadableReplyError

_CODE: Final = re.compile("[A-Z]{2,20}")

Argument = str | int | bytes
UNREADABLE: Final = "its reply cannot be read"


class RedisError(Exception):
    """A command was not done, or nobody knows whether it was; the text says why and repeats none of it."""


class Listener(TypingProtocol):
    """Is told of a connection."""

    def on_made(self, protocol: RedisProtocol) -> None:
        """Commands may be sent: with TLS, after its handshake."""
        ...

    def on_push(self, push: list[Any]) -> None:
        """Redis pushes something: the kind, and what belongs to it."""
        ...

    def on_lost(self, protocol: RedisProtocol) -> None:
        """It is over, also where nothing could ever be sent."""
        ...


@implementer(IHandshakeListener)
class RedisProtocol(Protocol):
    """A connection to Redis.

    :param secure: whether it is one with TLS.
    """

    def __init__(self, listener: Listener, *, secure: bool) -> None:
        self._listener = listener
        self._secure = secure
        self.is_made = False
        self.is_over = False
        self.error: BaseException = RedisError("the connection was lost")
        """Why it is over."""
        self._guard = ReplyGuard()
        self._reader = Reader(notEnoughData=_NOTHING)
        self._waiting: deque[Deferred[Any]] = deque()

    def send(self, *command: Argument) -> Deferred[Any]:  # Any: what a command answers
        """Send a command; the reply, or :class:`RedisError`."""
        reply: Deferred[Any] = Deferred()
        if self.is_over:
            reply.errback(RedisError("the connection was lost"))
            return reply
        self._waiting.append(reply)
        assert self.transport is not None, "it was connected"
        self.transport.write(pack_command(command))  # type: ignore[arg-type]  # it takes any of them
        return reply

    def abort(self) -> None:
        """Break the connection: nothing that comes on it counts any more."""
        if not self.is_over and self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]  # TCP, UNIX and TLS have it
        self._end()

    def connectionMade(self) -> None:
        """The connection stands; where TLS is spoken, its handshake begins."""
        if not self._secure:
            self.handshakeCompleted()

    def handshakeCompleted(self) -> None:
        """Let commands be sent."""
        self.is_made = True
        self._listener.on_made(self)

    def dataReceived(self, data: bytes) -> None:
        """Give each reply to whoever waits for it."""
        try:
            self._guard.feed(data)
            self._reader.feed(data)
        except (ProtocolError, UnreadableReplyError):
            self._give_up()
            return
        while not self.is_over:
            try:
                reply = self._reader.gets()
            except _NO_REPLY:
                self._give_up()
                return
            if reply is _NOTHING:
                return
            self._received(reply)

    def _received(self, reply: Any) -> None:  # Any: as above
        is_push = isinstance(reply, PushNotification)
        if is_push and reply[:1] != [b"subscribe"]:  # which is SUBSCRIBE's reply
            self._listener.on_push(list(reply))
        elif not self._waiting:
            self._give_up()
        elif isinstance(reply, ReplyError):
            code = _CODE.match(str(reply))
            word = "ERR" if code is None else code[0]
            self._waiting.popleft().errback(RedisError(f"Redis replied {word}"))
        else:
            self._waiting.popleft().callback(reply)

    def _give_up(self) -> None:
        self.error = RedisError(UNREADABLE)
        self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Fail whatever waits for a reply."""
        if not self.is_made and reason.value is not None:
            self.error = reason.value
        self._end()

    def _end(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        waiting, self._waiting = self._waiting, deque()
        self._listener.on_lost(self)
        for reply in waiting:
            reply.errback(RedisError("the connection was lost"))


_NOTHING: Final = object()
_NO_REPLY: Final = (ProtocolError, TypeError, ValueError, OverflowError)
"""What ``hiredis`` raises: a map may have a list as its key, a number more digits than Python takes."""
