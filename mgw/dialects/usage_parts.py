"""Details of token counts that all dialects read: kinds of tokens, service tiers, and their sums.

What a host writes in such a member is not always what its vendor documents, so each is read by itself: one
that cannot be understood is unknown, and the counts beside it stay what they are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from msgspec import MsgspecError, Raw, Struct
from msgspec import field as member
from msgspec.json import Decoder

from mgw.canonical.reply import UsageParts

Count = int | None
_MOST: Final = 2**53
"""The largest number, which fits into every sink."""
_LONGEST_WORD: Final = 64
"""Bytes, as JSON; the name of a tier or of a place is shorter."""
_UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)
_WORD: Final = Decoder(str | None)


class _ModalityCount(Struct, frozen=True):
    """An entry of one of Google's breakdowns; Any: hosts write all kinds of types."""

    modality: Any = None
    token_count: Any = member(default=None, name="tokenCount")
    tokens: Any = None
    """The count, as interactions name it."""


_BREAKDOWN: Final = Decoder(list[_ModalityCount])


def read_count(value: Any) -> Count:  # Any: JSON of whatever type
    """Return a number of tokens; ``None`` where it is none that can be believed."""
    if type(value) is str and value.isascii() and value.isdigit() and len(value) < _LONGEST_WORD:
        value = int(value)  # proto3 JSON may write it so
    elif type(value) is float and value.is_integer():  # some hosts write 12.0
        value = int(value)
    return value if type(value) is int and 0 <= value <= _MOST else None


@lru_cache(maxsize=64)
def read_word(written: bytes) -> str | None:
    """Return a short text, such as the name of a service tier; ``None`` where the JSON is no such text."""
    if len(written) > _LONGEST_WORD:
        return None
    try:
        word = _WORD.decode(written)
    except _UNREADABLE:
        return None
    return word if word and word.isprintable() else None


@lru_cache(maxsize=64)
def parts_of_place(inference_geo: bytes) -> UsageParts | None:
    """Return the parts of most answers, which say nothing but where the model ran; the answers share them.

    :param inference_geo: as JSON.
    """
    place = read_word(inference_geo)
    return None if place is None else UsageParts(inference_geo=place)


def count_kinds(*breakdowns: Raw) -> tuple[Count, Count]:
    """Return how many tokens are audio and how many are images, by Google's breakdowns of one direction."""
    counts: dict[Any, int] = {}
    for breakdown in breakdowns:
        for entry in _read_breakdown(breakdown):
            count = read_count(entry.token_count if entry.tokens is None else entry.tokens)
            if count is not None and type(entry.modality) is str:
                kind = entry.modality.upper()
                counts[kind] = counts.get(kind, 0) + count
    return counts.get("AUDIO"), counts.get("IMAGE")


def _read_breakdown(breakdown: Raw) -> list[_ModalityCount]:
    try:
        return _BREAKDOWN.decode(breakdown) if breakdown else []
    except _UNREADABLE:
        return []


def parts_or_none(parts: UsageParts) -> UsageParts | None:
    """Return the parts; ``None`` where nothing is known of any."""
    return None if parts == _NOTHING else parts


def merge_parts(before: UsageParts | None, now: UsageParts | None) -> UsageParts | None:
    """Return ``now`` with what it does not know taken from ``before``."""
    if before is None or now is None:
        return before if now is None else now
    pairs = zip(_values(before), _values(now), strict=True)
    return UsageParts(*(old if new is None else new for old, new in pairs))


def add_parts(before: UsageParts | None, now: UsageParts | None) -> UsageParts | None:
    """Return the parts of different work together: numbers add up, and the last word counts."""
    if before is None or now is None:
        return before if now is None else now
    return UsageParts(*map(_add, _values(before), _values(now)))


def subtract_parts(before: UsageParts | None, now: UsageParts | None) -> UsageParts | None:
    """Return the parts that came since ``before``, of parts that add up."""
    if before is None or now is None:
        return now
    return UsageParts(*map(_subtract, _values(before), _values(now)))


def _subtract(before: Any, now: Any) -> Any:  # Any: as in _add
    return now - before if isinstance(now, int) and isinstance(before, int) else now


def _add(before: Any, now: Any) -> Any:  # Any: a count or a word, the same in both
    if before is None or now is None:
        return before if now is None else now
    return now if isinstance(now, str) else before + now


def _values(parts: UsageParts) -> tuple[Any, ...]:  # Any: counts and words
    return tuple([getattr(parts, name) for name in UsageParts.__struct_fields__])


_NOTHING: Final = UsageParts()
