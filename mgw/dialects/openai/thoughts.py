"""Thoughts and signatures in an assistant's message, both ways.

Chat completions have no place for thoughts of their own.  Hosts put their text in ``reasoning_content`` or
``reasoning``, and OpenRouter what belongs to it in ``reasoning_details``.  There are two journeys:

**Thoughts of another family, in the history of a chat client.**  ``reasoning_content`` is the text of all of
them, as it streams.  An entry of ``reasoning_details`` stands for each that is signed, with its whole text
and the tagged signature, so that a client which keeps only these loses nothing.  ``offset`` and ``calls`` say
after how many characters of ``content`` and after how many calls a thought began, where that is not at the
start.  All of it survives the accumulators of OpenAI's SDKs, which merge the entries of such a list by
``index``, and add up what comes twice.  A thought that its client altered does not fit the digest in its tag:
it is left out and reported.  (Entries of earlier times may have the ``length`` of their text in place of
``text``: ``reasoning_content`` begins with it.)

**Thoughts of a host that speaks chat, in the history of another family's client.**  They are of the family
OpenAI.  The value of the signature is empty, or the host's own entry of ``reasoning_details`` without its
text, and becomes that entry again.

``extra_content.google.thought_signature`` is Google's place in chat for the signature of a call or a text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject, Part, Signature, Text, Thinking, ToolCall
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields
from mgw.dialects.foreign_history import Members, marked_elements, members_of, remove_all, string_of
from mgw.dialects.signatures import is_altered, is_tagged, tag_signature, untag_signature
from mgw.nouns.vocabulary import Family
from mgw.wire.json_document import JsonDocument, JsonNode
from mgw.wire.json_spans import Edit

UNSIGNED: Final = Signature(Family.OPENAI, "")
"""The signature of the thoughts of hosts that sign nothing."""
_ENCRYPTED: Final = "reasoning.encrypted"
_TEXT: Final = "reasoning.text"
_TEXT_KEYS: Final = MappingProxyType({_TEXT: "text", "reasoning.summary": "summary"})
_ENCODER: Final = Encoder()
_DECODER: Final = Decoder()
_REASONING: Final = frozenset({"reasoning_details", "reasoning_content", "reasoning"})


class PlacedThought(Struct, frozen=True):
    """A thought of a message, and where in it it began."""

    thinking: Thinking
    offset: int = 0
    """The number of characters of ``content`` before it."""
    calls: int = 0
    """Calls before it."""


def parse_thoughts(message: Fields) -> list[PlacedThought]:
    """Take the thoughts of a message in a client's history."""
    spellings = [message.text(key, Feature.THINKING) for key in ("reasoning_content", "reasoning")]
    reasoning = spellings[0] or spellings[1] or ""
    details = message.objects("reasoning_details")
    if not details:
        return [PlacedThought(Thinking(reasoning, UNSIGNED))] if reasoning else []
    message.note(Feature.THINKING, "reasoning_details")
    thoughts, complete = _match_texts([_parse_detail(detail) for detail in details], reasoning)
    if not complete:
        message.ledger.leave(message.path("reasoning_details"))
    return thoughts


class _Detail(Struct, frozen=True):
    text: str | None
    """``None``: it is the first of ``reasoning_content``."""
    length: int
    """How much of that it is; 0: all that is left."""
    signature: Signature | None
    tag: str | None
    """What the signature was read from."""
    offset: int
    calls: int


def _parse_detail(detail: Fields) -> _Detail:
    """Read an entry; a damaged tag leaves a thought that nobody may get."""
    kind = detail.text("type")
    redacted = kind == _ENCRYPTED
    text = "" if redacted else detail.text("text")
    if text is None:
        text = detail.text("summary")
    tag = detail.text("data" if redacted else "signature")
    signature = UNSIGNED if tag is None else untag_signature(tag, Family.OPENAI, redacted=redacted)
    detail.skip("index", "id", "format")
    return _Detail(
        text, _count(detail, "length"), signature, tag, _count(detail, "offset"), _count(detail, "calls")
    )


def _count(detail: Fields, key: str) -> int:
    return max(detail.integer(key) or 0, 0)


