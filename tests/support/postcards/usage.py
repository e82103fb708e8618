"""Token counts, both ways, and the meter."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import Count, merge_usage, meter_of
from mgw.dialects.stream_end import StreamEnd


class Usage(Struct):
    read: Count | None = None
    wrote: Count | None = None


class _Document(Struct):
    usage: Usage | None = None


_DECODER: Final = Decoder(_Document)


def to_canonical(usage: Usage) -> TokenUsage:
    return TokenUsage(usage.read, usage.wrote)


def render_usage(usage: TokenUsage) -> JsonObject:
    return {"read": usage.tokens_in, "wrote": usage.tokens_out}


def read_usage(document: bytes, before: TokenUsage) -> TokenUsage:
    found = _DECODER.decode(document).usage
    return before if found is None else merge_usage(before, to_canonical(found))


def meter(content_type: bytes, end: StreamEnd | None = None) -> Meter:
    return meter_of(content_type, read_usage, end)
