"""OpenAI's Responses, both ways; their errors, meter and catalog are those of OpenAI's other dialects."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.dialects.dialect import ClientOperation, ClientSide, Dialect
from mgw.dialects.openai import RESPONSES
from mgw.dialects.openai.errors import render_error
from mgw.dialects.responses.count import COUNT
from mgw.dialects.responses.provider import PROVIDER
from mgw.dialects.responses.reply import render_reply
from mgw.dialects.responses.request import parse_request
from mgw.dialects.responses.stream_events import STREAM_EVENTS
from mgw.dialects.responses.stream_writer import KEEPALIVE, ResponsesStreamWriter

CLIENT: Final = ClientSide(
    text=ClientOperation(parse_request, render_reply),
    stream_writer=ResponsesStreamWriter,
    render_error=render_error,
    count=COUNT,
)
DIALECT: Final[Dialect] = replace(
    RESPONSES,
    client=CLIENT,
    provider=PROVIDER,
    keepalive_bytes=KEEPALIVE,
    stream_events=STREAM_EVENTS,
)
"""Responses."""
