"""Cards as turns, both ways."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from mgw.canonical.conversation import JsonObject, Part, Role, Text, ToolCall, ToolResult, Turn
from mgw.canonical.features import Feature
from mgw.canonical.history import (
    HistoryPolicy,
    HistoryTurn,
    PairedCall,
    SystemTurns,
    pair_calls,
    render_history,
)
from mgw.canonical.identifiers import CHAT_ID
from mgw.dialects.arguments import compact_arguments, embed_arguments
from mgw.dialects.fields import Fields, encode_request, none_of
from mgw.dialects.tool_names import ToolNames

_ROLES: Final = {"me": Role.USER, "you": Role.ASSISTANT}
_NAMES: Final = {role: name for name, role in _ROLES.items()}
_POLICY: Final = HistoryPolicy(CHAT_ID, alternates=False, system_turns=SystemTurns.AS_USER)


def parse_turns(request: Fields) -> tuple[Turn, ...]:
    return tuple(Turn(_parse_role(card), (_parse_card(card),)) for card in request.objects("cards"))


def _parse_role(card: Fields) -> Role:
    name = card.required_text("from")
    if name not in _ROLES:
        raise none_of(card, "from", name, _ROLES)
    return _ROLES[name]


def _parse_card(card: Fields) -> Part:
    run, got = card.nested("run"), card.nested("got")
    if run is not None:
        arguments = compact_arguments(Raw(encode_request(run.raw_object("with") or {})))
        return ToolCall(run.required_text("id"), run.required_text("tool"), arguments)
    if got is not None:
        return ToolResult(got.required_text("id"), (Text(got.required_text("say")),))
    return Text(card.required_text("say"))


def render_turns(turns: tuple[Turn, ...], names: ToolNames, lost: set[Feature]) -> list[JsonObject]:
    history = render_history(pair_calls(turns, CHAT_ID), _POLICY, _TurnRenderer(names, lost))
    return [{"from": _NAMES[message.role], **card} for message in history for card in message.blocks]


class _TurnRenderer:
    def __init__(self, names: ToolNames, lost: set[Feature]) -> None:
        self._names = names
        self._lost = lost

    def render_text(self, text: str) -> JsonObject:
        return {"say": text}

    def render_system(self, turn: HistoryTurn) -> list[JsonObject]:
        return self.render_user(turn)

    def render_user(self, turn: HistoryTurn) -> list[JsonObject]:
        return [{"say": part.text} for part in turn.parts if isinstance(part, Text) and part.text]

    def render_assistant(self, turn: HistoryTurn) -> tuple[list[JsonObject], list[JsonObject]]:
        cards: list[JsonObject] = []
        for part in turn.parts:
            if isinstance(part, Text) and part.text:
                cards.append({"say": part.text})
            elif isinstance(part, PairedCall):
                arguments = embed_arguments(part.part.arguments)
                cards.append({"run": {"id": part.id, "tool": self._names[part.part.name], "with": arguments}})
            else:
                self._lost.add(Feature.THINKING)
        return cards, []

    def render_result(self, call: PairedCall) -> tuple[list[JsonObject], list[JsonObject]]:
        parts = () if call.result is None else call.result.parts
        said = "".join(part.text for part in parts if isinstance(part, Text))
        return [{"got": {"id": call.id, "say": said}}], []
