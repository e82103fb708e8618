"""Anthropic's dialect: the Messages API."""

from __future__ import annotations

from typing import Final

from mgw.canonical.answer_places import AnswerPlaces
from mgw.dialects.anthropic import count, speech
from mgw.dialects.anthropic.catalog import LISTER, render_entry, render_list
from mgw.dialects.anthropic.errors import parse_error, refuses_thoughts, render_error, render_refusal
from mgw.dialects.anthropic.reply import parse_reply, render_reply
from mgw.dialects.anthropic.request import parse_request, prepend_system, render_request
from mgw.dialects.anthropic.stream_events import STREAM_EVENTS
from mgw.dialects.anthropic.stream_reader import MessagesStreamReader
from mgw.dialects.anthropic.stream_writer import KEEPALIVE, MessagesStreamWriter
from mgw.dialects.anthropic.thoughts import find_tagged
from mgw.dialects.anthropic.tools import TOOL_PLACES
from mgw.dialects.anthropic.usage import meter, read_usage
from mgw.dialects.dialect import (
    ClientOperation,
    ClientSide,
    Dialect,
    ProviderOperation,
    ProviderSide,
    Rewriting,
)
from mgw.dialects.hosted_calls import HostedCalls
from mgw.nouns.vocabulary import DialectName

CLIENT: Final = ClientSide(
    text=ClientOperation(parse_request, render_reply),
    stream_writer=MessagesStreamWriter,
    render_error=render_error,
    count=count.CLIENT,
    speech=speech.CLIENT,
)
"""Messages, their token count, and speech with OpenAI's request."""

PROVIDER: Final = ProviderSide(
    DialectName.ANTHROPIC,
    text=ProviderOperation(render_request, parse_reply),
    stream_reader=MessagesStreamReader,
    parse_error=parse_error,
    refuses_thoughts=refuses_thoughts,
    count=count.PROVIDER,
)
"""Messages and their token count."""

DIALECT: Final = Dialect(
    DialectName.ANTHROPIC,
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
    answer_places=AnswerPlaces(("max_tokens",)),
    hosted_calls=HostedCalls(
        {"server_tool_use": "input", "mcp_tool_use": "input"},
        items="content",
        item="content_block",
        index="index",
        item_events=frozenset({"content_block_start"}),
        open_deltas=frozenset({"content_block_delta"}),
    ),
)
"""The registry entry of this dialect."""
