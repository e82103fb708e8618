"""The items of a realtime conversation, its input audio, and what the model makes of them.

Source: the types of ``openai.types.realtime`` 3.54, and OpenAI's reference of client events.  Of audio the
simulated model hears how long it is: 100 milliseconds of it count as one token, as OpenAI counts.
"""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from mgw_sim.api import ApiError, Json
from mgw_sim.model import Prompt
from mgw_sim.openai.responses_request import read_prompt

_PCM_BYTES_IN_MS: Final = 48  # 24 kHz, 16 bits
_G711_BYTES_IN_MS: Final = 8
_TOKEN_MS: Final = 100
_PARTS: Final = {
    "user": ("input_text", "input_audio", "input_image"),
    "assistant": ("output_text", "output_audio", "text", "audio"),
    "system": ("input_text",),
}


def invalid(param: str | None, message: str, code: str = "invalid_value") -> ApiError:
    """An event that breaks a rule."""
    return ApiError(400, message, param, code)


def duration_ms(audio: bytes | bytearray, audio_format: Json) -> int:
    """How long a piece of audio is."""
    return len(audio) // (_PCM_BYTES_IN_MS if audio_format.get("type") == "audio/pcm" else _G711_BYTES_IN_MS)


def decode_audio(value: Any) -> bytes:  # any JSON value
    """The bytes of an ``audio`` field.  Raises ApiError."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        message = "Invalid 'audio'. Expected base64-encoded audio bytes, but could not decode them."
        raise invalid("audio", message) from None


def check_item(item: Json) -> Json:
    """An item of the right shape, whose parts are such as its role may have.  Raises ApiError."""
    if item["type"] == "message":
        wanted = _PARTS[item["role"]]
        for place, part in enumerate(item["content"]):
            if part["type"] not in wanted:
                names = ", ".join(f"'{name}'" for name in wanted)
                message = f"Invalid value: '{part['type']}'. Value must be one of {names}."
                raise invalid(f"item.content[{place}].type", message)
    return item


@dataclass(slots=True)
class Conversation:
    """The items in their order; ``audio_ms`` says of an item how much audio it has."""

    id: str
    items: list[Json] = field(default_factory=list)
    audio_ms: dict[str, int] = field(default_factory=dict)

    def find(self, item_id: object, verb: str) -> Json:
        """The item of that name.  Raises ApiError."""
        for item in self.items:
            if item["id"] == item_id:
                return item
        code = f"item_{verb}_invalid_item_id"
        raise invalid("item_id", f"Error: the item with id '{item_id}' does not exist.", code)

    def add(self, item: Json, after: str | None = None) -> str | None:
        """Add an item at the end, or behind another; returns the name of the one before it."""
        place = len(self.items)
        if after == "root":
            place = 0
        elif after is not None:
            place = self.items.index(self.find(after, "create")) + 1
        self.items.insert(place, item)
        return str(self.items[place - 1]["id"]) if place else None

    def replace(self, item: Json) -> None:
        """Put an item in the place of the one of its name; one that has been deleted stays away."""
        self.items = [item if one["id"] == item["id"] else one for one in self.items]

    def remove(self, item: Json) -> None:
        """Forget an item."""
        self.items.remove(item)
        self.audio_ms.pop(item["id"], None)


def audio_tokens(conversation: Conversation, items: list[Json]) -> int:
    """The tokens of the audio of items."""
    return sum(-(-conversation.audio_ms.get(item.get("id") or "", 0) // _TOKEN_MS) for item in items)


def prompt_of(settings: Json, conversation: Conversation, items: list[Json]) -> Prompt:
    """What an answer depends on; ``settings`` are those of the response.  Its tokens are those of text."""
    limit = settings.get("max_output_tokens")
    prompt = read_prompt(
        {
            "input": [_plain(item) for item in items],
            "instructions": settings.get("instructions"),
            "tools": settings.get("tools") or [],
            "tool_choice": settings.get("tool_choice"),
            "max_output_tokens": limit if isinstance(limit, int) else None,
        }
    )
    users = [item for item in items if item.get("role") == "user"]
    if prompt.text.strip() or not users:
        return prompt
    return replace(prompt, text=heard(conversation.audio_ms.get(users[-1].get("id") or "", 0)))


def _plain(item: Json) -> Json:
    """An item with what counts as its text: what was said aloud counts as audio."""
    if item.get("type") != "message":
        return item
    return {**item, "content": [{"type": "text", "text": part.get("text")} for part in item["content"]]}


def heard(milliseconds: int) -> str:
    """What the model understands of audio."""
    return f"{milliseconds} ms of audio"
