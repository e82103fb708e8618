"""A whole answer for a client of Responses; its items are made by what writes those of a stream."""

from __future__ import annotations

from mgw.canonical.conversation import Media, Part, Refusal, Text, Thinking, ToolCall
from mgw.canonical.reply import Candidate, Reply, StopReason
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.responses.output_items import COMPLETED, INCOMPLETE
from mgw.dialects.responses.output_writer import OutputWriter
from mgw.dialects.responses.response import ResponseRenderer, is_cut

_NOTHING = Candidate((), StopReason.END)


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
