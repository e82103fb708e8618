"""Gemini's wire: generateContent and its neighbours."""

from __future__ import annotations

from typing import Final

from mgw.dialects.dialect import Codec
from mgw.dialects.gemini.catalog import LISTER, render_entry, render_list
from mgw.dialects.gemini.errors import error_body
from mgw.dialects.gemini.meter import meter
from mgw.dialects.gemini.translator import TRANSLATOR
from mgw.dialects.gemini.writer import SIGN_OF_LIFE
from mgw.vocabulary import Dialect

CODEC: Final = Codec(
    Dialect.GEMINI, error_body, meter, render_list, render_entry, LISTER, SIGN_OF_LIFE, TRANSLATOR
)
"""What this dialect brings."""
