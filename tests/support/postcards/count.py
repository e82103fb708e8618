"""The count of tokens, both ways."""

from __future__ import annotations

from msgspec.structs import replace

from mgw.canonical.conversation import Conversation
from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.dialects.dialect import (
    ClientOperation,
    ProviderOperation,
    Rendered,
    RenderOptions,
    ReplyContext,
    ReplySource,
    identity,
)
from mgw.dialects.metering import try_read_usage
from tests.support.postcards.reply import ENCODER
from tests.support.postcards.request import parse_request, render_request
from tests.support.postcards.usage import read_usage, render_usage


def render_count_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    return replace(render_request(conversation, options), target=b"/postcards/count")


def parse_reply(body: bytes, source: ReplySource) -> TokenUsage:
    return try_read_usage(read_usage, body, NO_USAGE)


def render_reply(usage: TokenUsage, context: ReplyContext) -> bytes:
    return ENCODER.encode({"usage": render_usage(usage)})


CLIENT = ClientOperation(parse_request, render_reply)
PROVIDER = ProviderOperation(render_count_request, parse_reply, usage=identity)
