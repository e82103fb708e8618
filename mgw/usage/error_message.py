"""A provider's own reason, as an event and the process log may show it.

What a provider says may repeat anything that it was sent, and be of any length.  So credentials are taken
out, those that are known by their value and others by what they look like; what does not print, or turns the
direction of a text, is escaped; and no more than the beginning is kept.

Source: contract 7.14.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from unicodedata import category

from mgw.secret import MIN_HIDDEN, REDACTED, Secret, redact_patterns, redact_secrets
from mgw.usage.event import ELLIPSIS

MAX_CHARACTERS: Final = 300
"""How much of a message is shown, before the ellipsis that says that there was more."""
_ESCAPED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of Unicode: control and format characters, surrogates, private ones, separators of lines."""


def format_error_message(text: str, secrets: Iterable[Secret]) -> str | None:
    """Return the beginning of a provider's message, safe to show; ``None`` where it says nothing.

    :param text: the message as the dialect's reader found it.
    :param secrets: what it must not repeat, wherever it stands in it.
    """
    found = list(secrets)
    text = redact_secrets(text, found)  # first: credentials that are cut look like none
    for secret in found:
        value = secret.reveal()
        if len(value) >= MIN_HIDDEN:
            text = text.replace(value, REDACTED)
    return _cut(redact_patterns(text).strip())


def _cut(text: str) -> str | None:
    """Return so much of a text as fits, escaped; an escape is not cut."""
    shown: list[str] = []
    room = MAX_CHARACTERS
    for character in text:
        escaped = _escape(character)
        room -= len(escaped)
        if room < 0:
            shown.append(ELLIPSIS)
            break
        shown.append(escaped)
    return "".join(shown) or None


def _escape(character: str) -> str:
    if character.isprintable() or category(character) not in _ESCAPED:
        return character
    return character.encode("unicode_escape").decode()
