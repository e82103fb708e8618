"""A complete response, both ways.

A provider's is read as a stream that has no deltas (:mod:`mgw.dialects.responses.candidates`), and a client's
is made by what writes a stream (:mod:`mgw.dialects.responses.stream_writer`), so an answer is the same,
streamed or not.

Sources: the SDK's ``Response``; contract 11.7, 11.9.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import (
    Media,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from mgw.canonical.reply import NO_USAGE, Candidate, Reply, ReplyEvent, StopReason
from mgw.dialects.billing import NO_VALUE
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.dialects.openai.errors import parse_stream_error
from mgw.dialects.openai.reply import collect_candidate, no_reply
from mgw.dialects.openai.usage import parse_usage
from mgw.dialects.refusal import AnswerError
from mgw.dialects.responses.blocks import COMPLETED, INCOMPLETE
from mgw.dialects.responses.candidates import BrokenOutputError, OutputItem, OutputReader
from mgw.dialects.responses.options import ResponseRenderer, is_cut
from mgw.dialects.responses.stream_writer import OutputWriter
from mgw.nouns.errors import GatewayError, Reason

_NOTHING = Candidate((), StopReason.END)
UNREADABLE: Final = (DecodeError, UnicodeDecodeError, RecursionError)
"""What bytes raise that are no JSON of the expected shape."""
_FAILED: Final = ("failed", "cancelled")  # no sets, as a host's status may be anything
_UNFINISHED: Final = ("queued", "in_progress")
ITEM_DECODER: Final = Decoder(OutputItem)
_ITEMS: Final = Decoder(list[Raw])


def parse_reply(body: bytes, source: ReplySource) -> Reply:
    """Understand a complete answer; identifiers that it lacks are made from the source's seed.

    :raises GatewayError: ``UPSTREAM_BROKEN`` for what is no answer.
    """
    try:
        response = RESPONSE_DECODER.decode(body)
    except UNREADABLE:
        raise no_reply(body, "the upstream's response is not a response object") from None
    if response.has_failed:
        raise AnswerError(parse_stream_error(body))
    if memoryview(response.output)[:1].tobytes() != b"[" or response.status in _UNFINISHED:
        raise no_reply(body, "the upstream's response has no output")
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
        parse_usage(response.usage, response.service_tier, response.output) if response.usage else NO_USAGE,
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


class ProviderResponse(Struct):
    """The fields of a response that are read; Any: hosts write all kinds of types."""

    id: Any = None
    model: Any = None
    status: Any = None
    error: Any = None
    incomplete_details: Any = None
    output: Raw = NO_VALUE
    usage: Raw = NO_VALUE
    service_tier: Raw = NO_VALUE

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


def render_reply(reply: Reply, context: ReplyContext) -> bytes:
    """Write a complete answer, of the first candidate."""
    candidate = reply.candidates[0] if reply.candidates else _NOTHING
    renderer = ResponseRenderer(context)
    renderer.model = reply.model or context.model
    items = _write_items(candidate, context)
    return b"".join(renderer.render_ended(candidate.stop, items, reply.usage))


def _write_items(candidate: Candidate, context: ReplyContext) -> list[bytes]:
    """Return the items of an answer; the tokens are those of its last text."""
    events: list[bytes] = []
    output = OutputWriter(events, context)
    texts = [number for number, part in enumerate(candidate.parts) if isinstance(part, Text) and part.text]
    for number, part in enumerate(candidate.parts):
        _write_part(output, part)
        if texts and number == texts[-1]:
            output.add_logprobs(candidate.logprobs)
        events.clear()  # of a stream only
    output.end_item(INCOMPLETE if is_cut(candidate.stop) else COMPLETED)
    return output.log.items


def _write_part(output: OutputWriter, part: Part) -> None:
    match part:
        case Text():
            _write_text(output, part)
        case Thinking():
            if part.text:
                output.add_thinking(part.text)
            if part.signature is not None:
                output.sign_thinking(part.signature)
        case Refusal() if part.text:
            output.add_refusal(part.text)
        case ToolCall():
            output.begin_call(part.id, part.name, part.signature)
            if part.arguments:
                output.add_arguments(part.arguments)
            output.end_arguments()
        case Media():
            output.add_media(part)


def _write_text(output: OutputWriter, text: Text) -> None:
    if text.text:
        output.add_text(text.text)
    for citation in text.citations:
        output.add_citation(citation)
    if text.signature is not None:
        output.sign_text(text.signature)


RESPONSE_DECODER: Final = Decoder(ProviderResponse)
