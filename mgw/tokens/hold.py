"""How many tokens a request may come to, from its body alone: what it holds of limits before it is sent.

The bound is rough and cheap.  Text has about a token for each four bytes of JSON.  A long run of base64 is
media, which models do not count by its bytes.  The answer may have as many tokens as the request allows,
or a usual number where it says nothing or more than that.

The body is gone through twice, in C: for runs, and for the few members of JSON that state how much is asked
for.  Both take time in proportion to the body, whatever it holds.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec import UNSET, MsgspecError, Raw, Struct, UnsetType
from msgspec.json import Decoder

from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import DialectName
from mgw.wire.json_document import neutralize_surrogates

RUN_BYTES: Final = 1024
"""From this length on, a run of the characters of base64 is media."""
TOKENS_A_RUN: Final = 1000
_BYTES_A_TOKEN: Final = 4
_MOST_ANSWERS: Final = 128
"""No API gives more answers to one request."""
_BASE64: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_=-")
_OTHER: Final = b"\x01"
_MARKS: Final = bytes([0 if byte in _BASE64 else 1 for byte in range(256)])
"""What stands for each byte: 0 for those of base64, 1 for the others."""

Member = Raw | UnsetType


class _Body(Struct, gc=False):
    """What a body may state at the top."""

    max_tokens: Member = UNSET
    max_completion_tokens: Member = UNSET
    max_output_tokens: Member = UNSET
    n: Member = UNSET
    generationConfig: Member = UNSET
    generation_config: Member = UNSET
    parameters: Member = UNSET


class _Config(Struct, gc=False):
    """What Gemini's generation config and the parameters of its images may state."""

    maxOutputTokens: Member = UNSET
    max_output_tokens: Member = UNSET
    candidateCount: Member = UNSET
    candidate_count: Member = UNSET
    sampleCount: Member = UNSET
    sample_count: Member = UNSET


class _Places(Struct, frozen=True):
    """Where requests of a dialect state how long answers may be, and how many there are to be."""

    limits: tuple[str, ...]
    answers: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    """The objects in which both stand; empty: they stand at the top."""


_OF_CHAT: Final = _Places(("max_completion_tokens", "max_tokens"), ("n",))
_IMAGES: Final = _Places((), ("sampleCount", "sample_count"), ("parameters",))
_PLACES: Final = MappingProxyType(
    {
        DialectName.OPENAI_CHAT: _OF_CHAT,
        DialectName.OPENAI: _OF_CHAT,
        DialectName.OPENAI_RESPONSES: _Places(("max_output_tokens",)),
        DialectName.ANTHROPIC: _Places(("max_tokens",)),
        DialectName.GEMINI: _Places(
            ("maxOutputTokens", "max_output_tokens"),
            ("candidateCount", "candidate_count"),
            ("generationConfig", "generation_config"),
        ),
    }
)
_BODIES: Final = Decoder(_Body)
_CONFIGS: Final = Decoder(_Config)
_VALUES: Final = Decoder()
_UNREADABLE: Final = (MsgspecError, GatewayError, RecursionError)


def input_hold(body: bytes) -> int:
    """Return how many tokens a request of this body holds for its input."""
    runs, media_bytes = _media(body)
    return input_hold_of_size(len(body) - media_bytes) + TOKENS_A_RUN * runs


def input_hold_of_size(size: int) -> int:
    """Return the same for so many bytes without media, which is the most that a body of any content holds."""
    return -(-size // _BYTES_A_TOKEN)


def output_hold(body: bytes, dialect: DialectName, usual: int) -> int:
    """Return how many tokens a request holds for its output.

    Of several statements of the same, the largest counts: some provider may read each of them.

    :param usual: the most of one answer that is held, and what is held where the request states no limit.
    """
    places = _PLACES[dialect]
    stated = _stated(body, places)
    limit = max((value for name in places.limits for value in stated.get(name, ())), default=usual)
    answers = max((value for name in places.answers for value in stated.get(name, ())), default=1)
    return min(limit, usual) * min(max(answers, 1), _MOST_ANSWERS)


def images_asked(body: bytes, dialect: DialectName) -> int:
    """Return how many images a request asks for; 1 where it does not say so in JSON."""
    places = _IMAGES if dialect is DialectName.GEMINI else _OF_CHAT
    numbers = [number for name in places.answers for number in _stated(body, places).get(name, ())]
    return min(max(numbers, default=1) or 1, _MOST_ANSWERS)


def _media(body: bytes) -> tuple[int, int]:
    """Return how many runs of base64 a body has, and their bytes.

    A window of a run's length ends a step further behind the last byte of it that is no base64.  Two steps
    together go at least a window ahead.
    """
    marks = body.translate(_MARKS)
    runs = media_bytes = start = 0
    size = len(marks)
    while start + RUN_BYTES <= size:
        last = marks.rfind(_OTHER, start, start + RUN_BYTES)
        if last >= 0:
            start = last + 1
            continue
        end = marks.find(_OTHER, start + RUN_BYTES)
        if end < 0:
            end = size
        runs, media_bytes, start = runs + 1, media_bytes + end - start, end + 1
    return runs, media_bytes


def _stated(body: bytes, places: _Places) -> dict[str, tuple[int, ...]]:
    """Return the numbers that a body states, by their names; nothing where it cannot be read."""
    try:
        found = _BODIES.decode(body)
    except _UNREADABLE:
        try:
            found = _BODIES.decode(neutralize_surrogates(body))
        except _UNREADABLE:  # the provider's to refuse
            return {}
    holders: list[_Body | _Config] = [found]
    if places.configs:
        holders = [config for name in places.configs if (config := _config(getattr(found, name)))]
    numbers: dict[str, tuple[int, ...]] = {}
    for holder in holders:
        for name in (*places.limits, *places.answers):
            number = _number(getattr(holder, name))
            if number is not None:
                numbers[name] = (*numbers.get(name, ()), number)
    return numbers


def _config(raw: Member) -> _Config | None:
    if raw is UNSET:
        return None
    try:
        return _CONFIGS.decode(raw)
    except _UNREADABLE:
        return None


def _number(raw: Member) -> int | None:
    """Return a number that is none below zero; Google's servers read a text of digits as one, too."""
    if raw is UNSET:
        return None
    try:
        value = _VALUES.decode(raw)
        number = int(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1
    except (*_UNREADABLE, ValueError, OverflowError):
        return None
    return None if number < 0 else number
