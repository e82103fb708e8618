"""The events of one candidate, put together again."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mgw.canonical.conversation import Part, Refusal, Signature, Text, Thinking, ToolCall
from mgw.canonical.reply import (
    ArgumentsAdded,
    CallBegan,
    Candidate,
    CitationAdded,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    ReplyEvent,
    StopReason,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    TokenLogprob,
)


def gathered(events: Iterable[ReplyEvent]) -> Candidate:
    """Return the candidate that these events tell."""
    gatherer = _Gatherer()
    for event in events:
        gatherer.take(event)
    ended = gatherer.ended
    return Candidate(
        tuple(gatherer.parts), ended.stop, ended.stop_sequence, ended.unknown_stop, tuple(gatherer.tokens)
    )


class _Gatherer:
    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.tokens: list[TokenLogprob] = []
        self.ended = Ended(StopReason.END)
        self._calls: dict[int, int] = {}

    def take(self, event: ReplyEvent) -> None:
        match event:
            case TextAdded() | TextSigned() | CitationAdded():
                self._text(event)
            case ThinkingAdded():
                self._think(event.text)
            case ThinkingSigned():
                self._sign_thought(event.signature)
            case RefusalAdded():
                self.parts.append(Refusal(event.text))
            case CallBegan():
                self._calls[event.call] = len(self.parts)
                self.parts.append(ToolCall(event.id, event.name, "", event.signature))
            case ArgumentsAdded():
                self._argue(event)
            case MediaAdded():
                self.parts.append(event.media)
            case LogprobsAdded():
                self.tokens += event.tokens
            case Ended():
                self.ended = event
            case _:
                return

    def _text(self, event: TextAdded | TextSigned | CitationAdded) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(event, TextAdded):
            self._say(last, event.text)
            return
        if not isinstance(last, Text):
            last = Text("")
            self.parts.append(last)
        if isinstance(event, TextSigned):
            self.parts[-1] = replace(last, signature=event.signature)
        else:
            self.parts[-1] = replace(last, citations=(*last.citations, event.citation))

    def _say(self, last: Part | None, text: str) -> None:
        if isinstance(last, Text) and last.signature is None and not last.citations:
            self.parts[-1] = Text(last.text + text)
        else:
            self.parts.append(Text(text))

    def _think(self, text: str) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Thinking) and last.signature is None:
            self.parts[-1] = Thinking(last.text + text)
        else:
            self.parts.append(Thinking(text))

    def _sign_thought(self, signature: Signature) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Thinking) and last.signature is None and not signature.redacted:
            self.parts[-1] = Thinking(last.text, signature)
        else:
            self.parts.append(Thinking("", signature))

    def _argue(self, event: ArgumentsAdded) -> None:
        place = self._calls.get(event.call)
        call = self.parts[place] if place is not None else None
        if place is not None and isinstance(call, ToolCall):
            self.parts[place] = replace(call, arguments=call.arguments + event.text)
