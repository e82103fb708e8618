"""What a message may quote from a file: never anything that looks like a credential.

Operators put keys where none belongs: as the name of a provider, behind ``auth``, in an address.  A message
names the line, so that it need not repeat what stands there; it quotes what helps and is harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

MAX_SHOWN: Final = 60
HIDDEN: Final = "…"

_BEGINS_LIKE_A_KEY: Final = re.compile(
    r"(?:(?:sk|pk|rk|gsk|csk|xai|ghp|gho|glpat|hf|r8|pplx|nvapi|tgp|fw|jina|voyage)[-_]|bearer |basic |token "
    r"|AIza|ya29|eyJ|AKIA|ASIA|-----BEGIN).{8}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",  # a UUID (RFC 9562), as some vendors' keys are
    re.IGNORECASE | re.DOTALL,
)
_PIECE: Final = re.compile(r"[A-Za-z0-9]+")
_CHANGE: Final = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[a-z])(?=[A-Z])")
"""Where digits and letters meet, or a word begins within a word: in keys often, in names now and then."""
_LONGEST_WORD: Final = 24
_BETWEEN: Final = re.compile(r"[^/:=?#&@,\\]+")
_LONGEST_GUESS: Final = 100
_MOST_LISTED: Final = 20


def looks_like_a_key(text: str) -> bool:
    """Say whether a text may be a credential, or hold one: a known beginning, or a piece that is no word."""
    return _BEGINS_LIKE_A_KEY.search(text) is not None or any(map(_is_no_word, _PIECE.findall(text)))


def _is_no_word(piece: str) -> bool:
    """Tell ``7f3a91`` from ``a22b``, ``20250929`` and ``gpt``."""
    if len(piece) >= _LONGEST_WORD:
        return True
    changes = len(_CHANGE.findall(piece))
    return (changes >= 3 and len(piece) >= 6) or (changes >= 2 and len(piece) >= 12)


def pieces_like_keys(text: str) -> list[str]:
    """Return the pieces of an address, a path or an endpoint that may be keys."""
    return [piece for piece in _BETWEEN.findall(text) if looks_like_a_key(piece)]


def is_quotable(text: str) -> bool:
    """Say whether a text is short and harmless enough to stand in a message."""
    return len(text) <= MAX_SHOWN and not looks_like_a_key(text)


def shown(name: str) -> str:
    """Return a name that somebody chose; :data:`HIDDEN` where it may be a key."""
    return HIDDEN if looks_like_a_key(name) else name


def shown_model(model: str) -> str:
    """Return the id of a model without what begins like a key; ids of fine-tuned models hold random words."""
    return _BETWEEN.sub(lambda piece: HIDDEN if _BEGINS_LIKE_A_KEY.search(piece[0]) else piece[0], model)


def quote(text: str) -> str:
    """Quote a text for a message: one line, printable, not too long, and nothing that may be a key."""
    if looks_like_a_key(text):
        return "a value that may be a key"
    return repr(text) if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]!r}{HIDDEN}"


def listed(names: Iterable[str]) -> str:
    """Return names that somebody chose, without those that may be keys, and not too many."""
    harmless = [name for name in names if is_quotable(name)]
    more = f" and {len(harmless) - _MOST_LISTED} more" if len(harmless) > _MOST_LISTED else ""
    return ", ".join(harmless[:_MOST_LISTED]) + more


def redact(text: str) -> str:
    """Return an address, a path or an endpoint without the pieces that may be keys."""
    return _BETWEEN.sub(lambda piece: HIDDEN if looks_like_a_key(piece[0]) else piece[0], text)


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """Return ``, did you mean …?`` for the nearest known word, or nothing."""
    close = nearest_word(wrong, known)
    return f", did you mean {close}?" if close else ""


def nearest_word(wrong: str, known: Iterable[str]) -> str | None:
    """Return the nearest known word, if one is near."""
    close = get_close_matches(wrong[:_LONGEST_GUESS].lower(), list(known), n=1)
    return close[0] if close else None


def unknown_value(wrong: str, known: Iterable[str], expected: str, hint: str | None = None) -> str:
    """Say that a word is none of those that are expected.

    It is repeated only beside a word that it resembles, or a hint for this very word: else it may be a key.

    :param known: the words, in all their spellings.
    :param expected: the words as the message lists them.
    """
    if hint is not None:
        return f"unknown value {quote(wrong)}: {hint}"
    close = nearest_word(wrong, known)
    if close is None or looks_like_a_key(wrong):
        return f"unknown value; expected one of {expected}"
    return f"unknown value {quote(wrong)}, did you mean {close}? (expected one of {expected})"
