"""Anthropic's wire: the messages API."""

from __future__ import annotations

from typing import Final

from mgw.dialects.anthropic.catalog import render_entry, render_list
from mgw.dialects.anthropic.errors import error_body
from mgw.dialects.anthropic.meter import meter
from mgw.dialects.dialect import Codec
from mgw.vocabulary import Dialect

CODEC: Final = Codec(Dialect.ANTHROPIC, error_body, meter, render_list, render_entry)
"""What this dialect brings."""
