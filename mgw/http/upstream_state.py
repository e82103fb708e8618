"""The states of a connection to a provider, and the one table of the ways between them.

A connection carries requests and responses in turn, and one state says where both are: whether a request was
sent, how much of its response has come, and whether that was taken.  What moves it is an
:class:`UpstreamEvent`: something that we have sent or taken, something that the provider has sent, or the end
of the connection.  An event that the table does not have in a state is a mistake of ours, and raises
``KeyError``.

How much of a request has been written is not in the table: a provider may respond before it has all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class UpstreamState(Enum):
    """Where a connection is; the values are what the documents say of it."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hashes the name, in Python

    CONNECTING = "TLS, where it is spoken, is not set up yet"
    NEW = "no request has been sent yet"
    IDLE = "the response was taken, and another request may be sent"
    SENT = "a request was sent, and nothing of its response has come"
    HEAD = "a part of the head has come, or an interim response (RFC 9110 15.2)"
    BODY = "the head has come, and the body is on its way"
    UNTIL_CLOSE = "the head has come, and the body lasts until the connection closes (RFC 9112 6.3)"
    COMPLETE = "the whole response has come, and another request may follow"
    LAST = "the whole response has come, and no request may follow"
    UNREADABLE = "what has come is not a response: nothing more is read"
    CLOSING = "we have closed or aborted the connection"
    CLOSED = "the connection is gone"


class UpstreamEvent(Enum):
    """What moves a connection from one state to the next; the values are what the documents call it."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hashes the name, in Python

    READY = "requests may be sent"
    REQUEST = "request sent"
    BEGINNING = "part of a head, or interim response"
    HEAD = "head, body to come"
    OPEN_HEAD = "head, body until the close"
    END = "end of the response, kept alive"
    LAST_END = "end of the response, to be closed"
    FAULT = "malformed or too large"
    EXCESS = "bytes behind the response"
    TAKEN = "response taken"
    CLOSE = "closed in order"
    ABORT = "aborted"
    LOST = "connection lost"


_State = UpstreamState
_Event = UpstreamEvent
_ANYWHERE: Final = {_Event.ABORT: _State.CLOSING, _Event.LOST: _State.CLOSED}
_AT_REST: Final = {_Event.REQUEST: _State.SENT, _Event.CLOSE: _State.CLOSING, **_ANYWHERE}
_BODY: Final = {
    _Event.END: _State.COMPLETE,
    _Event.LAST_END: _State.LAST,
    _Event.FAULT: _State.UNREADABLE,
    **_ANYWHERE,
}
_BEFORE_HEAD: Final = {
    _Event.BEGINNING: _State.HEAD,
    _Event.HEAD: _State.BODY,
    _Event.OPEN_HEAD: _State.UNTIL_CLOSE,
    **_BODY,
}

TRANSITIONS: Final[Mapping[UpstreamState, Mapping[UpstreamEvent, UpstreamState]]] = MappingProxyType(
    {
        _State.CONNECTING: {_Event.READY: _State.NEW, **_ANYWHERE},
        _State.NEW: _AT_REST,
        _State.IDLE: _AT_REST,
        _State.SENT: _BEFORE_HEAD,
        _State.HEAD: _BEFORE_HEAD,
        _State.BODY: _BODY,
        _State.UNTIL_CLOSE: {_Event.LAST_END: _State.LAST, **_ANYWHERE},
        _State.COMPLETE: {_Event.TAKEN: _State.IDLE, _Event.EXCESS: _State.LAST, **_ANYWHERE},
        _State.LAST: {_Event.CLOSE: _State.CLOSING, **_ANYWHERE},
        _State.UNREADABLE: _ANYWHERE,
        _State.CLOSING: _ANYWHERE,
        _State.CLOSED: {_Event.LOST: _State.CLOSED},
    }
)
"""The state that each event leads to, by the state in which it may come."""

AT_REST: Final = frozenset({_State.NEW, _State.IDLE})
"""A request may be sent."""
AWAITING: Final = frozenset({_State.SENT, _State.HEAD})
"""A head, or the rest of it, is what comes next."""
RECEIVING: Final = frozenset({_State.BODY, _State.UNTIL_CLOSE})
"""A body is what comes next."""
IN_USE: Final = AWAITING | RECEIVING | {_State.COMPLETE, _State.LAST}
"""A request was sent, and its response was not taken yet."""
OVER: Final = frozenset({_State.CLOSING, _State.CLOSED})
"""Nothing is sent or read any more."""
