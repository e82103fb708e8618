"""Requests of generateContent, read and written."""

from __future__ import annotations

import json
from typing import Any, Final

from mgw.canonical.conversation import Conversation
from mgw.dialects.dialect import Rendered, RenderOptions
from mgw.dialects.gemini import PROVIDER
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family, Kind

OLD: Final = ModelRow("*", Family.GEMINI, "x", budget=(1, 24_576), off=True, max_output=1000)
Json = dict[str, Any]


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def render(conversation: Conversation, row: ModelRow = OLD, model: str = "gemini-2.5-flash") -> Rendered:
    return PROVIDER.text.render_request(conversation, RenderOptions(model, Kind.GEMINI, row))


def body_of(conversation: Conversation, row: ModelRow = OLD) -> Json:
    found: Json = json.loads(render(conversation, row).body)
    return found
