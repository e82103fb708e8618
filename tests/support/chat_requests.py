"""Requests written for a provider that speaks chat completions."""

from __future__ import annotations

import json
from typing import Any

from mgw.canonical.conversation import Conversation, Media, MediaKind, Part, Role, Text, Tool, Turn
from mgw.canonical.features import Feature
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.models import Models
from mgw.dialects.openai.request import render_request
from mgw.nouns.vocabulary import Family, Kind
from tests.support.said import undelivered

Json = Any  # Any: JSON as it was found

ROW = Models(()).row("gpt-4.1", Family.OPENAI)
OPENAI = RenderOptions("gpt-4.1", Kind.OPENAI, ROW)
HOST = RenderOptions("host-model", Kind.OPENAI_COMPAT, ROW, max_tokens_field="max_tokens")

HI = Turn(Role.USER, (Text("hi"),))
PNG = Media(MediaKind.IMAGE, "image/png", "aWs=")
TOOL = Tool("f", "d", {"type": "object", "properties": {"b": {}, "a": {}}})


def rendered(conversation: Conversation, setting: RenderOptions = OPENAI) -> Json:
    return json.loads(render_request(conversation, setting).body)


def lost(conversation: Conversation, setting: RenderOptions = OPENAI) -> frozenset[Feature]:
    return undelivered(conversation, render_request(conversation, setting))


def said(*parts: Part) -> Turn:
    return Turn(Role.ASSISTANT, parts)


def asked(*parts: Part) -> Turn:
    return Turn(Role.USER, parts)
