"""The states of a client's connection, and the one table of the ways between them.

A connection carries requests and responses in turn, and one state says where both are: how much of the
request has come, and whether its response has ended.  What moves it is a :class:`ServerEvent`: something that
the client has sent, something that we have sent, or the end of the connection.  An event that the table does
not have in a state is a mistake of ours, and raises ``KeyError``.

The order of a response's own parts, its head, its body and its end, is not in the table:
:mod:`mgw.http.server_connection` holds how the end of the body is marked, and nothing before there is a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class ServerState(Enum):
    """Where a connection is; the values are what the documents say of it."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hashes the name, in Python

    NEW = "no request has begun yet"
    IDLE = "the response has ended, and another request may come"
    HEAD = "a part of a head has come"
    EXPECTING = "the head has come, and the client waits for a 100 before it sends the body (RFC 9110 10.1.1)"
    BODY = "the head has come, and the body is on its way"
    RESPONDING = "the whole request has come, and the response has not ended"
    REFUSED = "what has come is not HTTP: nothing more is read, and one response follows"
    ENDED = "the last response has ended"
    UPGRADED = "another protocol is spoken"
    LINGERING = "our side has ended, and what the client still sends is dropped (RFC 9112 9.6)"
    CLOSING = "what was written still goes out"
    CLOSED = "the connection is gone"


class ServerEvent(Enum):
    """What moves a connection from one state to the next; the values are what the documents call it."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hashes the name, in Python

    BEGINNING = "part of a head"
    REQUEST = "head without a body, or with all of it"
    HEAD = "head, body to come"
    EXPECTATION = "head that expects a 100"
    PIECE = "piece of the body"
    END = "end of the body"
    FAULT = "malformed, too large or too slow"
    CONTINUE = "100 sent"
    RESPONSE = "response, kept alive"
    LAST_RESPONSE = "response, to be closed"
    TRUNCATION = "response broken off"
    SWITCH = "101 sent"
    WITHDRAWAL = "head to be read again"
    LINGER = "our side ended"
    CLOSE = "both sides ended"
    ABORT = "aborted"
    LOST = "connection lost"


_State = ServerState
_Event = ServerEvent
_ANYWHERE: Final = {_Event.ABORT: _State.CLOSING, _Event.LOST: _State.CLOSED}
_ENDING: Final = {_Event.LINGER: _State.LINGERING, _Event.CLOSE: _State.CLOSING, **_ANYWHERE}
_HEAD: Final = {
    _Event.REQUEST: _State.RESPONDING,
    _Event.HEAD: _State.BODY,
    _Event.EXPECTATION: _State.EXPECTING,
    _Event.FAULT: _State.REFUSED,
    **_ANYWHERE,
}
_BEFORE_HEAD: Final = {_Event.BEGINNING: _State.HEAD, **_HEAD, **_ENDING}
_BODY: Final = {
    _Event.PIECE: _State.BODY,
    _Event.END: _State.RESPONDING,
    _Event.FAULT: _State.REFUSED,
    # The rest of the body is still on its way: closing at once would take the response from the client.
    _Event.LAST_RESPONSE: _State.LINGERING,
    _Event.TRUNCATION: _State.ENDED,
    **_ANYWHERE,
}

TRANSITIONS: Final[Mapping[ServerState, Mapping[ServerEvent, ServerState]]] = MappingProxyType(
    {
        _State.NEW: _BEFORE_HEAD,
        _State.IDLE: _BEFORE_HEAD,
        _State.HEAD: _HEAD,
        _State.EXPECTING: {_Event.CONTINUE: _State.BODY, **_BODY},
        _State.BODY: {_Event.WITHDRAWAL: _State.IDLE, **_BODY},
        _State.RESPONDING: {
            _Event.RESPONSE: _State.IDLE,
            _Event.LAST_RESPONSE: _State.ENDED,
            _Event.TRUNCATION: _State.ENDED,
            _Event.SWITCH: _State.UPGRADED,
            _Event.WITHDRAWAL: _State.IDLE,
            **_ANYWHERE,
        },
        _State.REFUSED: {
            _Event.LAST_RESPONSE: _State.LINGERING,
            _Event.TRUNCATION: _State.ENDED,
            **_ANYWHERE,
        },
        _State.ENDED: _ENDING,
        _State.UPGRADED: _ENDING,
        _State.LINGERING: _ENDING,
        _State.CLOSING: _ANYWHERE,
        _State.CLOSED: {_Event.LOST: _State.CLOSED},
    }
)
"""The state that each event leads to, by the state in which it may come."""

IDLE: Final = ServerState.IDLE
AT_REST: Final = frozenset({_State.NEW, _State.IDLE})
"""Nothing is in progress."""
AWAITING: Final = AT_REST | {_State.HEAD}
"""A request, or the rest of its head, is what comes next."""
RECEIVING: Final = frozenset({_State.EXPECTING, _State.BODY})
"""A body is what comes next."""
SERVING: Final = RECEIVING | {_State.RESPONDING, _State.REFUSED}
"""There is something to respond to."""
OPEN: Final = AWAITING | SERVING
"""What the client sends is a request, or waits until one may be read."""
