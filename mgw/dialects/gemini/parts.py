"""The parts of contents, as they are written towards Google and towards its clients."""

from __future__ import annotations

from msgspec import Raw

from mgw.canonical.conversation import JsonObject


def text_part(text: str, signature: str | None = None) -> JsonObject:
    """Return a text, with its signature if there is one."""
    return _signed({"text": text}, signature)


def thought_part(text: str, signature: str | None = None) -> JsonObject:
    """Return a thought."""
    return _signed({"text": text, "thought": True}, signature)


def call_part(call_id: str, name: str, args: Raw | JsonObject, signature: str | None) -> JsonObject:
    """Return a function call."""
    return _signed({"functionCall": {"id": call_id, "name": name, "args": args}}, signature)


def response_part(call_id: str, name: str, response: Raw | JsonObject) -> JsonObject:
    """Return what a function gave back."""
    return {"functionResponse": {"id": call_id, "name": name, "response": response}}


def _signed(part: JsonObject, signature: str | None) -> JsonObject:
    if signature:
        part["thoughtSignature"] = signature
    return part
