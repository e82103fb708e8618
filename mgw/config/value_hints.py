"""Hints for a value of the wrong type, if its text shows what was meant.

Only numbers are repeated: any other text may be a key in the wrong place.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

_BOOLEANS: Final = frozenset({"true", "false", "yes", "no", "on", "off"})
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,9})?")
_GROUPED: Final = re.compile(r"[0-9]{1,3}(?:[,_' ][0-9]{3})+")
_PRICE: Final = re.compile(
    r"(?:US)?\$ ?([0-9]{1,7}(?:\.[0-9]{1,9})?)|([0-9]{1,7}(?:\.[0-9]{1,9})?) ?(?:\$|USD)"
)
_WITH_UNIT: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([A-Za-z]{1,7})")
_SECONDS: Final = MappingProxyType(
    {
        **dict.fromkeys(("ms", "millis"), 0.001),
        **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
        **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
        **dict.fromkeys(("h", "hr", "hour", "hours"), 3600),
        **dict.fromkeys(("d", "day", "days"), 86400),
    }
)
_BYTES: Final = MappingProxyType(
    {
        "b": 1,
        **{unit + end: 1024**power for power, unit in enumerate("kmg", 1) for end in ("", "b", "ib")},
    }
)
_THOUSANDS: Final = MappingProxyType({"k": 1000, "K": 1000, "M": 1_000_000})
"""What people write behind counts and amounts of money; a small ``m`` may mean other things."""
_EACH: Final = MappingProxyType({"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400})
"""How many seconds a setting means with 1, by the word in what it expects."""
_IS_COUNT: Final = re.compile("whole number above 0|US dollars")
_CURLY: Final = frozenset("\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb")
_NAME_BEFORE: Final = re.compile(r"([A-Za-z0-9_.-]{1,60})(:|\s*=)")


def value_hint(text: str, expected: str, *, quoted: bool) -> str:
    """Return what to write in place of a string, in words to follow the message; empty: nobody knows.

    :param text: what the file says.
    :param expected: the words of the message for what was expected.
    :param quoted: whether there are quotes around it in the file.
    """
    if text[:1] in _CURLY or text[-1:] in _CURLY:
        return " (typographic quotes: write \" or ')"
    if "true or false" in expected and quoted and text.lower() in _BOOLEANS:
        return " (remove the quotes)"
    if "number" not in expected and "price" not in expected:
        return ""
    if _NUMBER.fullmatch(text):
        return " (remove the quotes)" if quoted else ""
    number = _meant(text, expected)
    return "" if number is None else f" (write {number})"


def _meant(text: str, expected: str) -> str | None:
    if _GROUPED.fullmatch(text):
        return re.sub(r"[^0-9]", "", text)
    price = _PRICE.fullmatch(text)
    if price is not None:
        return price[1] or price[2]
    measure = _WITH_UNIT.fullmatch(text)
    if measure is None:
        return None
    amount, unit = float(measure[1]), measure[2].lower()
    if "bytes" in expected:
        return _number_text(amount * _BYTES[unit]) if unit in _BYTES else None
    for word, seconds in _EACH.items():
        if word in expected and unit in _SECONDS:
            return _number_text(amount * _SECONDS[unit] / seconds)
    if _IS_COUNT.search(expected) and measure[2] in _THOUSANDS:
        return _number_text(amount * _THOUSANDS[measure[2]])
    return None


def _number_text(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:.6g}"


def mapping_hint(text: str, known: tuple[str, ...], *, takes_names: bool) -> str:
    """Return the same for a string without quotes in place of a mapping: its colon may lack the space.

    :param known: the keys of the mapping, where they are the names of settings.
    :param takes_names: whether its keys are names that somebody chose.
    """
    before = _NAME_BEFORE.match(text)
    if before is None or "://" in text[: before.end() + 2]:
        return ""
    name, mark = before[1], before[2].strip()
    if name in known:
        return (
            f' (write "{name}: " in place of "{name} =")'
            if mark == "="
            else f' (put a space after "{name}:")'
        )
    return " (put a space after the colon)" if takes_names and mark == ":" else ""


def list_hint(text: str) -> str:
    """Return the same for a string without quotes in place of a list: its hyphen may lack the space."""
    return ' (put a space after "-")' if text.startswith("-") and text[1:2].isalnum() else ""
