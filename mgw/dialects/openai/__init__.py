"""OpenAI's wire.  Its three dialects differ in how they translate; refusals, meter and catalog are one."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.dialects.dialect import Codec
from mgw.dialects.openai.catalog import render_entry, render_list
from mgw.dialects.openai.errors import error_body
from mgw.dialects.openai.meter import meter
from mgw.vocabulary import Dialect

CHAT: Final = Codec(Dialect.OPENAI_CHAT, error_body, meter, render_list, render_entry)
"""Chat completions and completions."""
RESPONSES: Final = replace(CHAT, dialect=Dialect.OPENAI_RESPONSES)
"""Responses."""
OTHERS: Final = replace(CHAT, dialect=Dialect.OPENAI)
"""Everything else: embeddings, media, platform."""
