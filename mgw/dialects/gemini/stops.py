"""Why an answer ended: the table of contract 8.20, for generateContent.

Sources: ``FinishReason`` and ``BlockedReason`` of google-genai 3.4.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.canonical.reply import StopReason

_ENDS: Final = (
    "STOP",
    "OTHER",
    "LANGUAGE",
    "NO_IMAGE",
    "IMAGE_OTHER",
    "CONTINUATION",
    "ESCALATION",
    "FINISH_REASON_UNSPECIFIED",
)
_REFUSALS: Final = (
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MODEL_ARMOR",
    "JAILBREAK",
    "PUP_LIMITED_DISABLED",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
FAILURES: Final = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
    }
)
"""The model failed; with nothing else in the answer, asking again is all that helps."""
_STOPS: Final = MappingProxyType(
    {
        **dict.fromkeys(_ENDS, StopReason.END),
        **dict.fromkeys(FAILURES, StopReason.END),
        **dict.fromkeys(_REFUSALS, StopReason.REFUSAL),
        "MAX_TOKENS": StopReason.LENGTH,
    }
)
BLOCKED: Final = "SAFETY"
"""What ends a candidate whose prompt was blocked in the middle of it."""
FINISHES: Final = MappingProxyType(
    {
        StopReason.END: "STOP",
        StopReason.STOP_SEQUENCE: "STOP",
        StopReason.LENGTH: "MAX_TOKENS",
        StopReason.TOOL_USE: "STOP",
        StopReason.REFUSAL: "SAFETY",
    }
)
"""What Google's clients are told."""


def stop_of(finish: str, *, calls: bool) -> tuple[StopReason, str | None]:
    """Return why an answer ended, and the word for it where nobody knows it."""
    stop = _STOPS.get(finish.upper())  # Google's SDKs read these in any case
    unknown = finish if stop is None else None
    stop = stop or StopReason.END
    return (StopReason.TOOL_USE if calls and stop is StopReason.END else stop), unknown


def failure_message(finish: str, explained: str | None) -> str:
    """Return a sentence for an answer that is nothing but a failure."""
    said = f"the model's response is empty ({finish}); try again"
    return f"{said}: {explained}" if explained else said


def block_message(reason: str, explained: str | None) -> str:
    """Return a sentence for a prompt that was not answered."""
    return explained or f"The prompt was blocked: {reason}."
