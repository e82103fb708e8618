"""Thoughts in an assistant's message: ``reasoning_content`` and ``reasoning_details``.

Chat completions have no place for thoughts of their own.  Hosts say their text in ``reasoning_content`` or
``reasoning``, and OpenRouter what belongs to it in ``reasoning_details``.  There are two travels:

**Thoughts of another family, in the history of a chat client.**  ``reasoning_content`` is the text of all of
them, as it streams.  An entry of ``reasoning_details`` stands for each that is signed, with its whole text
and the tagged signature, so that a client which keeps only these loses nothing.  ``offset`` and ``calls`` say
after how many characters of ``content`` and after how many calls a thought began, where that is not at the
start.  All of it survives the accumulators of OpenAI's SDKs, which merge the entries of such a list by
``index``, and add up what comes twice.  A thought that its client altered does not fit the digest in its tag:
it is left out and reported.  (Entries of earlier times may say the ``length`` of their words in place of
``text``: these are what ``reasoning_content`` begins with.)

**Thoughts of a host of this wire, in the history of another family's client.**  They are of the family
OpenAI.  The value of the signature is empty, or the host's own entry of ``reasoning_details`` without its
words, and becomes that entry again.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import JsonObject, Signature, Thinking
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields
from mgw.dialects.signatures import is_altered, read_signature, tagged
from mgw.vocabulary import Family

UNSIGNED: Final = Signature(Family.OPENAI, "")
"""Beside the thoughts of hosts that sign nothing."""
ENCRYPTED: Final = "reasoning.encrypted"
TEXT: Final = "reasoning.text"

_WORDS_OF: Final = MappingProxyType({TEXT: "text", "reasoning.summary": "summary"})
_ENCODER: Final = Encoder()
_DECODER: Final = Decoder()


class Placed(Struct, frozen=True):
    """A thought of a message, and where in it it began."""

    thinking: Thinking
    offset: int = 0
    """Characters of ``content`` before it."""
    calls: int = 0
    """Calls before it."""


class Thoughts:
    """The thoughts of one choice on their way to a chat client, whole or in pieces."""

    __slots__ = ("_count", "_held", "held")

    def __init__(self) -> None:
        self.held = 0
        """Characters that are kept for later."""
        self._count = 0
        self._held: list[str] = []

    def add(self, text: str) -> None:
        """Take more words of a thought."""
        self._held.append(text)
        self.held += len(text)

    def close(self) -> None:
        """End a thought that is not signed."""
        self._held.clear()
        self.held = 0

    def sign(self, signature: Signature, offset: int, calls: int) -> JsonObject:
        """End a thought, and return its entry of ``reasoning_details``.

        Since anything else closes it, it began after as many characters and calls as it ends.
        """
        entry: JsonObject = {}
        if signature.redacted:
            entry["type"] = ENCRYPTED
            entry["data"] = tagged(signature)
        else:
            entry["type"] = TEXT
            entry["text"] = words = "".join(self._held)
            entry["signature"] = tagged(signature, words)
        self.close()
        entry["index"] = self._count
        self._count += 1
        if offset:
            entry["offset"] = offset
        if calls:
            entry["calls"] = calls
        return entry


def read_thoughts(message: Fields) -> list[Placed]:
    """Take the thoughts of a message in a client's history."""
    spellings = [message.text(key, Feature.THINKING) for key in ("reasoning_content", "reasoning")]
    told = spellings[0] or spellings[1] or ""
    details = message.objects("reasoning_details")
    if not details:
        return [Placed(Thinking(told, UNSIGNED))] if told else []
    message.note(Feature.THINKING, "reasoning_details")
    thoughts, whole = _whole([_detail(detail) for detail in details], told)
    if not whole:
        message.ledger.leave(message.path("reasoning_details"))
    return thoughts


class _Detail(Struct, frozen=True):
    words: str | None
    """``None``: they are the first of all that was told."""
    length: int
    """Of those; 0: all that is left."""
    signature: Signature | None
    sealed: str | None
    """What the signature was read from."""
    offset: int
    calls: int


def _detail(detail: Fields) -> _Detail:
    """Read an entry; a damaged tag leaves a thought that nobody may get."""
    kind = detail.text("type")
    redacted = kind == ENCRYPTED
    words = "" if redacted else detail.text("text")
    if words is None:
        words = detail.text("summary")
    sealed = detail.text("data" if redacted else "signature")
    signature = UNSIGNED if sealed is None else read_signature(sealed, Family.OPENAI, redacted=redacted)
    detail.skip("index", "id", "format")
    return _Detail(
        words, _count(detail, "length"), signature, sealed, _count(detail, "offset"), _count(detail, "calls")
    )


def _count(detail: Fields, key: str) -> int:
    return max(detail.integer(key) or 0, 0)


def _whole(details: list[_Detail], told: str) -> tuple[list[Placed], bool]:
    """Give the thought whose words are not beside it the first of all that was told.

    Words of which nothing knows the length were edited, so that the signature beside them holds no more.
    Returns the thoughts, and whether they are all that there are.
    """
    implied = next((detail for detail in details if detail.words is None), None)
    known = sum(len(detail.words or "") for detail in details)
    first = 0
    if implied is not None:
        first = implied.length or max(len(told) - known, 0)
    unsigned = len(told) - known - first
    thoughts: list[Placed] = []
    whole = True
    if unsigned > 0:
        thoughts.append(Placed(Thinking(told[first : first + unsigned], UNSIGNED)))
    for detail in details:
        words = detail.words
        if words is None:
            if detail is not implied or unsigned < 0 or not first:
                whole = False
                continue
            words = told[:first]
        signature = detail.signature
        if signature is None or (not signature.redacted and is_altered(detail.sealed or "", words)):
            whole = False
        else:
            thoughts.append(Placed(Thinking(words, signature), detail.offset, detail.calls))
    return thoughts, whole


def host_signature(entry: JsonObject) -> Signature:
    """Return the signature that keeps a host's entry of ``reasoning_details``."""
    words = _words_of(entry)
    rest = {key: value for key, value in entry.items() if key != words and value is not None}
    return Signature(Family.OPENAI, _ENCODER.encode(rest).decode(), entry.get("type") == ENCRYPTED)


def host_words(entry: JsonObject) -> str:
    """Return the words of a host's entry."""
    words = entry.get(_words_of(entry) or "")
    return words if type(words) is str else ""


def _words_of(entry: JsonObject) -> str | None:
    """Return the key of an entry's words; ``None``: it has none."""
    kind = entry.get("type")
    return _WORDS_OF.get(kind) if type(kind) is str else None


def host_fields(thoughts: Iterable[Thinking]) -> JsonObject:
    """Return the fields of a message in which a host gets its own thoughts back."""
    fields: JsonObject = {}
    details: list[JsonObject] = []
    told: list[str] = []
    for thought in thoughts:
        told.append(thought.text)
        entry = _host_entry(thought.signature.value) if thought.signature is not None else None
        if entry is not None:
            words = _words_of(entry)
            details.append({**entry, words: thought.text} if words else entry)
    if text := "".join(told):
        fields["reasoning_content"] = text
    if details:
        fields["reasoning_details"] = details
    return fields


def _host_entry(value: str) -> JsonObject | None:
    if not value:
        return None
    try:
        entry: Any = _DECODER.decode(value)  # Any: what a host once wrote, from a client's history
    except (DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return entry if type(entry) is dict and type(entry.get("type")) is str else None