def _match_texts(details: list[_Detail], reasoning: str) -> tuple[list[PlacedThought], bool]:
    """Give the thought whose text is not beside it the beginning of ``reasoning_content``.

    Text of which nothing knows the length was edited, so that the signature beside it holds no more.
    Returns the thoughts, and whether they are all that there are.
    """
    implied = next((detail for detail in details if detail.text is None), None)
    known = sum(len(detail.text or "") for detail in details)
    first = 0
    if implied is not None:
        first = implied.length or max(len(reasoning) - known, 0)
    unsigned = len(reasoning) - known - first
    thoughts: list[PlacedThought] = []
    complete = True
    if unsigned > 0:
        thoughts.append(PlacedThought(Thinking(reasoning[first : first + unsigned], UNSIGNED)))
    for detail in details:
        text = detail.text
        if text is None:
            if detail is not implied or unsigned < 0 or not first:
                complete = False
                continue
            text = reasoning[:first]
        signature = detail.signature
        if signature is None or (not signature.redacted and is_altered(detail.tag or "", text)):
            complete = False
        else:
            thoughts.append(PlacedThought(Thinking(text, signature), detail.offset, detail.calls))
    return thoughts, complete


def place_thoughts(thoughts: list[PlacedThought], content: list[Part], calls: list[ToolCall]) -> list[Part]:
    """Put each thought where it began: after so many characters and so many calls."""
    parts: list[Part] = []
    rest = _UnplacedContent(content)
    calls_placed = 0
    for placed in thoughts:
        parts += rest.up_to(placed.offset)
        if calls_placed < placed.calls:
            parts += calls[calls_placed : placed.calls]
            calls_placed = placed.calls
        parts.append(placed.thinking)
    return [*parts, *rest.all(), *calls[calls_placed:]]


class _UnplacedContent:
    """Content of a message that has not been placed yet; each character is copied once, however it is cut."""

    def __init__(self, content: list[Part]) -> None:
        self._parts = deque(content)
        self._characters = 0
        """How many are placed, in all."""
        self._begun = 0
        """The same of the first text that is left."""

    def up_to(self, offset: int) -> Iterator[Part]:
        """Yield what stands before so many characters."""
        while self._parts and self._characters < offset:
            head = self._parts[0]
            room = offset - self._characters
            if isinstance(head, Text) and len(head.text) - self._begun > room:
                yield Text(head.text[self._begun : self._begun + room])
                self._begun += room
                self._characters = offset
            else:
                yield self._next()

    def all(self) -> Iterator[Part]:
        """Yield what is left."""
        while self._parts:
            yield self._next()

    def _next(self) -> Part:
        head = self._parts.popleft()
        if isinstance(head, Text):
            if self._begun:
                head = replace(head, text=head.text[self._begun :])
            self._characters += len(head.text)
        self._begun = 0
        return head


def parse_host_signature(entry: JsonObject) -> Signature:
    """Return the signature that keeps a host's entry of ``reasoning_details``."""
    text_key = _text_key(entry)
    rest = {key: value for key, value in entry.items() if key != text_key and value is not None}
    return Signature(Family.OPENAI, _ENCODER.encode(rest).decode(), entry.get("type") == _ENCRYPTED)


def parse_host_text(entry: JsonObject) -> str:
    """Return the text of a host's entry."""
    text = entry.get(_text_key(entry) or "")
    return text if type(text) is str else ""


def _text_key(entry: JsonObject) -> str | None:
    """Return the key of an entry's text; ``None``: it has none."""
    kind = entry.get("type")
    return _TEXT_KEYS.get(kind) if type(kind) is str else None


def render_host_thoughts(thoughts: Iterable[Thinking]) -> JsonObject:
    """Return the fields of a message in which a host gets its own thoughts back."""
    fields: JsonObject = {}
    details: list[JsonObject] = []
    texts: list[str] = []
    for thought in thoughts:
        texts.append(thought.text)
        entry = _parse_host_entry(thought.signature.value) if thought.signature is not None else None
        if entry is not None:
            text_key = _text_key(entry)
            details.append({**entry, text_key: thought.text} if text_key else entry)
    if text := "".join(texts):
        fields["reasoning_content"] = text
    if details:
        fields["reasoning_details"] = details
    return fields


