"""Reasoning items of OpenAI's Responses as signed thoughts, both ways (contract 11.9).

OpenAI keeps nothing of a request that says ``store: false``, so what its models thought comes back with the
next request, encrypted.  The signature of such a thought is ``ID:ENCRYPTED_CONTENT``, which is all that is
needed to write the item again: the words that a client reads are a summary, which no model reads.  Without a
legal ``ID`` nothing stands before the colon, and a value without a colon is all content.
"""

from __future__ import annotations

import re
from typing import Final

from mgw.canonical.conversation import JsonObject, Signature
from mgw.dialects.responses.encrypted_content import UNSIGNED
from mgw.nouns.vocabulary import Family

_SEPARATOR: Final = ":"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def sign_thought(item_id: object, encrypted_content: object, *, has_words: bool) -> Signature | None:
    """Return the signature of an item's thought; ``None``: it has neither words nor a signature.

    A thought that nobody can read is all signature.
    """
    if type(encrypted_content) is not str or not encrypted_content:
        return UNSIGNED if has_words else None
    known = item_id if type(item_id) is str and _ID.fullmatch(item_id) else ""
    return Signature(Family.OPENAI, f"{known}{_SEPARATOR}{encrypted_content}", redacted=not has_words)


def render_thought(signature: Signature | None) -> JsonObject | None:
    """Return the item of a thought; ``None``: it is none that OpenAI encrypted.

    Hosts that speak chat sign with a JSON object, which has colons, too.
    """
    if signature is None or signature.family is not Family.OPENAI:
        return None
    item_id, separator, content = signature.value.partition(_SEPARATOR)
    if not separator:
        item_id, content = "", item_id
    if not content or (item_id and not _ID.fullmatch(item_id)):
        return None
    item: JsonObject = {"type": "reasoning", "summary": [], "encrypted_content": content}
    return {**item, "id": item_id} if item_id else item
