"""An answer, both ways."""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import JsonObject, Part, Text, ToolCall
from mgw.canonical.reply import Candidate, Reply, StopReason
from mgw.dialects.arguments import compact_arguments, embed_arguments
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.dialects.refusal import AnswerError
from mgw.nouns.errors import GatewayError, Reason
from tests.support.postcards.errors import find_error
from tests.support.postcards.usage import Usage, render_usage, to_canonical

ENCODER: Final = Encoder()
ENDS: Final = {"done": StopReason.END, "full": StopReason.LENGTH, "run": StopReason.TOOL_USE}
_NAMES: Final = {stop: name for name, stop in ENDS.items()}


class Card(Struct):
    say: str | None = None
    run: dict[str, Raw] | None = None
    end: str | None = None
    usage: Usage | None = None


class _Answer(Struct):
    cards: list[Card]
    end: str
    usage: Usage


_DECODER: Final = Decoder(_Answer)
_STRING: Final = Decoder(str)


def parse_reply(body: bytes, source: ReplySource) -> Reply:
    if (error := find_error(body)) is not None:
        raise AnswerError(error)
    try:
        answer = _DECODER.decode(body)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response has no cards") from None
    parts = tuple(_parse_card(card) for card in answer.cards)
    candidate = Candidate(parts, ENDS.get(answer.end, StopReason.END))
    return Reply((candidate,), usage=to_canonical(answer.usage))


def _parse_card(card: Card) -> Part:
    return Text(card.say or "") if card.run is None else parse_run(card.run)


def parse_run(run: dict[str, Raw]) -> ToolCall:
    return ToolCall(
        _STRING.decode(run["id"]), _STRING.decode(run["tool"]), compact_arguments(run.get("with", Raw(b"{}")))
    )


def render_reply(reply: Reply, context: ReplyContext) -> bytes:
    candidate = reply.candidates[0]
    cards = [render_card(part) for part in candidate.parts if isinstance(part, Text | ToolCall)]
    return ENCODER.encode(
        {"cards": cards, "end": render_end(candidate.stop), "usage": render_usage(reply.usage)}
    )


def render_card(part: Text | ToolCall) -> JsonObject:
    if isinstance(part, Text):
        return {"say": part.text}
    return {"run": {"id": part.id, "tool": part.name, "with": embed_arguments(part.arguments)}}


def render_end(stop: StopReason) -> str:
    return _NAMES.get(stop, "done")
