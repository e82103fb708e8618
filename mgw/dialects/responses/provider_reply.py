"""A whole response of OpenAI's Responses, read as an answer.

Source: the SDK's ``Response``; contract 11.9.  Its items are read as those of a stream that has no deltas
(:mod:`mgw.dialects.responses.output_reader`), so an answer is understood the same, streamed or not.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.reply import NO_USAGE, Reply, ReplyEvent
from mgw.dialects.billing import NO_VALUE
from mgw.dialects.dialect import ReplySource
from mgw.dialects.metering import try_read_usage
from mgw.dialects.openai.errors import is_error, parse_stream_error
from mgw.dialects.openai.reply import collect_candidate
from mgw.dialects.openai.usage import read_usage_object
from mgw.dialects.refusal import AnswerError, proxy_message
from mgw.dialects.responses.output_reader import BrokenOutputError, OutputItem, OutputReader
from mgw.nouns.errors import GatewayError, Reason

UNREADABLE: Final = (DecodeError, UnicodeDecodeError, RecursionError)
"""What bytes raise that are no JSON of the expected shape."""
_FAILED: Final = ("failed", "cancelled")  # no sets, as a host's status may be anything
_UNFINISHED: Final = ("queued", "in_progress")


class ProviderResponse(Struct):
    """The fields of a response that are read; Any: hosts write all kinds of types."""

    id: Any = None
    model: Any = None
    status: Any = None
    error: Any = None
    incomplete_details: Any = None
    output: Raw = NO_VALUE
    usage: Raw = NO_VALUE

    @property
    def has_failed(self) -> bool:
        """Whether it is an error."""
        return bool(self.error) or self.status in _FAILED

    @property
    def incomplete(self) -> str | None:
        """Why it is not complete; ``None``: it is."""
        details = self.incomplete_details
        reason = details.get("reason") if type(details) is dict else None
        if type(reason) is str and reason:
            return reason
        return "incomplete" if self.status == "incomplete" else None


RESPONSE_DECODER: Final = Decoder(ProviderResponse)
ITEM_DECODER: Final = Decoder(OutputItem)
_ITEMS: Final = Decoder(list[Raw])


def parse_reply(body: bytes, source: ReplySource) -> Reply:
    """Understand a complete answer; identifiers that it lacks are made from the source's seed.

    :raises GatewayError: ``UPSTREAM_BROKEN`` for what is no answer.
    """
    try:
        response = RESPONSE_DECODER.decode(body)
    except UNREADABLE:
        raise _no_reply(body, "the upstream's response is not a response object") from None
    if response.has_failed:
        raise AnswerError(parse_stream_error(body))
    if memoryview(response.output)[:1].tobytes() != b"[" or response.status in _UNFINISHED:
        raise _no_reply(body, "the upstream's response has no output")
    reader = OutputReader(f"{source.seed}/0")
    events: list[ReplyEvent] = []
    try:
        read_output(reader, response.output, events)
    except BrokenOutputError as error:
        raise GatewayError(Reason.UPSTREAM_BROKEN, str(error)) from None
    reader.finish(response.incomplete, events)
    return Reply(
        (collect_candidate(events),),
        response.id if type(response.id) is str else None,
        response.model if type(response.model) is str else None,
        try_read_usage(read_usage_object, response.usage, NO_USAGE),
    )


def read_output(reader: OutputReader, output: Raw, events: list[ReplyEvent]) -> None:
    """Read the items of a whole response; what is none is skipped.

    :raises BrokenOutputError: for what cannot be understood.
    """
    try:
        items = _ITEMS.decode(output)
    except UNREADABLE:
        return
    for place, item in enumerate(items):
        try:
            found = ITEM_DECODER.decode(item)
        except UNREADABLE:
            continue
        reader.on_done(place, found, events)


def _no_reply(body: bytes, message: str) -> GatewayError:
    """Return what is wrong with a body: the error that it is, else what a proxy says, else ``message``."""
    if is_error(body):
        return AnswerError(parse_stream_error(body))
    words = proxy_message(body)
    return GatewayError(Reason.UPSTREAM_BROKEN, f"{message}: {words}" if words else message)
