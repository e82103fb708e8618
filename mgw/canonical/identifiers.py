"""Ids of tool calls and names of tools: valid for the target, and stable in every turn.

An identifier that is legal in the target travels as it is.  Any other becomes ``call_`` and the first 24
hexadecimal digits of its BLAKE2b, or, where only nine letters and digits are legal, nine of its SHA-256: the
same one every time, and an own one for each, without anything being remembered (contract 8.15).  A name keeps
what can be read of it.
"""

from __future__ import annotations

import re
from hashlib import blake2b, sha256
from string import ascii_letters, digits
from typing import Final

ANTHROPIC_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What the messages API takes for ``tool_use.id``."""
CHAT_ID: Final = re.compile(r".{1,40}", re.DOTALL)
"""What chat completions take for ``tool_calls[].id``: any text of up to 40 characters."""
NINE_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")
"""What Mistral's chat templates take for the identifier of a call."""
ANTHROPIC_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""What the messages API takes for the name of a tool."""
CHAT_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What chat completions take for the name of a function."""
GEMINI_ID: Final = re.compile(r".+", re.DOTALL)
"""What generateContent takes for ``functionCall.id``."""
GEMINI_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
"""What generateContent takes for the name of a function (``FunctionDeclaration`` of google-genai 3.4)."""
_DIGEST_BYTES: Final = 12
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_BEGIN: Final = 48
_NAME_DIGITS: Final = 8
_ALPHABET: Final = ascii_letters + digits


def make_legal_id(call_id: str, legal: re.Pattern[str]) -> str:
    """Return ``call_id`` where all of it matches ``legal``, else the identifier that stands for it."""
    return call_id if legal.fullmatch(call_id) else _make_digest(call_id, legal)


def make_id(seed: str, number: int) -> str:
    """Return the identifier of the call ``number``, counted from 0, of what ``seed`` names."""
    return _digest(f"{seed}/{number}")


def make_unique_id(call_id: str, used: set[str], legal: re.Pattern[str]) -> str:
    """Return the legal form of ``call_id``, another one where ``used`` has it, and put it there."""
    found, number = make_legal_id(call_id, legal), len(used)  # not 0: many alike would try all
    while found in used:
        found = _make_digest(f"{call_id}/{number}", legal)
        number += 1
    used.add(found)
    return found


def make_legal_name(name: str, legal: re.Pattern[str]) -> str:
    """Return ``name`` where all of it matches ``legal``, else the name that stands for it.

    Gemini's names may hold dots and colons, which OpenAI and Anthropic refuse.  Whoever renames keeps a
    table for the answer.
    """
    if legal.fullmatch(name):
        return name
    suffix = _digest(name)[-_NAME_DIGITS:]
    found = f"{_ILLEGAL.sub('_', name[:_NAME_BEGIN])}_{suffix}"
    return found if legal.fullmatch(found) else f"_{found}"  # Gemini's begin with no digit


def _make_digest(text: str, legal: re.Pattern[str]) -> str:
    return _nine_characters(text) if legal is NINE_ID else _digest(text)


def _digest(text: str) -> str:
    return "call_" + blake2b(_encode(text), digest_size=_DIGEST_BYTES).hexdigest()


def _nine_characters(text: str) -> str:
    number = int.from_bytes(sha256(_encode(text)).digest())
    found = ""
    for _ in range(9):
        number, place = divmod(number, len(_ALPHABET))
        found += _ALPHABET[place]
    return found


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # JSON may hold lone surrogates
