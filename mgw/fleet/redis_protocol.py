"""One connection to Redis: commands out, their replies in the same order, and what it pushes between them.

The bytes are those of RESP3, which ``hiredis`` reads and writes; a connection begins with ``HELLO 3``.

Source: the specification of the Redis serialization protocol, version 3.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from hiredis import ProtocolError, PushNotification, Reader, ReplyError, pack_command
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

_CODE: Final = re.compile("[A-Z]{2,20}")

Argument = str | int | bytes


class RedisError(Exception):
    """A command was not done, or nobody knows whether it was; the text says why and repeats none of it."""


class RedisProtocol(Protocol):
    """A connection to Redis.

    :param on_push: is told what Redis pushes: the kind, and what belongs to it.
    :param on_lost: is told of the end of a connection that was made.
    """

    def __init__(
        self, on_push: Callable[[list[Any]], None], on_lost: Callable[[RedisProtocol], None]
    ) -> None:
        self._on_push = on_push
        self._on_lost = on_lost
        self._reader = Reader(notEnoughData=_NOTHING)
        self._waiting: deque[Deferred[Any]] = deque()
        self._is_over = False

    def send(self, *command: Argument) -> Deferred[Any]:  # Any: what a command answers
        """Send a command; the reply, or :class:`RedisError`."""
        reply: Deferred[Any] = Deferred()
        if self._is_over:
            reply.errback(RedisError("the connection was lost"))
            return reply
        self._waiting.append(reply)
        assert self.transport is not None, "it was connected"
        self.transport.write(pack_command(command))  # type: ignore[arg-type]  # it takes any of them
        return reply

    def abort(self) -> None:
        """Break the connection: nothing that comes on it counts any more."""
        if not self._is_over and self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]  # TCP, UNIX and TLS have it
        self._end()

    def dataReceived(self, data: bytes) -> None:
        """Give each reply to whoever waits for it."""
        try:
            self._reader.feed(data)
            reply = self._reader.gets()
            while reply is not _NOTHING and not self._is_over:
                self._received(reply)
                reply = self._reader.gets()
        except ProtocolError:
            self.abort()

    def _received(self, reply: Any) -> None:  # Any: as above
        if isinstance(reply, PushNotification) and reply[0] != b"subscribe":  # which is SUBSCRIBE's reply
            self._on_push(list(reply))
        elif not self._waiting:
            self.abort()
        elif isinstance(reply, ReplyError):
            code = _CODE.match(str(reply))
            word = "ERR" if code is None else code[0]
            self._waiting.popleft().errback(RedisError(f"Redis answers {word}"))
        else:
            self._waiting.popleft().callback(reply)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002 (the interface's)
        """Fail whatever waits for a reply."""
        self._end()

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        waiting, self._waiting = self._waiting, deque()
        self._on_lost(self)
        for reply in waiting:
            reply.errback(RedisError("the connection was lost"))


_NOTHING: Final = object()
