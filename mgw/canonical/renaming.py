"""Names of tools that were changed for a provider, changed back in its answer.

A provider that takes fewer characters in a name than the client's family does gets another name.  The
renderer of the request hands out the table; these put the client's names back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from mgw.canonical.conversation import ToolCall
from mgw.canonical.reply import CallBegan, Reply, ReplyEvent


def events_with_names(events: Iterable[ReplyEvent], names: Mapping[str, str]) -> list[ReplyEvent]:
    """Return the events with each tool under the name that the client gave it."""
    return [
        replace(event, name=names[event.name])
        if isinstance(event, CallBegan) and event.name in names
        else event
        for event in events
    ]


def reply_with_names(reply: Reply, names: Mapping[str, str]) -> Reply:
    """Return the reply with each tool under the name that the client gave it."""
    if not names:
        return reply
    candidates = tuple(
        replace(
            candidate,
            parts=tuple(
                replace(part, name=names[part.name])
                if isinstance(part, ToolCall) and part.name in names
                else part
                for part in candidate.parts
            ),
        )
        for candidate in reply.candidates
    )
    return replace(reply, candidates=candidates)
