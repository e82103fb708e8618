"""Anthropic's wire: the messages API."""

from __future__ import annotations

from typing import Final

from mgw.dialects.anthropic import speech
from mgw.dialects.anthropic.catalog import LISTER, render_entry, render_list
from mgw.dialects.anthropic.count import COUNTING
from mgw.dialects.anthropic.errors import error_body, parse_error, refuses_thoughts, render_error
from mgw.dialects.anthropic.frames import PING
from mgw.dialects.anthropic.meter import meter
from mgw.dialects.anthropic.reader import Reader
from mgw.dialects.anthropic.render import render_request
from mgw.dialects.anthropic.reply import parse_reply, render_reply
from mgw.dialects.anthropic.request import parse_request
from mgw.dialects.anthropic.writer import Writer
from mgw.dialects.dialect import Codec
from mgw.dialects.translator import Translator
from mgw.vocabulary import Dialect

TRANSLATOR: Final = Translator(
    parse_request,
    render_request,
    parse_reply,
    render_reply,
    Reader,
    Writer,
    parse_error,
    render_error,
    refuses_thoughts,
    COUNTING,
    speech_asker=speech.ASKER,
)
"""Its side of a translation."""

CODEC: Final = Codec(
    Dialect.ANTHROPIC, error_body, meter, render_list, render_entry, LISTER, PING, TRANSLATOR
)
"""What this dialect brings."""
