"""How many tokens a request may come to, from its body alone: what it holds of limits before it is sent.

The bound is rough and cheap.  Text has about a token for each four bytes of JSON.  A long run of base64 is
media, which models do not count by its bytes.  The answer may have as many tokens as the request allows,
or a usual number where it says nothing or more than that.

The body is gone through twice, in C: for runs, and for the few members of JSON that state how much is asked
for.  Both take time in proportion to the body, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import UNSET, MsgspecError, Raw, UnsetType, defstruct
from msgspec.json import Decoder

from mgw.canonical.answer_places import AnswerPlaces
from mgw.nouns.errors import GatewayError
from mgw.tokens.media_runs import BYTES_A_TOKEN, TOKENS_A_RUN, find_runs
from mgw.wire.json_document import neutralize_surrogates

_NEUTRALIZED_BYTES: Final = 64 * 1024
"""A longer body with half of a surrogate pair alone holds the usual: to change it takes ten times as long."""
_MOST_ANSWERS: Final = 128
"""No API gives more answers to one request."""
_MOST_DIGITS: Final = 100
_VALUES: Final = Decoder()
_UNREADABLE: Final = (MsgspecError, GatewayError, RecursionError)


def input_hold(body: bytes) -> int:
    """Return how many tokens a request of this body holds for its input."""
    runs = [end - start for start, end in find_runs(body)]
    return input_hold_of_size(len(body) - sum(runs)) + TOKENS_A_RUN * len(runs)


def input_hold_of_size(size: int) -> int:
    """Return the same for so many bytes without media, which is the most that a body of any content holds."""
    return -(-size // BYTES_A_TOKEN)


def output_hold(body: bytes, places: AnswerPlaces, usual: int) -> int:
    """Return how many tokens a request holds for its output.

    Of several statements of the same, the largest counts: some provider may read each of them.

    :param usual: the most of one answer that is held, and what is held where the request states no limit.
    """
    return output_asked(body, places, usual)[0]


def output_asked(body: bytes, places: AnswerPlaces, usual: int) -> tuple[int, bool]:
    """Return the same, and what :func:`runs_in_background` does, by one look."""
    stated, in_background = _stated(body, places)
    limit = max((value for name in places.limits for value in stated.get(name, ())), default=usual)
    return min(limit, usual) * _answers(stated, places), in_background


def runs_in_background(body: bytes, places: AnswerPlaces) -> bool:
    """Return whether a request asks for an answer that goes on once the request has ended."""
    if places.background is None:
        return False
    return any(map(_is_true, _raws(body, (places.background,))))


def answers_asked(body: bytes, places: AnswerPlaces) -> int:
    """Return how many answers, such as images, a request asks for; 1 where it does not say so in JSON."""
    return _answers(_stated(body, places)[0], places)


def answers_in_part(value: str) -> int:
    """Return the same for the part of a form that states it."""
    try:
        answers = int(value) if len(value) <= _MOST_DIGITS else _MOST_ANSWERS
    except ValueError:  # the provider's to refuse
        return 1
    return min(max(answers, 1), _MOST_ANSWERS)


def _answers(stated: Mapping[str, tuple[int, ...]], places: AnswerPlaces) -> int:
    answers = max((value for name in places.answers for value in stated.get(name, ())), default=1)
    return min(max(answers, 1), _MOST_ANSWERS)


def _stated(body: bytes, places: AnswerPlaces) -> tuple[dict[str, tuple[int, ...]], bool]:
    """Return the numbers that a body states, by their names, and whether it asks to go on without it.

    There is nothing where it cannot be read.
    """
    names = (*places.limits, *places.answers)
    outer = places.objects or names
    beside = () if places.background is None else (places.background,)
    found = _raws(body, (*outer, *beside))
    in_background = any(map(_is_true, found[len(outer) :]))
    holders = [found[: len(outer)]]
    if places.objects:
        holders = [_raws(bytes(raw), names) for raw in holders[0] if raw is not UNSET]
    numbers: dict[str, tuple[int, ...]] = {}
    for holder in holders:
        for name, raw in zip(names, holder, strict=True):
            number = None if raw is UNSET else _number(raw)
            if number is not None:
                numbers[name] = (*numbers.get(name, ()), number)
    return numbers, in_background


def _is_true(raw: Raw | UnsetType) -> bool:
    return raw is not UNSET and len(memoryview(raw)) <= _MOST_DIGITS and bytes(raw) == b"true"


def _raws(body: bytes, names: tuple[str, ...]) -> Sequence[Raw | UnsetType]:
    """Return the values of some members of an object, as they stand there."""
    decode = _decoder(names)
    try:
        found = decode(body)
    except _UNREADABLE:
        if len(body) > _NEUTRALIZED_BYTES:
            return [UNSET] * len(names)
        try:
            found = decode(neutralize_surrogates(body))
        except _UNREADABLE:  # the provider's to refuse
            return [UNSET] * len(names)
    return [getattr(found, name) for name in names]


@lru_cache(maxsize=16)
def _decoder(names: tuple[str, ...]) -> Callable[[bytes], Any]:  # Any: its class is made here
    """Return what checks all of a body, and keeps only these members of it."""
    members = [(name, Raw | UnsetType, UNSET) for name in names]
    return Decoder(defstruct("Stated", members, gc=False)).decode


def _number(raw: Raw) -> int | None:
    """Return a number that is none below zero; Google's servers read a text of digits as one, too.

    What is longer than any number is not read: it may be an array of millions.
    """
    if len(memoryview(raw)) > _MOST_DIGITS:
        return None
    try:
        value = _VALUES.decode(raw)
        number = int(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1
    except (*_UNREADABLE, ValueError, OverflowError):
        return None
    return None if number < 0 else number
