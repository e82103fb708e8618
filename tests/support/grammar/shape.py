"""Looking into JSON that was found, and saying where it is wrong.

A checker raises :class:`AssertionError` with the place and the broken rule; it guesses and repairs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]  # Any: JSON as it was found


def require(holds: object, where: str, what: str) -> None:
    """Fail with ``what`` is wrong and ``where``, unless ``holds``."""
    if not holds:
        raise AssertionError(f"{where}: {what}")


def load(text: str | bytes, where: str) -> Any:  # Any: JSON as it was found
    """Return the JSON that ``text`` is."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise AssertionError(f"{where}: no JSON ({error}): {text[:200]!r}") from None


def an_object(value: object, where: str) -> Json:
    """Return ``value``, which must be an object."""
    if not isinstance(value, dict):
        raise AssertionError(f"{where}: must be an object, found {value!r:.80}")
    return value


def a_list(value: object, where: str) -> list[Any]:  # Any: JSON as it was found
    """Return ``value``, which must be a list."""
    if not isinstance(value, list):
        raise AssertionError(f"{where}: must be a list, found {value!r:.80}")
    return value


def a_text(value: object, where: str, *, empty: bool = True) -> str:
    """Return ``value``, which must be text; some of it, unless it may be ``empty``."""
    if not isinstance(value, str) or (not value and not empty):
        raise AssertionError(f"{where}: must be {'' if empty else 'some '}text, found {value!r:.80}")
    return value


def a_count(value: object, where: str) -> int:
    """Return ``value``, which must be a whole number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise AssertionError(f"{where}: must be a whole number from 0 on, found {value!r:.80}")
    return value


def one_of(value: object, known: Iterable[str], where: str) -> str:
    """Return ``value``, which must be one of the words."""
    if not isinstance(value, str) or value not in known:
        raise AssertionError(f"{where}: must be one of {', '.join(known)}, found {value!r:.80}")
    return value


def needs(value: Json, keys: Iterable[str], where: str) -> None:
    """Fail unless ``value`` has all of ``keys``."""
    for key in keys:
        require(key in value, where, f"{key} is missing")
