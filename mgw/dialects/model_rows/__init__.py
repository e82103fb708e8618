"""The shipped rows of all vendors' models, and what is assumed of a model that no row matches."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.dialects.model_rows import anthropic, gemini, openai

ROWS: Final = (*anthropic.ROWS, *openai.ROWS, *gemini.ROWS)
"""Every shipped row; within a family the first match counts."""

FALLBACKS: Final = MappingProxyType(
    {row.family: row for row in (anthropic.FALLBACK, openai.FALLBACK, gemini.FALLBACK)}
)
"""What is assumed of a model that no row matches."""
