"""Tool names of one request in the provider's form, and the client's own names in the response.

A name that the provider refuses would cost the whole request, so such a tool gets another name, the same in
every turn.  In the response it has the client's again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from mgw.canonical.conversation import ToolCall
from mgw.canonical.identifiers import make_legal_name
from mgw.canonical.reply import CallBegan, Reply, ReplyEvent


class ToolNames:
    """What each tool is called towards a provider that takes the names that match ``legal``."""

    __slots__ = ("_legal", "renamed")

    def __init__(self, legal: re.Pattern[str]) -> None:
        self._legal = legal
        self.renamed: dict[str, str] = {}
        """The client's names by the provider's, of those that differ and were asked for."""

    def __getitem__(self, name: str) -> str:
        """Return what the provider knows a tool as."""
        found = make_legal_name(name, self._legal)
        if found != name:
            self.renamed[found] = name
        return found


def restore_names_in_events(events: Iterable[ReplyEvent], names: Mapping[str, str]) -> list[ReplyEvent]:
    """Return the events with each tool under the name that the client gave it."""
    return [
        replace(event, name=names[event.name])
        if isinstance(event, CallBegan) and event.name in names
        else event
        for event in events
    ]


def restore_names_in_reply(reply: Reply, names: Mapping[str, str]) -> Reply:
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
