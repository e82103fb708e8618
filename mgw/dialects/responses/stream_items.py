"""The events of one item of a response's stream, from its beginning to its end (contract 11.8).

Each class here is an item that is open (calls are in :mod:`mgw.dialects.responses.calls`).  It writes its
events as it grows, and gives the bytes of the whole item at its end: what a stream's last event and a whole
answer have is the same.  A text that streams is kept once, as the inside of the JSON string that it will be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import Citation, Signature
from mgw.canonical.reply import TokenLogprob
from mgw.dialects.responses.blocks import (
    IN_PROGRESS,
    INCOMPLETE,
    item_id,
    render_annotation,
    render_logprobs,
    render_message,
    render_reasoning,
    render_refusal_part,
    render_summary_part,
    render_text_part,
)
from mgw.dialects.responses.thoughts import seal_thought
from mgw.dialects.serial_writer import FRAME_BYTES, STRING_BYTES

_ENCODER: Final = Encoder()
_STRING: Final = Decoder(str)
_EVENT: Final = b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n'
_NO_LOGPROBS: Final = b',"logprobs":[]'
MOST_NEW_BYTES: Final = 16 * 1024
"""How much of a text is kept in pieces before they are joined."""


def _decode(inside: bytes) -> str:
    return _STRING.decode(b'"%b"' % inside)


class EventLog:
    """Numbers the events of one stream, and keeps the items that have ended."""

    __slots__ = ("items", "kept_bytes", "number", "out", "seed")

    def __init__(self, out: list[bytes], seed: str) -> None:
        self.out = out
        """Where the events go."""
        self.seed = seed
        """Seeds the identifiers of the items."""
        self.number = 0
        """The number of the next event."""
        self.items: list[bytes] = []
        self.kept_bytes = 0
        """How much of texts and items is kept for the end; a text counts by itself and in its item."""

    def write(self, kind: bytes, fields: bytes) -> None:
        """Write an event with these fields."""
        self.out.append(_EVENT % (kind, kind, self.number, fields))
        self.number += 1

    def write_response(self, kind: bytes, pieces: Iterable[bytes]) -> None:
        """Write an event with the response, whose object comes in pieces."""
        begin = b'event: %b\ndata: {"type":"%b","sequence_number":%d,"response":' % (kind, kind, self.number)
        self.out += (begin, *pieces, b"}\n\n")
        self.number += 1

    def next_id(self, kind: str) -> bytes:
        """Return the identifier of the next item, which is of the type ``kind``."""
        return item_id(kind, self.seed, len(self.items)).encode()

    def begin_item(self, item: bytes) -> None:
        """Begin the next item."""
        self.write(b"response.output_item.added", b'"output_index":%d,"item":%b' % (len(self.items), item))

    def end_item(self, item: bytes) -> None:
        """End the item that has begun."""
        self.write(b"response.output_item.done", b'"output_index":%d,"item":%b' % (len(self.items), item))
        self.items.append(item)
        self.kept_bytes += len(item)

    def add_item(self, begun: bytes, ended: bytes) -> None:
        """Write an item that has no events between its two ends."""
        self.begin_item(begun)
        self.end_item(ended)


class TextKind(Struct, frozen=True):
    """How a text streams."""

    delta: bytes
    done: bytes
    key: bytes
    """The key of the text in the last event."""
    more: bytes = b""
    """What each delta has, too."""


_OUTPUT_TEXT: Final = TextKind(
    b"response.output_text.delta", b"response.output_text.done", b"text", _NO_LOGPROBS
)
_REFUSAL: Final = TextKind(b"response.refusal.delta", b"response.refusal.done", b"refusal")
_SUMMARY: Final = TextKind(
    b"response.reasoning_summary_text.delta", b"response.reasoning_summary_text.done", b"text"
)
ARGUMENTS: Final = TextKind(
    b"response.function_call_arguments.delta", b"response.function_call_arguments.done", b"arguments"
)
INPUT: Final = TextKind(
    b"response.custom_tool_call_input.delta", b"response.custom_tool_call_input.done", b"input"
)


class TextRun:
    """A text that streams."""

    __slots__ = ("_content", "_kind", "_log", "_new", "_new_bytes", "_place", "_template")

    def __init__(self, log: EventLog, kind: TextKind, place: bytes) -> None:
        """:param place: the fields that say where the text is; they hold no ``%``."""
        self._log = log
        self._kind = kind
        self._place = place
        self._template = b'event: %b\ndata: {"type":"%b","sequence_number":%%d,%b,"delta":%%b%b}\n\n' % (
            kind.delta,
            kind.delta,
            place,
            kind.more,
        )
        self._content = bytearray()
        """The inside of the JSON string, without the strings that are new."""
        self._new: list[bytes] = []
        self._new_bytes = 0

    def inside(self, begin: int = 0) -> bytes:
        """Return the inside of the JSON string, from that byte on."""
        self._join()
        return bytes(memoryview(self._content)[begin:])

    def add(self, text: str) -> None:
        """Write more of it; some."""
        log = self._log
        encoded = _ENCODER.encode(text)
        log.out.append(self._template % (log.number, encoded))
        log.number += 1
        self._new.append(encoded)
        self._new_bytes += len(encoded) + STRING_BYTES
        if self._new_bytes > MOST_NEW_BYTES:
            self._join()

    def add_with(self, text: str, logprobs: bytes) -> None:
        """Write more of it with its tokens."""
        encoded = _ENCODER.encode(text)
        self._new.append(encoded)
        self._join()
        self._log.kept_bytes += len(logprobs)
        fields = b'%b,"delta":%b,"logprobs":[%b]' % (self._place, encoded, logprobs)
        self._log.write(self._kind.delta, fields)

    def _join(self) -> None:
        """Add the new strings to the rest: one by one, as they come, that would cost more."""
        before = len(self._content)
        self._content += b"".join([encoded[1:-1] for encoded in self._new])
        self._log.kept_bytes += len(self._content) - before
        self._new.clear()
        self._new_bytes = 0

    def end(self, more: bytes = b"") -> None:
        """Write the event with the whole text, and ``more`` fields."""
        kind = self._kind
        self._log.write(kind.done, b'%b,"%b":"%b"%b' % (self._place, kind.key, self.inside(), more))


class _TextPart:
    """An ``output_text`` of a message."""

    __slots__ = ("_annotations", "_characters", "_counted", "_log", "_logprobs", "_place", "_unsent", "run")

    def __init__(self, log: EventLog, place: bytes) -> None:
        self._log = log
        self._place = place
        self.run = TextRun(log, _OUTPUT_TEXT, place)
        self._annotations: list[bytes] = []
        self._logprobs: list[bytes] = []
        self._unsent = ""
        """A text that waits for its tokens."""
        self._characters = 0
        self._counted = 0
        """The bytes of the text whose characters have been counted."""

    def hold(self, text: str) -> None:
        """Add a text whose tokens come next."""
        self.flush()
        self._unsent = text

    def add_logprobs(self, tokens: tuple[TokenLogprob, ...]) -> None:
        """Add the tokens of the text that came last."""
        rendered = render_logprobs(tokens)
        if self._unsent:
            self.run.add_with(self._unsent, rendered)
            self._unsent = ""
        else:
            self._log.kept_bytes += len(rendered)
        self._logprobs.append(rendered)

    def annotate(self, citation: Citation) -> None:
        """Add a citation."""
        self.flush()
        placed = citation.start is not None and citation.end is not None
        annotation = render_annotation(citation, 0 if placed else self.count_characters())
        index = len(self._annotations)
        self._annotations.append(annotation)
        self._log.kept_bytes += len(annotation)
        fields = b'%b,"annotation_index":%d,"annotation":%b' % (self._place, index, annotation)
        self._log.write(b"response.output_text.annotation.added", fields)

    def count_characters(self) -> int:
        """Return how long the text is; what has been counted is not counted again."""
        more = self.run.inside(self._counted)
        self._characters += len(_decode(more))
        self._counted += len(more)
        return self._characters

    def flush(self) -> None:
        """Write what waits for tokens."""
        if self._unsent:
            self.run.add(self._unsent)
            self._unsent = ""

    def end(self) -> None:
        """Write the event with the whole text."""
        self.flush()
        self.run.end(b',"logprobs":[%b]' % b",".join(self._logprobs))

    def render(self) -> bytes:
        """Return the part as it is now."""
        return render_text_part(self.run.inside(), self._annotations, self._logprobs)


class _RefusalPart:
    """A ``refusal`` of a message."""

    __slots__ = ("run",)

    def __init__(self, log: EventLog, place: bytes) -> None:
        self.run = TextRun(log, _REFUSAL, place)

    def end(self) -> None:
        """Write the event with the whole text."""
        self.run.end()

    def render(self) -> bytes:
        """Return the part as it is now."""
        return render_refusal_part(self.run.inside())


class OpenMessage:
    """A message that is open, with its parts."""

    __slots__ = ("_id", "_log", "_part", "_parts", "signature", "text")

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._id = log.next_id("message")
        self._parts: list[bytes] = []
        """The parts that have ended."""
        self._part: _TextPart | _RefusalPart | None = None
        self.text: _TextPart | None = None
        """The part that is open, where it is text."""
        self.signature: Signature | None = None
        """The signature of the text, to which nothing can be added then."""
        log.begin_item(render_message(self._id, IN_PROGRESS, ()))

    def begin_text(self) -> _TextPart:
        """Return the text that is open, or that begins here."""
        if self.text is None:
            self._end_part()
            self._part = self.text = _TextPart(self._log, self._place())
            self._write_part(b"added", render_text_part(b""))
        return self.text

    def add_refusal(self, text: str) -> None:
        """Add words of a refusal."""
        if not isinstance(self._part, _RefusalPart):
            self._end_part()
            self._part = _RefusalPart(self._log, self._place())
            self._write_part(b"added", render_refusal_part(b""))
        self._part.run.add(text)

    def end(self, status: bytes) -> None:
        """End the message."""
        self._end_part()
        self._log.end_item(render_message(self._id, status, self._parts))

    def render(self) -> bytes:
        """Return the message as it is now, which it will not go on from."""
        if self.text is not None:
            self.text.flush()
        parts = self._parts if self._part is None else [*self._parts, self._part.render()]
        return render_message(self._id, INCOMPLETE, parts)

    def _end_part(self) -> None:
        if self._part is None:
            return
        self._part.end()
        part = self._part.render()
        self._write_part(b"done", part)
        self._parts.append(part)
        self._log.kept_bytes += FRAME_BYTES
        self._part = self.text = None

    def _place(self) -> bytes:
        place = b'"item_id":"%b","output_index":%d,"content_index":%d'
        return place % (self._id, len(self._log.items), len(self._parts))

    def _write_part(self, word: bytes, part: bytes) -> None:
        self._log.write(b"response.content_part." + word, b'%b,"part":%b' % (self._place(), part))


class OpenThought:
    """A thought that is open; its words are its summary."""

    __slots__ = ("_id", "_log", "_place", "_run")

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._id = log.next_id("reasoning")
        self._place = b'"item_id":"%b","output_index":%d,"summary_index":0' % (self._id, len(log.items))
        self._run: TextRun | None = None
        log.begin_item(render_reasoning(self._id, IN_PROGRESS))

    def add(self, text: str) -> None:
        """Add words."""
        if self._run is None:
            self._run = TextRun(self._log, _SUMMARY, self._place)
            self._write_part(b"added", render_summary_part(b""))
        self._run.add(text)

    def end(self, status: bytes, signature: Signature | None = None) -> None:
        """End the thought, with its signature where it has one."""
        words, summary = "", b""
        if self._run is not None:
            self._run.end()
            summary = render_summary_part(self._run.inside())
            self._write_part(b"done", summary)
            words = _decode(self._run.inside())
        self.end_sealed(status, seal_thought(words, signature), summary)

    def end_sealed(self, status: bytes, encrypted_content: str, summary: bytes = b"") -> None:
        """End the item with this field."""
        item = render_reasoning(self._id, status, summary, encrypted_content)
        self._log.end_item(item)

    def render(self) -> bytes:
        """Return the thought as it is now, which it will not go on from."""
        summary = b"" if self._run is None else render_summary_part(self._run.inside())
        return render_reasoning(self._id, INCOMPLETE, summary)

    def _write_part(self, word: bytes, part: bytes) -> None:
        self._log.write(b"response.reasoning_summary_part." + word, b'%b,"part":%b' % (self._place, part))
