"""OpenAI's Responses, both ways; their errors, meter and catalog are those of OpenAI's other dialects."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.canonical.answer_places import AnswerPlaces
from mgw.dialects.dialect import (
    ClientOperation,
    ClientSide,
    Dialect,
    ProviderOperation,
    ProviderSide,
    Rewriting,
)
from mgw.dialects.hosted_calls import HostedCalls
from mgw.dialects.openai import CHAT, SESSION
from mgw.dialects.openai.errors import parse_error, render_error, render_session_error
from mgw.dialects.openai.usage import asks_response, read_step
from mgw.dialects.responses.count import COUNT
from mgw.dialects.responses.errors import refuses_thoughts
from mgw.dialects.responses.reply import parse_reply, render_reply
from mgw.dialects.responses.request import parse_request, prepend_system, render_request
from mgw.dialects.responses.stream_events import STREAM_EVENTS
from mgw.dialects.responses.stream_reader import ResponsesStreamReader
from mgw.dialects.responses.stream_writer import KEEPALIVE, ResponsesStreamWriter
from mgw.dialects.responses.thoughts import find_tagged
from mgw.dialects.responses.tools import TOOL_PLACES
from mgw.nouns.vocabulary import DialectName

CLIENT: Final = ClientSide(
    text=ClientOperation(parse_request, render_reply),
    stream_writer=ResponsesStreamWriter,
    render_error=render_error,
    count=COUNT,
)
"""Responses, and their token count."""

PROVIDER: Final = ProviderSide(
    DialectName.OPENAI_RESPONSES,
    text=ProviderOperation(render_request, parse_reply),
    stream_reader=ResponsesStreamReader,
    parse_error=parse_error,
    refuses_thoughts=refuses_thoughts,
)
"""Conversations."""
DIALECT: Final[Dialect] = replace(
    CHAT,
    name=DialectName.OPENAI_RESPONSES,
    client=CLIENT,
    provider=PROVIDER,
    keepalive_bytes=KEEPALIVE,
    stream_events=STREAM_EVENTS,
    session=replace(
        SESSION,
        render_error=render_session_error,
        asks_response=asks_response,
        read_step=read_step,
        replaces_http=True,
    ),
    asked_usage=None,
    find_tagged=find_tagged,
    rewriting=Rewriting(TOOL_PLACES, prepend_system),
    answer_places=AnswerPlaces(("max_output_tokens",), background="background"),
    hosted_calls=HostedCalls(
        {
            "code_interpreter_call": "code",
            "mcp_call": "arguments",
            "shell_call": "action",
            "local_shell_call": "action",
            "apply_patch_call": "operation",
        },
        items="output",
        item="item",
        index="output_index",
        item_events=frozenset({"response.output_item.done"}),
        deltas=frozenset(
            {
                "response.code_interpreter_call_code.delta",
                "response.mcp_call_arguments.delta",
                "response.shell_call_command.delta",
            }
        ),
    ),
)
"""Responses."""
