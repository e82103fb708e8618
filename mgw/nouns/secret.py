"""A string that never prints, what may be revealed about it, and how texts are redacted.

A key is hidden by its value, as a whole word (contract 6.8): ``none`` in ``nonetheless`` is no key, and
neither is a word of fewer than :data:`MIN_HIDDEN` characters anywhere.  Texts spell a key in several ways: as
it is, percent-encoded, or with the escapes of JSON.  A key that nobody knows is found by what keys look like,
or by what stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from typing import Final, final
from urllib.parse import quote

KEY_HASH_DIGITS: Final = 12
DIGEST_PREFIX: Final = "sha256:"
"""Begins what a client is called whose key has no name; names hold no colon."""
MIN_HIDDEN: Final = 8
"""Characters from which on a key is hidden; a shorter one is a word, and texts are made of words."""

_BEFORE: Final = (
    r"(?:(?<![A-Za-z0-9_-])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"  # or an escape
)
_AFTER: Final = r"(?![A-Za-z0-9_-])"
REDACTED: Final = "[redacted]"
_CREDENTIAL_PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<![\w-])([\w-]*(?:key|token|secret|password)(?:=|%3d))[^\s&\"'<>;,)]+",  # of a query or a form
        r"(?<![\w-])((?:proxy-)?authorization[\"']*\s*[:,=]\s*b?[\"']?(?:[a-z]+ +)?)[^\s\"',;)]+",
        r"(?<![\w-])(x-(?:goog-)?api-key[\"']*\s*[:,=]\s*b?[\"']?)[^\s\"',;)]+",
        r"(?<!\w)(signature(?:=|%3d))[0-9a-f]{64}(?![0-9a-f])",  # SigV4
        r"(?<!\w)(bearer\s+)[\w.~+/=-]{8,}",
        r"(?<!\w)(token\s+)(?:(?=[a-z.~+/=_-]*\d)[\w.~+/=-]{8,}|[\w.~+/=-]{24,})",  # not "token limitation"
        r"(?<![\w-])()(?:sk-[\w-]{8,}|AIza[\w-]{10,}|ya29\.[\w.-]{10,})",
        r"(?<![\w-])()eyJ[\w-]{8,}+(?:\.[\w-]+\.[\w-]*|(?:\.[\w-]*+)?…)",  # a JWT, whole or cut
        r"(?<![\w-])()(?:(?:gsk_|xai-|pplx-|nvapi-|hf_)[\w-]{16,}|A(?:KIA|SIA)[A-Z0-9]{16})",
    )
)
"""The first group of each stays."""
CREDENTIAL_STARTS: Final = (
    r"(?i:sk-|aiza|ya29|eyj|gsk_|xai-|pplx-|nvapi-|hf_|a[ks]ia|3d"
    r"|(?:proxy-)?authorization|x-(?:goog-)?api-key)"
)
"""How such a text goes on behind a character that no word has, unless a blank or a ``=`` stands in it."""
_NEVER_ESCAPED: Final = re.compile(r"[A-Za-z0-9]+")
"""Characters that no encoding spells in another way."""


@final
class Secret:
    """A key, token or password, from the moment it is read to the header it is written to.

    Its ``repr``, ``str`` and format are empty of it, it has no ordering, and it does not pickle.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value; only for the header or form field that it is written to."""
        return self._value

    def matches(self, other: Secret) -> bool:
        """Compare in constant time."""
        return compare_digest(self._value.encode(), other._value.encode())

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.matches(other)

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled")


SIGNATURES: Final = Secret("Signature=")
"""Stands for each signature of SigV4 that a text repeats: every request has one of its own."""
_SIGNATURE: Final = (
    r"(?:(?<=Signature=)|(?<=Signature%3[Dd])|(?<=Signature\\u003[Dd]))[0-9a-f]{64}(?![0-9A-Fa-f])"
)


def key_hash(value: Secret | str) -> str:
    """Return the first 12 hex digits of SHA-256: how a credential is named in events (contract 3.14)."""
    text = value.reveal() if isinstance(value, Secret) else value
    return sha256(text.encode()).hexdigest()[:KEY_HASH_DIGITS]


def without(text: str, secrets: Iterable[Secret], instead: Callable[[str], str]) -> str:
    """Return the text with something else in the place of each secret that is long enough to be one.

    :param instead: makes what is written in its place of what stood there.
    """
    values = {value for secret in secrets if len(value := secret.reveal()) >= MIN_HIDDEN}
    found = [value for value in values if _longest_literal(value) in text]  # few of thousands
    for value in sorted(found, key=len, reverse=True):  # one may be the beginning of another
        if _longest_literal(value) in text:
            text = re.sub(_spelled(value), lambda found: instead(found[0]), text)
    return text


def redact_patterns(text: str) -> str:
    """Return the text without whatever looks like a credential."""
    for pattern in _CREDENTIAL_PATTERNS:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text


def redact_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """Return the text without these values, however it spells them."""
    return without(text, secrets, lambda _: REDACTED)


@lru_cache(maxsize=16_384)
def _longest_literal(value: str) -> str:
    """Return the longest part of a secret that all its spellings have: each log line is searched for it."""
    return max(_NEVER_ESCAPED.findall(value), key=len, default="")


def overwritten(data: bytes, secrets: Iterable[Secret]) -> bytes:
    """Return the bytes with a ``*`` for each byte of a secret; the same object where there is none."""
    text = data.decode("latin-1")
    clean = without(text, secrets, lambda found: "*" * len(found))
    return data if clean == text else clean.encode("latin-1")


def _spelled(value: str) -> str:
    """Return a pattern of all spellings of a secret that stands as a word of its own."""
    if value == SIGNATURES.reveal():
        return _SIGNATURE
    return _BEFORE + "".join(map(_spellings, value)) + _AFTER


def _spellings(character: str) -> str:
    if _NEVER_ESCAPED.fullmatch(character):
        return character
    escape = f"\\u{ord(character):04x}"
    ways = {character, escape, escape[:2] + escape[2:].upper(), f"\\{character}"}
    for encoding in ("utf-8", "latin-1"):
        encoded = quote(character, safe="", encoding=encoding, errors="replace")
        ways |= {encoded, encoded.lower(), character.encode(encoding, "replace").decode("latin-1")}
    return f"(?:{'|'.join(re.escape(way) for way in sorted(ways, key=len, reverse=True))})"
