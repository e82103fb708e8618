"""The OpenAI API.  Its three dialects differ in how they translate; errors, meter and catalog are shared."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.canonical.answer_places import AnswerPlaces
from mgw.dialects.dialect import (
    AskedUsage,
    ClientOperation,
    ClientSide,
    Dialect,
    ProviderOperation,
    ProviderSide,
    Rewriting,
    SessionMessages,
)
from mgw.dialects.openai import embedding, speech
from mgw.dialects.openai.catalog import LISTER, render_entry, render_list
from mgw.dialects.openai.errors import (
    find_session_error,
    parse_error,
    render_error,
    render_refusal,
)
from mgw.dialects.openai.extra_chunk import ExtraChunk, find_usage_edits
from mgw.dialects.openai.reply import parse_reply, render_reply
from mgw.dialects.openai.request import parse_request, prepend_system, render_request
from mgw.dialects.openai.stream_events import STREAM_EVENTS
from mgw.dialects.openai.stream_reader import ChatStreamReader
from mgw.dialects.openai.stream_writer import KEEPALIVE, ChatStreamWriter
from mgw.dialects.openai.thoughts import find_tagged
from mgw.dialects.openai.tools import TOOL_PLACES
from mgw.dialects.openai.usage import meter, read_usage, update_session_usage
from mgw.dialects.speech import OPENAI_VOICES
from mgw.nouns.vocabulary import DialectName

CLIENT: Final = ClientSide(
    text=ClientOperation(parse_request, render_reply),
    stream_writer=ChatStreamWriter,
    render_error=render_error,
    embedding=embedding.CLIENT,
    speech=speech.CLIENT,
)
"""Chat completions, embeddings and speech."""

PROVIDER: Final = ProviderSide(
    DialectName.OPENAI_CHAT,
    text=ProviderOperation(render_request, parse_reply),
    stream_reader=ChatStreamReader,
    parse_error=parse_error,
    speech=speech.PROVIDER,
    voices=OPENAI_VOICES,
)
"""Chat completions and speech."""

CHAT: Final = Dialect(
    DialectName.OPENAI_CHAT,
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
    find_tagged=find_tagged,
    rewriting=Rewriting(TOOL_PLACES, prepend_system),
    asked_usage=AskedUsage(find_usage_edits, ExtraChunk),
    answer_places=AnswerPlaces(("max_completion_tokens", "max_tokens"), ("n",)),
    image_places=AnswerPlaces(answers=("n",)),
)
"""Chat completions and completions."""
_RESPONSE_PLACES: Final = (
    ("model",),
    ("models", None),
    ("fallbacks", None),
    ("fallbacks", None, "model"),
    ("providerOptions", "gateway", "models", None),
    ("moderation", "model"),
    ("tools", None, "model"),
    ("tools", None, "svg", "model"),
)
"""The models of what asks for a response; hosts that speak Responses have lists of models."""
_MODEL_PLACES: Final = (
    *_RESPONSE_PLACES,
    *(("response", *place) for place in _RESPONSE_PLACES),
    ("session", "model"),
    ("session", "audio", "input", "transcription", "model"),
    ("session", "input_audio_transcription", "model"),
    ("session", "delegation", "responses", "model"),
    ("session", "delegation", "decisions", "model"),
)
"""The models in the messages of Responses, of the Realtime API and of the Live API."""
SESSION: Final = SessionMessages(
    b'"usage"',
    update_session_usage,
    _MODEL_PLACES,
    error_marker=b'"error"',
    find_error=find_session_error,
)
"""The messages of sessions."""
OTHERS: Final = replace(
    CHAT,
    name=DialectName.OPENAI,
    client=None,
    provider=None,
    find_tagged=None,
    rewriting=None,
    asked_usage=None,
    session=replace(SESSION, repeat_marker=b'"session.update"'),
)
"""Everything else: embeddings, media, platform."""