def _parse_host_entry(value: str) -> JsonObject | None:
    if not value:
        return None
    try:
        entry: Any = _DECODER.decode(value)  # Any: what a host once wrote, from a client's history
    except (DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return entry if type(entry) is dict and type(entry.get("type")) is str else None


class ThoughtRenderer:
    """Renders the signed thoughts of one choice for a chat client, whole or in pieces."""

    __slots__ = ("_count", "_texts", "held")

    def __init__(self) -> None:
        self.held = 0
        """The number of characters that are kept for later."""
        self._count = 0
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        """Keep more text of a thought."""
        self._texts.append(text)
        self.held += len(text)

    def close(self) -> None:
        """End a thought that is not signed."""
        self._texts.clear()
        self.held = 0

    def sign(self, signature: Signature, offset: int, calls: int) -> JsonObject:
        """End a thought, and return its entry of ``reasoning_details``.

        Since anything else closes it, it began after as many characters and calls as it ends.
        """
        entry: JsonObject = {}
        if signature.redacted:
            entry["type"] = _ENCRYPTED
            entry["data"] = tag_signature(signature)
        else:
            entry["type"] = _TEXT
            entry["text"] = text = "".join(self._texts)
            entry["signature"] = tag_signature(signature, text)
        self.close()
        entry["index"] = self._count
        self._count += 1
        if offset:
            entry["offset"] = offset
        if calls:
            entry["calls"] = calls
        return entry


def parse_extra_content(fields: Fields) -> Signature | None:
    """Take ``extra_content.google.thought_signature``, Google's own place for a signature in chat."""
    extra = fields.nested("extra_content")
    google = extra.nested("google") if extra is not None else None
    signed = google.text("thought_signature") if google is not None else None
    if not signed:
        return None
    signature = untag_signature(signed, Family.OPENAI)
    if signature is None or signature.family is Family.OPENAI:  # not the gateway's own: nobody may get it
        fields.ledger.leave(fields.path("extra_content"))
        return None
    fields.note(Feature.THINKING, "extra_content")
    return signature


def parse_host_extra_content(extra: Any) -> Signature | None:  # Any: JSON of whatever type
    """Return the signature that Google's endpoint for OpenAI's clients gives with a call or a message."""
    google = extra.get("google") if type(extra) is dict else None
    value = google.get("thought_signature") if type(google) is dict else None
    return Signature(Family.OPENAI, value) if type(value) is str and value else None


def render_signature(signature: Signature | None) -> str | None:
    """Return the tagged value of a signature for a client; ``None`` where there is none."""
    return None if signature is None else tag_signature(signature)


def render_extra_content(signature: str) -> JsonObject:
    """Return Google's place for a signature in chat, with this value in it."""
    return {"google": {"thought_signature": signature}}


def find_tagged(document: JsonDocument) -> list[Edit]:
    """Return the edits that remove tagged reasoning, and ``extra_content`` with a tagged signature.

    "content" is required but for calls (Chat reference, assistant message).  A message goes when all that is
    left beside its role is null or an empty array; an empty text is left alone.
    """
    edits: list[Edit] = []
    gone: list[JsonNode] = []
    for message in marked_elements(document, document.members(document.root), "messages"):
        members = document.members(message)
        cut = _tagged_members(document, members)
        if cut and _says_nothing(document, members, cut):
            gone.append(message)
            continue
        edits += remove_all([place for name in cut for place in members[name]])
        for call in marked_elements(document, members, "tool_calls"):
            of_call = document.members(call)
            if _has_tagged_extra(document, of_call):
                edits += remove_all(of_call["extra_content"])
    return edits + remove_all(gone)


def _tagged_members(document: JsonDocument, members: Members) -> set[str]:
    """Return the names of the members of a message that are the gateway's own."""
    cut: set[str] = set()
    if any(
        is_tagged(string_of(document, document.members(detail), name) or "")
        for detail in marked_elements(document, members, "reasoning_details")
        for name in ("signature", "data")
    ):
        cut |= _REASONING & members.keys()
    if _has_tagged_extra(document, members):
        cut.add("extra_content")
    return cut


def _has_tagged_extra(document: JsonDocument, members: Members) -> bool:
    """Whether ``extra_content.google.thought_signature`` is tagged (Google's own place for it in Chat)."""
    google = members_of(document, members_of(document, members, "extra_content"), "google")
    return is_tagged(string_of(document, google, "thought_signature") or "")


def _says_nothing(document: JsonDocument, members: Members, cut: set[str]) -> bool:
    return all(_is_empty(document.raw(members[name][-1])) for name in members.keys() - cut - {"role", "name"})


def _is_empty(spelled: bytes) -> bool:
    return spelled == b"null" or (spelled[:1] == b"[" and not spelled[1:-1].strip())
