"""The answers of the soak's provider, in the three wires: whole, as streams in two halves, and as errors."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

from tests.support.talks import Assistant, chat
from tests.support.wires import ANTHROPIC, CHAT, GEMINI, MODELS, answer, stream

_WIRES = {"openai": CHAT, "anthropic": ANTHROPIC, "gemini": GEMINI}
_FIRST, _SECOND = b"#1##", b"#2##"
"""Texts that stand in the templates for those of an answer; a stream has four characters in an event."""


def whole(wire: str, model: str) -> bytes:
    """Return a whole answer that names its model."""
    return _filled(_whole(wire), wire, model)


def halves(wire: str, model: str) -> tuple[bytes, bytes]:
    """Return the two halves of a stream; each names its model."""
    first, second = _events(wire)
    return _filled(b"".join(first), wire, model), _filled(b"".join(second), wire, model)


def failure(wire: str, status: int, model: str) -> bytes:
    """Return the body of an error that names its model."""
    message = f"no luck with {model}"
    if wire == "openai":
        return _json(error={"message": message, "type": "server_error", "param": None, "code": None})
    if wire == "anthropic":
        return _json(type="error", error={"type": "api_error", "message": message})
    return _json(error={"code": status, "message": message, "status": "UNAVAILABLE"})


def failure_event(wire: str, model: str) -> bytes:
    """Return the event that breaks a stream off."""
    name = b"event: error\n" if wire == "anthropic" else b""
    return name + b"data: " + failure(wire, 500, model) + b"\n\n"


def start_up(wire: str, model: str) -> bytes:
    """Return events at the beginning of a stream that say nothing yet."""
    if wire == "gemini":
        usage = {"promptTokenCount": 11, "totalTokenCount": 11}
        return b"data: " + _json(usageMetadata=usage, modelVersion=model) + b"\n\n"
    ping = b'event: ping\ndata: {"type":"ping"}\n\n' if wire == "anthropic" else b""
    return _filled(_events(wire)[0][0], wire, model) + ping


def unended(wire: str, model: str) -> bytes:
    """Return a stream that says how it finishes, but lacks its last event."""
    first, second = _events(wire)
    return _filled(b"".join([*first, *(second if wire == "gemini" else second[:-1])]), wire, model)


@cache
def _whole(wire: str) -> bytes:
    return answer(_WIRES[wire], replace(chat(), answer=Assistant(_FIRST.decode())))


@cache
def _events(wire: str) -> tuple[list[bytes], list[bytes]]:
    """Return the events up to the first text, and those behind it."""
    events = stream(_WIRES[wire], Assistant((_FIRST + _SECOND).decode()))
    cut = 1 + next(at for at, event in enumerate(events) if _FIRST in event)
    return events[:cut], events[cut:]


def _filled(template: bytes, wire: str, model: str) -> bytes:
    """Return a template with a model and its texts."""
    name = model.encode()
    named = template.replace(MODELS[_WIRES[wire]].encode(), name)
    return named.replace(_FIRST, b"This answers " + name).replace(
        _SECOND, b", and this is the end of " + name
    )


def _json(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
