"""Gemini's side of a translation."""

from __future__ import annotations

from typing import Final

from mgw.dialects.gemini import embedding, speech
from mgw.dialects.gemini.answer import render_reply
from mgw.dialects.gemini.count import COUNTING
from mgw.dialects.gemini.errors import parse_error, render_error
from mgw.dialects.gemini.reader import Reader
from mgw.dialects.gemini.render import render_request
from mgw.dialects.gemini.reply import parse_reply
from mgw.dialects.gemini.request import parse_request
from mgw.dialects.gemini.writer import Writer
from mgw.dialects.translator import Translator

TRANSLATOR: Final = Translator(
    parse_request,
    render_request,
    parse_reply,
    render_reply,
    Reader,
    Writer,
    parse_error,
    render_error,
    counting=COUNTING,
    embedding_giver=embedding.GIVER,
    speech_asker=speech.ASKER,
    speech_giver=speech.GIVER,
)
"""generateContent, countTokens, embeddings and speech."""
