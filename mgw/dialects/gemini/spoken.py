"""Join the pieces that a model's turn came in.

The parts of one turn, as an answer in pieces leaves them in a client's history::

    {"text": "Let me ", "thought": true} {"text": "see.", "thought": true}
    {"text": "", "thought": true, "thoughtSignature": "..."} {"text": "It is "} {"text": "blue."}

are one thought with its signature and one text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from mgw.canonical.conversation import Part, Signature, Text, Thinking, ToolCall
from mgw.dialects.signatures import is_altered
from mgw.vocabulary import Family

_UNSIGNED = Signature(Family.GEMINI, "")
"""Beside a thought that nobody signed, so that no other family gets it as one of its own."""


@dataclass(slots=True)
class Spoken:
    """The parts of one turn of the model."""

    _parts: list[Part] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _thinking: bool = False

    def say(self, text: str, signature: Signature | None) -> None:
        """Take a piece of text, and the signature of the text so far."""
        self._take(text, thinking=False)
        if signature is not None:
            self._parts.append(Text(self._joined(), signature=signature))

    def think(self, text: str, signature: Signature | None, sealed: str = "") -> bool:
        """Take a piece of a thought, and the signature that ends it; a redacted thought stands for itself.

        ``sealed`` is the signature as the client has it.  Returned is whether the thought is the one that was
        signed; one that the client has altered is left out.
        """
        if signature is not None and signature.redacted:
            self._flush()
            self._parts.append(Thinking("", signature))
            return True
        self._take(text, thinking=True)
        if signature is None:
            return True
        thought = Thinking(self._joined(), signature)
        if is_altered(sealed, thought.text):
            return False
        self._parts.append(thought)
        return True

    def remembers(self, signature: Signature) -> bool:
        """Whether a thought since the last call has this signature."""
        return any(
            isinstance(part, Thinking) and part.signature == signature
            for part in islice(reversed(self._parts), len(self._parts) - self._after_call())
        )

    def restore(self, signature: Signature) -> None:
        """Put a thought that is all signature back where the stretch since the last call begins."""
        self._flush()
        self._parts.insert(self._after_call(), Thinking("", signature))

    def add(self, part: Part) -> None:
        """Take a whole part."""
        self._flush()
        self._parts.append(part)

    def finish(self) -> tuple[Part, ...]:
        """Return the parts, and begin anew."""
        self._flush()
        parts = tuple(self._parts)
        self._parts = []
        return parts

    def _after_call(self) -> int:
        """Return the place behind the last call."""
        place = len(self._parts)
        while place and not isinstance(self._parts[place - 1], ToolCall):
            place -= 1
        return place

    def _take(self, text: str, *, thinking: bool) -> None:
        if self._thinking is not thinking:
            self._flush()
            self._thinking = thinking
        if text:
            self._pieces.append(text)

    def _joined(self) -> str:
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def _flush(self) -> None:
        if self._pieces:
            text = self._joined()
            self._parts.append(Thinking(text, _UNSIGNED) if self._thinking else Text(text))
