"""Identifiers of responses and of their items.

They hold the gateway's name, so that a request for a stored response can be told from one of OpenAI's own,
and nothing is ever read back from them.  The beginnings are OpenAI's: it refuses others in later input.
"""

from __future__ import annotations

from hashlib import blake2b
from types import MappingProxyType
from typing import Final

RESPONSE_PREFIX: Final = "resp_mgw"
"""How the identifiers of translated responses begin."""
PREFIXES: Final = MappingProxyType(
    {
        "reasoning": "rs_mgw",
        "message": "msg_mgw",
        "function_call": "fc_mgw",
        "custom_tool_call": "ctc_mgw",
        "local_shell_call": "lsh_mgw",
        "shell_call": "sh_mgw",
        "apply_patch_call": "apc_mgw",
        "tool_search_call": "ts_mgw",
        "image_generation_call": "ig_mgw",
    }
)
"""How the identifiers of items begin, by the type of the item."""
_DIGEST_BYTES: Final = 16


def response_id(seed: str) -> str:
    """Return the identifier of the response to the request that ``seed`` names."""
    return RESPONSE_PREFIX + _digest(seed)


def item_id(kind: str, seed: str, number: int) -> str:
    """Return the identifier of an item of the type ``kind``, the ``number``-th of the response, from 0."""
    return PREFIXES[kind] + _digest(f"{seed}/{number}")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
