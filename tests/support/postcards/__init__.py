"""A made-up chat wire of OpenAI's family, as a further dialect would be written: this folder, and no more.

A request and an answer are lists of cards::

    {
        "to": "model",
        "cards": [
            {"from": "me", "say": "Look."},
            {"from": "you", "run": {"id": "c", "tool": "look", "with": {}}},
            {"from": "me", "got": {"id": "c", "say": "There."}},
        ],
        "tools": [{"tool": "look", "takes": {}}],
        "most": 9,
        "live": true,
    }
    {"cards": [{"say": "There."}], "end": "done", "usage": {"read": 3, "wrote": 5}}

A stream has a card in each event, and at last one with ``end``.  An error is ``{"sorry": message, "why":
code}``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, cast

from mgw.dialects.dialect import ClientOperation, ClientSide, Dialect, ProviderOperation, ProviderSide
from mgw.nouns.vocabulary import DialectName, Family
from tests.support.postcards import count
from tests.support.postcards.catalog import LISTER, render_entry, render_list
from tests.support.postcards.errors import parse_error, render_error, render_refusal
from tests.support.postcards.reply import parse_reply, render_reply
from tests.support.postcards.request import parse_request, render_request
from tests.support.postcards.stream_events import STREAM_EVENTS
from tests.support.postcards.stream_reader import PostcardStreamReader
from tests.support.postcards.stream_writer import KEEPALIVE, PostcardStreamWriter
from tests.support.postcards.usage import meter, read_usage


class _Name(StrEnum):
    """What a line in :class:`DialectName` would say."""

    POSTCARDS = "postcards"

    @property
    def family(self) -> Family:
        return Family.OPENAI


NAME: Final = cast("DialectName", _Name.POSTCARDS)  # a test adds no member to the product's names
DIALECT: Final = Dialect(
    NAME,
    render_refusal,
    meter,
    read_usage,
    render_list,
    render_entry,
    LISTER,
    KEEPALIVE,
    STREAM_EVENTS,
    ClientSide(
        text=ClientOperation(parse_request, render_reply),
        stream_writer=PostcardStreamWriter,
        render_error=render_error,
        count=count.CLIENT,
    ),
    ProviderSide(
        NAME,
        text=ProviderOperation(render_request, parse_reply),
        stream_reader=PostcardStreamReader,
        parse_error=parse_error,
        count=count.PROVIDER,
    ),
)
