"""A whole answer as the events of a stream, for a provider that did not stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from mgw.canonical.conversation import Media, Part, Refusal, Text, Thinking, ToolCall, ToolResult
from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    CallBegan,
    CallEnded,
    Candidate,
    CitationAdded,
    Counted,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    Reply,
    ReplyEvent,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
)


def replay_reply(reply: Reply) -> list[ReplyEvent]:
    """Return the events that a stream of the same answer has."""
    events: list[ReplyEvent] = [Began(reply.id, reply.model)]
    for number, candidate in enumerate(reply.candidates):
        events += _candidate(candidate, number)
    events.append(Counted(reply.usage))
    return events


def _candidate(candidate: Candidate, number: int) -> Iterator[ReplyEvent]:
    calls = 0
    texts = [place for place, part in enumerate(candidate.parts) if isinstance(part, Text) and part.text]
    last_text = texts[-1] if texts else None
    for place, part in enumerate(candidate.parts):
        if isinstance(part, ToolCall):
            yield CallBegan(calls, part.id, part.name, part.signature, number)
            if part.arguments:
                yield ArgumentsAdded(calls, part.arguments, number)
            yield CallEnded(calls, number)
            calls += 1
        else:
            yield from _part(part, number)
        if candidate.logprobs and place == last_text:
            yield LogprobsAdded(candidate.logprobs, number)
    if candidate.logprobs and last_text is None:
        yield LogprobsAdded(candidate.logprobs, number)
    yield Ended(candidate.stop, candidate.stop_sequence, candidate.unknown_stop, number)


def _part(part: Part, number: int) -> Iterator[ReplyEvent]:
    match part:
        case Text():
            yield from _text(part, number)
        case Thinking():
            if part.text:
                yield ThinkingAdded(part.text, number)
            if part.signature is not None:
                yield ThinkingSigned(part.signature, number)
        case Refusal():
            yield RefusalAdded(part.text, number)
        case Media():
            yield MediaAdded(part, number)
        case ToolCall() | ToolResult():  # calls are numbered above; an answer holds no results
            return
        case _:
            assert_never(part)


def _text(part: Text, number: int) -> Iterator[ReplyEvent]:
    if part.text:
        yield TextAdded(part.text, number)
    for citation in part.citations:
        yield CitationAdded(citation, number)
    if part.signature is not None:
        yield TextSigned(part.signature, number)
