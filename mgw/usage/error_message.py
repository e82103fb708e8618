"""A provider's own reason, as an event and the process log may show it.

What a provider says may repeat anything that it was sent, and be of any length.  So credentials are taken
out, those that are known by their value and others by what they look like; what does not print, or turns the
direction of a text, is escaped; and no more than the beginning is kept.

Source: contract 7.14.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator
from typing import Final
from unicodedata import category
from urllib.parse import unquote

from mgw.nouns.secret import MIN_HIDDEN, REDACTED, Secret, redact_patterns, redact_secrets
from mgw.usage.event import ELLIPSIS

MAX_CHARACTERS: Final = 300
"""How much of a message is shown, before the ellipsis that says that there was more."""
_WORD: Final = re.compile(rf"\S{{{MIN_HIDDEN},}}")
_ESCAPE: Final = re.compile(r"\\(?:u00|x)([0-9A-Fa-f]{2})")
_BASE64: Final = re.compile(r"[\w+/-]{10,}", re.ASCII)
_URL_SAFE: Final = str.maketrans("-_", "+/")
_ESCAPED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of Unicode: control and format characters, surrogates, private ones, separators of lines."""


def format_error_message(text: str, secrets: Iterable[Secret]) -> str | None:
    """Return the beginning of a provider's message, safe to show; ``None`` where it says nothing.

    :param text: the message as the dialect's reader found it.
    :param secrets: what it must not repeat, wherever it stands in it.
    """
    found = list(secrets)
    text = redact_secrets(text, found)  # first: credentials that are cut look like none
    values = {value for secret in found if len(value := secret.reveal()) >= MIN_HIDDEN}
    for value in values:
        text = text.replace(value, REDACTED)
    return _cut(redact_patterns(_without_encoded(text, values)).strip())


def _without_encoded(text: str, values: Collection[str]) -> str:
    """Return a text without words that spell a secret in another way."""
    readings = "\n".join(reading for word in set(_WORD.findall(text)) for reading in _readings(word))
    hidden = [value for value in values if value in readings]
    if not hidden:
        return text

    def shown(word: re.Match[str]) -> str:
        spelled = "\n".join(_readings(word[0]))
        return REDACTED if any(value in spelled for value in hidden) else word[0]

    return _WORD.sub(shown, text)


def _readings(word: str) -> Iterator[str]:
    """Yield what a word may stand for, where that is something else: some are encoded twice, or in base64."""
    once = unquote(word) if "%" in word else word
    decoded = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), once)
    decoded = unquote(decoded) if "%" in decoded else decoded
    if not decoded.isprintable():
        decoded = "".join(filter(str.isprintable, decoded))  # what is invisible may stand within a key
    if decoded != word:
        yield decoded
    for found in _BASE64.findall(decoded):
        data = found.translate(_URL_SAFE)
        for start in range(4):  # of what is encoded, the key may be a part
            yield _decode_base64(data[start:])


def _decode_base64(data: str) -> str:
    whole = data[:-1] if len(data) % 4 == 1 else data
    return b64decode(whole + "=" * (-len(whole) % 4)).decode("latin-1")


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
