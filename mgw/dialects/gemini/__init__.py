"""The Gemini API: generateContent and related calls."""

from __future__ import annotations

import re
from typing import Final

from mgw.canonical.answer_places import AnswerPlaces
from mgw.dialects.dialect import (
    ClientOperation,
    ClientSide,
    Dialect,
    ProviderOperation,
    ProviderSide,
    SessionMessages,
)
from mgw.dialects.gemini import count, embedding, speech
from mgw.dialects.gemini.catalog import LISTER, render_entry, render_list
from mgw.dialects.gemini.errors import parse_error, render_error, render_refusal
from mgw.dialects.gemini.reply import parse_reply, render_reply
from mgw.dialects.gemini.request import parse_request, render_request
from mgw.dialects.gemini.stream_events import STREAM_EVENTS
from mgw.dialects.gemini.stream_reader import ContentStreamReader
from mgw.dialects.gemini.stream_writer import KEEPALIVE, ContentStreamWriter
from mgw.dialects.gemini.thoughts import find_tagged
from mgw.dialects.gemini.usage import meter, read_usage, update_session_usage
from mgw.dialects.hosted_calls import HostedCalls
from mgw.dialects.speech import GEMINI_VOICES
from mgw.nouns.vocabulary import DialectName

CLIENT: Final = ClientSide(
    text=ClientOperation(parse_request, render_reply),
    stream_writer=ContentStreamWriter,
    render_error=render_error,
    count=count.CLIENT,
    speech=speech.CLIENT,
)
"""generateContent, countTokens and speech."""

PROVIDER: Final = ProviderSide(
    DialectName.GEMINI,
    text=ProviderOperation(render_request, parse_reply),
    stream_reader=ContentStreamReader,
    parse_error=parse_error,
    count=count.PROVIDER,
    embedding=embedding.PROVIDER,
    speech=speech.PROVIDER,
    voices=GEMINI_VOICES,
)
"""The same, and embeddings."""

_MODEL_PLACES: Final = (
    ("setup", "model"),
    ("model",),
    ("interaction", "model"),
    ("events", None, "model"),
    ("events", None, "interaction", "model"),
)
"""The models in the messages of Gemini Live, and of interactions over a WebSocket."""
_CODE: Final = re.compile(
    rb'"executable_?[cC]ode"[ \t\r\n]*:[ \t\r\n]*\{[^{}]*?"code"[ \t\r\n]*:[ \t\r\n]*"((?:[^"\\]|\\.)*+)'
)
"""Each part with code occurs once in a stream, whose lines need not be events."""
DIALECT: Final = Dialect(
    DialectName.GEMINI,
    render_refusal,
    meter,
    read_usage,
    render_list,
    render_entry,
    LISTER,
    KEEPALIVE,
    STREAM_EVENTS,
    CLIENT,
    PROVIDER,
    SessionMessages(b'"usage', update_session_usage, _MODEL_PLACES, first_only=True),
    find_tagged,
    answer_places=AnswerPlaces(
        ("maxOutputTokens", "max_output_tokens"),
        ("candidateCount", "candidate_count"),
        ("generationConfig", "generation_config"),
    ),
    image_places=AnswerPlaces(answers=("sampleCount", "sample_count"), objects=("parameters",)),
    hosted_calls=HostedCalls(strings=_CODE),
)
"""What this dialect brings."""
