"""Providers of OpenAI's family as they are asked through Responses (contract 11.9)."""

from __future__ import annotations

import re
from typing import Final

from mgw.canonical.reply import UpstreamError
from mgw.dialects.dialect import ProviderOperation, ProviderSide
from mgw.dialects.openai.errors import parse_error
from mgw.dialects.responses.provider_reply import parse_reply
from mgw.dialects.responses.render import render_request
from mgw.dialects.responses.stream_reader import ResponsesStreamReader
from mgw.nouns.vocabulary import DialectName

_STATUSES: Final = frozenset({400, 404, 422})
_ABOUT_THOUGHTS: Final = re.compile(
    r"[Ee]ncrypted[ _]content|\brs_|'reasoning'|\breasoning items?\b|input\[\d+\]\.(?:summary|encrypted)"
)


def refuses_thoughts(error: UpstreamError) -> bool:
    """Whether a refusal is about reasoning items of earlier turns: stale ones, or those of somebody else.

    The API's words, as bug reports of clients quote them: "Item with id 'rs_…' not found", "The encrypted
    content … could not be verified" (``invalid_encrypted_content``), "Item 'rs_…' of type 'reasoning' was
    provided without its required following item", "Item 'fc_…' of type 'function_call' was provided without
    its required 'reasoning' item".
    """
    if error.status not in _STATUSES:
        return False
    return error.code == "invalid_encrypted_content" or _ABOUT_THOUGHTS.search(error.message) is not None


PROVIDER: Final = ProviderSide(
    DialectName.OPENAI_RESPONSES,
    text=ProviderOperation(render_request, parse_reply),
    stream_reader=ResponsesStreamReader,
    parse_error=parse_error,
    refuses_thoughts=refuses_thoughts,
)
"""Conversations."""
