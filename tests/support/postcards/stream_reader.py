"""A stream of cards, read as events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import MsgspecError
from msgspec.json import Decoder

from mgw.canonical.reply import (
    NO_USAGE,
    ArgumentsAdded,
    Began,
    CallBegan,
    CallEnded,
    Counted,
    Ended,
    ReplyEvent,
    StopReason,
    TextAdded,
    TokenUsage,
)
from mgw.dialects.refusal import UNREADABLE_EVENT
from mgw.dialects.stream import DocumentReader, incomplete
from mgw.wire.sse import Event, EventReader
from tests.support.postcards.errors import find_error
from tests.support.postcards.reply import ENDS, Card, parse_run
from tests.support.postcards.usage import to_canonical

_DECODER: Final = Decoder(Card)


class PostcardStreamReader(DocumentReader[Event]):
    """Reads cards."""

    __slots__ = ("_began", "_calls", "_splitter", "ended", "usage")

    def __init__(self, seed: str) -> None:
        super().__init__()
        self.usage: TokenUsage = NO_USAGE
        self.ended: bool = False
        self._splitter = EventReader()
        self._began = False
        self._calls = 0

    @property
    def complete(self) -> bool:
        return self.ended

    def _split(self, data: bytes) -> Iterable[Event]:
        return self._splitter.feed(data)

    def on_document(self, document: Event, events: list[ReplyEvent]) -> None:
        error = find_error(document.data)
        if error is not None:
            self._break(error, events)
            return
        try:
            card = _DECODER.decode(document.data)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            self._break(UNREADABLE_EVENT.error, events)
            return
        if not self._began:
            self._began = True
            events.append(Began())
        self._on_card(card, events)

    def _on_card(self, card: Card, events: list[ReplyEvent]) -> None:
        if card.say:
            events.append(TextAdded(card.say))
        if card.run is not None:
            call, number = parse_run(card.run), self._calls
            self._calls += 1
            events += (CallBegan(number, call.id, call.name), ArgumentsAdded(number, call.arguments))
            events.append(CallEnded(number))
        if card.end is not None:
            if card.usage is not None:
                self.usage = to_canonical(card.usage)
                events.append(Counted(self.usage))
            events.append(Ended(ENDS.get(card.end, StopReason.END)))
            self._closed = self.ended = True
            self.finished = 1

    def on_finish(self, events: list[ReplyEvent]) -> None:
        if not self.ended:
            raise incomplete()
