"""Estimate the tokens of an answer by its text: what it says, thinks and refuses, and its calls of tools.

An answer comes in pieces, and of a long one only evenly spaced blocks are kept, since the estimate of a long
text reads no more (:mod:`mgw.tokens.text`): whenever there are too many, every other one is dropped, and of
those to come as many are left out.  So memory is bounded, and what is kept is scaled up in the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mgw.canonical.conversation import Media, Refusal, Text, Thinking, ToolCall
from mgw.canonical.reply import (
    ArgumentsAdded,
    CallBegan,
    MediaAdded,
    RefusalAdded,
    Reply,
    ReplyEvent,
    TextAdded,
    ThinkingAdded,
)
from mgw.tokens.estimate import PER_CALL, media_tokens
from mgw.tokens.text import BLOCK_CHARS, MAX_READ_CHARS, estimate_text_tokens

MAX_BLOCKS: Final = MAX_READ_CHARS // BLOCK_CHARS
"""How many blocks of text are kept."""
MAX_OPEN: Final = 64
"""How many texts of one answer are told apart while they come: candidates, thoughts and calls."""
_SHARED: Final = (0, 0, 0)
"""All others."""

_Key = tuple[int, int, int]
"""The candidate, the sort of text, and the number of a call."""


class AnswerTokens:
    """Collects the text of one answer."""

    __slots__ = ("_blocks", "_number", "_open", "_overhead", "_size", "_stride", "media")

    def __init__(self) -> None:
        self.media = 0
        """The tokens of media."""
        self._size = 0
        """How many characters have come."""
        self._overhead = 0
        self._blocks: list[str] = []
        self._stride = 1
        """Of so many blocks one is kept."""
        self._number = 0
        """The number of the next block."""
        self._open: dict[_Key, str] = {}
        """What has come of each text since its last block."""

    @property
    def characters(self) -> int:
        """How many characters of text have come."""
        return self._size

    def add_events(self, events: Iterable[ReplyEvent]) -> None:
        """Take what a stream says."""
        for event in events:
            if type(event) is TextAdded:
                self.add(event.text, (event.candidate, 1, 0))
            elif type(event) is ArgumentsAdded:
                self.add(event.text, (event.candidate, 2, event.call))
            elif type(event) is ThinkingAdded:
                self.add(event.text, (event.candidate, 3, 0))
            elif type(event) is RefusalAdded:
                self.add(event.text, (event.candidate, 4, 0))
            elif type(event) is CallBegan:
                self._overhead += PER_CALL
                self.add(event.name, (event.candidate, 5, event.call))
            elif type(event) is MediaAdded:
                self.media += media_tokens(event.media)

    def add_reply(self, reply: Reply) -> None:
        """Take a whole answer."""
        parts = (part for candidate in reply.candidates for part in candidate.parts)
        for number, part in enumerate(parts):
            match part:
                case Text() | Thinking() | Refusal():
                    self.add(part.text, (number, 1, 0))
                case ToolCall():
                    self._overhead += PER_CALL
                    self.add(part.name, (number, 5, 0))
                    self.add(part.arguments, (number, 2, 0))
                case Media():
                    self.media += media_tokens(part)

    def add(self, text: str, key: _Key = _SHARED) -> None:
        """Take a piece of text."""
        self._size += len(text)
        opened = self._open
        before = opened.get(key)
        if before is None and len(opened) >= MAX_OPEN:
            before, key = opened.get(_SHARED), _SHARED
        text = text if before is None else before + text
        if len(text) >= BLOCK_CHARS:
            text = self._cut(text)
        opened[key] = text

    def estimate(self, factor: float = 1.0) -> int:
        """Return about how many tokens there are.

        :param factor: as for :func:`mgw.tokens.estimate.estimate_tokens`.
        """
        texts = [*self._blocks, *self._open.values()]
        kept = sum(map(len, texts))
        tokens = estimate_text_tokens(texts) * (self._size / kept) if kept else 0.0
        return round((tokens + self._overhead) * factor) + self.media

    def _cut(self, text: str) -> str:
        """Keep the blocks of a text that belong to those that are kept; return what is left."""
        start = self._number
        self._number = end = start + len(text) // BLOCK_CHARS
        number = start + -start % self._stride
        while number < end:
            at = (number - start) * BLOCK_CHARS
            self._blocks.append(text[at : at + BLOCK_CHARS])
            if len(self._blocks) > MAX_BLOCKS:
                del self._blocks[1::2]
                self._stride *= 2
            number += 1
            number += -number % self._stride
        return text[(end - start) * BLOCK_CHARS :]
