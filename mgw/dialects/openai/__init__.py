"""OpenAI's wire.  Its three dialects differ in how they translate; refusals, meter and catalog are one."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.dialects.dialect import Codec
from mgw.dialects.openai import embedding, speech
from mgw.dialects.openai.catalog import LISTER, render_entry, render_list
from mgw.dialects.openai.errors import error_body, parse_error, render_error
from mgw.dialects.openai.meter import meter
from mgw.dialects.openai.reader import ChatStreamReader
from mgw.dialects.openai.render import render_request
from mgw.dialects.openai.reply import parse_reply, render_reply
from mgw.dialects.openai.request import parse_request
from mgw.dialects.openai.writer import SIGN_OF_LIFE, ChatStreamWriter
from mgw.dialects.translator import EmbeddingAsker, Translator
from mgw.vocabulary import Dialect

TRANSLATOR: Final = Translator(
    parse_request,
    render_request,
    parse_reply,
    render_reply,
    ChatStreamReader,
    ChatStreamWriter,
    parse_error,
    render_error,
    embedding_asker=EmbeddingAsker(embedding.parse_request, embedding.render_reply),
    speech_asker=speech.ASKER,
    speech_giver=speech.GIVER,
)
"""Chat completions and speech, both ways, and the client's side of embeddings."""

CHAT: Final = Codec(
    Dialect.OPENAI_CHAT, error_body, meter, render_list, render_entry, LISTER, SIGN_OF_LIFE, TRANSLATOR
)
"""Chat completions and completions."""
RESPONSES: Final = replace(CHAT, dialect=Dialect.OPENAI_RESPONSES, translator=None)
"""Responses."""
OTHERS: Final = replace(RESPONSES, dialect=Dialect.OPENAI)
"""Everything else: embeddings, media, platform."""
