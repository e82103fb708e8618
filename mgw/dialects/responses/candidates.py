"""The output of a response, item by item, read as events: whole, or as it streams.

Sources: the SDK's ``ResponseOutputItem`` and ``ResponseStreamEvent``; contract 11.9.  Of a stream only the
deltas are read and the events that begin and end an item::

    item      = output_item.added delta* output_item.done
    delta     = output_text.delta | output_text.annotation.added | refusal.delta
              | reasoning_summary_text.delta | reasoning_text.delta | function_call_arguments.delta

What no delta brought is taken from the whole item, so a whole answer is read as items that had no deltas.
Hosts differ: they leave deltas, ``added`` or ``output_index`` out, or count all items as the first.  Whatever
has another type than it should is skipped, and so are items that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.json import Encoder
from msgspec.structs import replace

from mgw.canonical.conversation import Citation, JsonObject, Media, MediaKind
from mgw.canonical.identifiers import make_id
from mgw.canonical.reply import (
    ArgumentsAdded,
    CallBegan,
    CallEnded,
    CitationAdded,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    ReplyEvent,
    StopReason,
    TextAdded,
    ThinkingAdded,
    ThinkingSigned,
)
from mgw.dialects.media import detect_media_type
from mgw.dialects.openai.candidates import parse_citation, parse_logprobs
from mgw.dialects.placeholders import BETWEEN
from mgw.dialects.responses.thoughts import UNSIGNED, sign_thought

_ENCODER: Final = Encoder()
_MAX_ITEMS: Final = 4096
"""The most items that are read; an answer has some dozens."""
_INCOMPLETE: Final = MappingProxyType(
    {
        "max_output_tokens": StopReason.LENGTH,
        "max_tokens": StopReason.LENGTH,
        "content_filter": StopReason.REFUSAL,
    }
)
"""What ``incomplete_details.reason`` says."""
_TEXT_PARTS: Final = frozenset({"output_text", "text"})


class BrokenOutputError(Exception):
    """The output cannot be understood; the message is for the client."""


class OutputItem(Struct):
    """The fields of an item that are read; Any: hosts write all kinds of types."""

    type: Any = None
    id: Any = None
    call_id: Any = None
    name: Any = None
    arguments: Any = None
    input: Any = None
    content: Any = None
    summary: Any = None
    encrypted_content: Any = None
    result: Any = None
    output_format: Any = None


class _Reading:
    """An item that is being read, and what has come of it."""

    __slots__ = (
        "begin",
        "call",
        "done",
        "has_arguments",
        "has_citations",
        "has_logprobs",
        "has_text",
        "id",
        "part",
        "said",
        "words",
    )

    def __init__(self, item_id: str) -> None:
        self.id = item_id
        self.done = False
        self.begin = 0
        """The number of characters of the answer before its text."""
        self.said: set[str] = set()
        """The kinds of parts of a message: text, refusal."""
        self.has_citations = False
        self.has_logprobs = False
        self.has_text = False
        self.words: str | None = None
        """The kind of delta that brings the words of a thought: a summary of it, or all of it."""
        self.part = 0
        """The part to which its last words belong."""
        self.call: int | None = None
        """The number of the call that it is, once that has begun."""
        self.has_arguments = False


class OutputReader:
    """Reads the items of one response."""

    __slots__ = ("_begun", "_calls", "_characters", "_ids", "_items", "_refused", "_seed", "_thinking")

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._items: dict[int, _Reading] = {}
        """The items by their positions in the output."""
        self._begun = 0
        """How many there are, some of which may have had the same place."""
        self._thinking: _Reading | None = None
        """The item whose thought is open: its words came last, and are not signed."""
        self._calls = 0
        self._characters = 0
        """How many characters all texts have so far."""
        self._ids: set[str] = set()
        self._refused = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come."""
        return not self._begun

    def on_added(self, place: int, item: OutputItem, events: list[ReplyEvent]) -> None:
        """Begin an item.

        :raises BrokenOutputError: where there are too many, as do the other methods.
        """
        reading = self._items.get(place)
        item_id = _string(item.id)
        if reading is None or reading.done or reading.id != item_id:
            reading = self._begin_item(place, item_id, events)
        if item.type == "function_call" and reading.call is None and _string(item.name):
            self._begin_call(reading, item, events)

    def on_text(
        self, place: int, text: str, logprobs: Any, events: list[ReplyEvent]
    ) -> None:  # Any: any JSON
        """Add text of a message, and how likely its tokens were."""
        reading = self._open_item(place, events)
        if reading is not None and text:
            reading.said.add("text")
            self._add_text(reading, text, events)
            if logprobs:
                self._add_logprobs(reading, logprobs, events)

    def on_refusal(self, place: int, text: str, events: list[ReplyEvent]) -> None:
        """Add words of a refusal."""
        reading = self._open_item(place, events)
        if reading is not None and text:
            reading.said.add("refusal")
            self._refused = True
            self._close_thought(events)
            events.append(RefusalAdded(text))

    def on_annotation(self, place: int, annotation: Any, events: list[ReplyEvent]) -> None:  # Any: any JSON
        """Add where a text comes from."""
        reading = self._open_item(place, events)
        citation = _parse_annotation(annotation)
        if reading is not None and citation is not None:
            reading.has_citations = True
            self._close_thought(events)
            events.append(CitationAdded(_placed(citation, reading.begin)))

    def on_words(self, place: int, kind: str, part: int, text: str, events: list[ReplyEvent]) -> None:
        """Add words of a thought: a summary of it or all of it, of which the kind that comes first counts."""
        reading = self._open_item(place, events)
        if reading is None or not text or (reading.words or kind) != kind:
            return
        reading.words = kind
        if self._thinking is not reading:
            self._close_thought(events)
        elif part != reading.part:
            text = BETWEEN + text
        self._thinking = reading
        reading.part = part
        events.append(ThinkingAdded(text))

    def on_arguments(self, place: int, text: str, events: list[ReplyEvent]) -> None:
        """Add arguments of a call; those that come before its name are taken from the whole item."""
        reading = self._items.get(place)
        if reading is not None and not reading.done and reading.call is not None and text:
            reading.has_arguments = True
            events.append(ArgumentsAdded(reading.call, text))

    def on_done(self, place: int, item: OutputItem, events: list[ReplyEvent]) -> None:
        """End an item, and add what no delta brought."""
        reading = self._items.get(place)
        item_id = _string(item.id)
        if reading is not None and reading.done and item_id and reading.id == item_id:
            return
        if reading is None or reading.done:
            reading = self._begin_item(place, item_id, events)
        add = self._ADDERS.get(item.type) if type(item.type) is str else None
        if add is not None:
            add(self, reading, item, events)
        self._end(reading, events)
        reading.id = item_id or reading.id

    def finish(self, incomplete: str | None, events: list[ReplyEvent]) -> None:
        """End the answer.

        :param incomplete: the reason for which it is not complete.
        """
        self._close_thought(events)
        for reading in self._items.values():
            self._end(reading, events)
        events.append(self._stop(incomplete))

    def _stop(self, incomplete: str | None) -> Ended:
        stop = None if incomplete is None else _INCOMPLETE.get(incomplete)
        if stop is not None:
            return Ended(stop)
        if self._calls:
            stop = StopReason.TOOL_USE
        else:
            stop = StopReason.REFUSAL if self._refused else StopReason.END
        return Ended(stop, unknown_stop=incomplete)

    def _open_item(self, place: int, events: list[ReplyEvent]) -> _Reading | None:
        """Return the item that a delta belongs to; ``None``: it has ended."""
        reading = self._items.get(place)
        if reading is None:
            return self._begin_item(place, "", events)
        return None if reading.done else reading

    def _begin_item(self, place: int, item_id: str, events: list[ReplyEvent]) -> _Reading:
        """Begin an item; another at the same place has ended."""
        before = self._items.get(place)
        if before is not None:
            self._end(before, events)
        self._begun += 1
        if self._begun > _MAX_ITEMS:
            raise BrokenOutputError(f"the upstream's response has more than {_MAX_ITEMS} items")
        reading = self._items[place] = _Reading(item_id)
        return reading

    def _end(self, reading: _Reading, events: list[ReplyEvent]) -> None:
        if not reading.done:
            reading.done = True
            if reading.call is not None:
                events.append(CallEnded(reading.call))

    def _close_thought(self, events: list[ReplyEvent]) -> None:
        """End the open thought, which nobody has signed."""
        if self._thinking is not None:
            self._thinking = None
            events.append(ThinkingSigned(UNSIGNED))

    def _add_message(self, reading: _Reading, item: OutputItem, events: list[ReplyEvent]) -> None:
        """Add what the deltas of a message did not bring."""
        said = frozenset(reading.said)
        has_citations, has_logprobs = reading.has_citations, reading.has_logprobs
        content = [{"type": "text", "text": item.content}] if type(item.content) is str else item.content
        for part in _objects(content):
            kind = _string(part.get("type"))
            if kind == "refusal":
                if "refusal" not in said:
                    self._add_refusal(_string(part.get("refusal")), events)
            elif kind in _TEXT_PARTS:
                if "text" not in said and (text := _string(part.get("text"))):
                    self._add_text(reading, text, events, begins=True)
                if not has_logprobs and part.get("logprobs"):
                    self._add_logprobs(reading, part["logprobs"], events)
                if not has_citations:
                    citations = map(_parse_annotation, _objects(part.get("annotations")))
                    events.extend(CitationAdded(_placed(one, reading.begin)) for one in citations if one)

    def _add_text(
        self, reading: _Reading, text: str, events: list[ReplyEvent], *, begins: bool = False
    ) -> None:
        """Add text of a message; places in it count from its own begin."""
        self._close_thought(events)
        if begins or not reading.has_text:
            reading.has_text = True
            reading.begin = self._characters
        self._characters += len(text)
        events.append(TextAdded(text))

    def _add_refusal(self, text: str, events: list[ReplyEvent]) -> None:
        if text:
            self._refused = True
            self._close_thought(events)
            events.append(RefusalAdded(text))

    def _add_logprobs(
        self, reading: _Reading, logprobs: Any, events: list[ReplyEvent]
    ) -> None:  # Any: any JSON
        if tokens := parse_logprobs({"content": logprobs}):
            reading.has_logprobs = True
            events.append(LogprobsAdded(tokens))

    def _add_thought(self, reading: _Reading, item: OutputItem, events: list[ReplyEvent]) -> None:
        """Add the words of a thought that no delta brought, and its signature."""
        if reading.words is None and (words := _words(item.summary) or _words(item.content)):
            self._close_thought(events)
            self._thinking = reading
            events.append(ThinkingAdded(words))
        is_open = self._thinking is reading
        signature = sign_thought(item.id, item.encrypted_content, has_words=is_open)
        if signature is not None:
            if not is_open:
                self._close_thought(events)
            self._thinking = None
            events.append(ThinkingSigned(signature))

    def _begin_call(self, reading: _Reading, item: OutputItem, events: list[ReplyEvent]) -> None:
        name = _string(item.name)
        if not name:
            raise BrokenOutputError("the upstream's response has a tool call without a name")
        self._close_thought(events)
        reading.call = self._calls
        self._calls += 1
        call_id = _string(item.call_id)
        if not call_id or call_id in self._ids:
            call_id = make_id(self._seed, reading.call)
        self._ids.add(call_id)
        events.append(CallBegan(reading.call, call_id, name))

    def _add_function_call(self, reading: _Reading, item: OutputItem, events: list[ReplyEvent]) -> None:
        self._add_call(reading, item, _json_text(item.arguments), events)

    def _add_custom_call(self, reading: _Reading, item: OutputItem, events: list[ReplyEvent]) -> None:
        """Add a call whose input is any text, as the object that such tools take elsewhere."""
        self._add_call(reading, item, _json_text({"input": _string(item.input)}), events)

    def _add_call(
        self, reading: _Reading, item: OutputItem, arguments: str, events: list[ReplyEvent]
    ) -> None:
        if reading.call is None:
            self._begin_call(reading, item, events)
        if arguments and reading.call is not None and not reading.has_arguments:
            events.append(ArgumentsAdded(reading.call, arguments))

    def _add_image(self, reading: _Reading, item: OutputItem, events: list[ReplyEvent]) -> None:  # noqa: ARG002 - as the others
        """Add an image that OpenAI's own tool made."""
        data = _string(item.result)
        if data:
            self._close_thought(events)
            stated = f"image/{_string(item.output_format) or 'png'}"
            media_type = detect_media_type(data) or stated
            events.append(MediaAdded(Media(MediaKind.IMAGE, media_type, data)))

    _ADDERS: ClassVar[
        Mapping[str, Callable[[OutputReader, _Reading, OutputItem, list[ReplyEvent]], None]]
    ] = MappingProxyType(
        {
            "message": _add_message,
            "reasoning": _add_thought,
            "function_call": _add_function_call,
            "custom_tool_call": _add_custom_call,
            "image_generation_call": _add_image,
        }
    )
    """What is taken from each type of item; the others are skipped."""


def _string(value: Any) -> str:  # Any: JSON of whatever type
    return value if type(value) is str else ""


def _objects(value: Any) -> list[JsonObject]:  # Any: JSON of whatever type
    return [item for item in value if type(item) is dict] if type(value) is list else []


def _words(parts: Any) -> str:  # Any: JSON of whatever type
    """Return the words of a thought."""
    return BETWEEN.join(filter(None, [_string(part.get("text")) for part in _objects(parts)]))


def _parse_annotation(value: Any) -> Citation | None:  # Any: JSON of whatever type
    """Return the citation that an annotation is; those of files name nothing that a client could open."""
    if type(value) is not dict or value.get("type") != "url_citation":
        return None
    return parse_citation({"url_citation": value})


def _placed(citation: Citation, begin: int) -> Citation:
    """Return a citation of a text with its place in the whole answer."""
    start, end = citation.start, citation.end
    if not begin or start is None or end is None:
        return citation
    return replace(citation, start=start + begin, end=end + begin)


def _json_text(value: Any) -> str:  # Any: JSON of whatever type
    """Return arguments, which hosts may write as an object in place of its text."""
    if type(value) is not dict:
        return _string(value)
    try:
        return _ENCODER.encode(value).decode()
    except RecursionError:
        return ""
