"""Why an answer ended, both ways (the table of contract 8.20).

Source: the SDK's ``StopReason`` and ``RefusalStopDetails``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import StopReason

_READ: Final = MappingProxyType(
    {
        "end_turn": StopReason.END,
        "pause_turn": StopReason.END,
        "stop_sequence": StopReason.STOP_SEQUENCE,
        "max_tokens": StopReason.LENGTH,
        "model_context_window_exceeded": StopReason.LENGTH,
        "tool_use": StopReason.TOOL_USE,
        "refusal": StopReason.REFUSAL,
    }
)
_WRITTEN: Final = MappingProxyType(
    {
        StopReason.END: "end_turn",
        StopReason.STOP_SEQUENCE: "stop_sequence",
        StopReason.LENGTH: "max_tokens",
        StopReason.TOOL_USE: "tool_use",
        StopReason.REFUSAL: "refusal",
    }
)
_BELOW_CALLS: Final = frozenset({StopReason.END, StopReason.STOP_SEQUENCE})


class StopDetails(Struct, frozen=True):
    """``stop_details``, as far as it is read."""

    explanation: str | None = None
    """Why the vendor declined, in words."""


def read_stop(said: str | None, *, calls: bool) -> tuple[StopReason, str | None]:
    """Return the reason, and the word where nobody knows it; ``calls``: the answer calls tools."""
    reason = StopReason.END if said is None else _READ.get(said, StopReason.END)
    unknown = said if said is not None and said not in _READ else None
    return StopReason.TOOL_USE if calls and reason in _BELOW_CALLS else reason, unknown


def written_stop(reason: StopReason, sequence: str | None, *, calls: bool, refused: bool) -> JsonObject:
    """Return the fields that say why; ``refused``: the answer holds words of a refusal.

    Calls in the answer win over its end, and a stop sequence that nobody names is an end.
    """
    if refused:
        reason = StopReason.REFUSAL
    elif calls and reason in _BELOW_CALLS:
        reason = StopReason.TOOL_USE
    elif (reason is StopReason.TOOL_USE and not calls) or (
        reason is StopReason.STOP_SEQUENCE and not sequence
    ):
        reason = StopReason.END
    is_refusal = reason is StopReason.REFUSAL
    return {
        "stop_reason": _WRITTEN[reason],
        "stop_sequence": sequence if reason is StopReason.STOP_SEQUENCE else None,
        "stop_details": {"type": "refusal", "category": None, "explanation": None} if is_refusal else None,
    }
