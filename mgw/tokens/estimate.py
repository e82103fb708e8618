"""Estimate how many tokens a model reads, where no upstream can be asked.

The texts of a conversation (:mod:`mgw.tokens.text`), and around them what OpenAI's cookbook counts
(*How to count tokens with tiktoken*) and what their guide says of images.  Other media are priced by size.
``docs/token-estimate.rst`` says how far off this is.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

from mgw.canonical.conversation import (
    Conversation,
    JsonObject,
    Media,
    MediaKind,
    Part,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.tokens.text import estimate_text_tokens

_OF_SCHEMAS = frozenset({"items", "prefixItems", "anyOf", "oneOf", "allOf"})
_OF_NAMED_SCHEMAS = frozenset({"properties", "$defs", "definitions"})
PER_MESSAGE = 4
"""Three and the role."""
PER_NAME = 1
PER_CALL = 6
"""A call's address and channel; its name and arguments count as text."""
PRIMING = 3
"""Every answer is primed with the assistant's role."""

# The cookbook's numbers for tools and gpt-4o; it looks at one level, nested schemas count the same here.
PER_TOOLBOX, PER_TOOL = 12, 7
PER_OBJECT, PER_PROPERTY = 3, 3
PER_ENUM, PER_ENUM_ITEM = -3, 3


def estimate_tokens(conversation: Conversation, factor: float = 1.0) -> int:
    """Return about how many tokens a model reads.

    ``factor`` is how many tokens the model's tokenizer makes where o200k makes one; media are not multiplied.
    Thoughts of earlier turns are not read again, and do not count.
    """
    tally = _Tally()
    if conversation.system:
        tally.overhead += PER_MESSAGE
        tally.texts.extend(text.text for text in conversation.system)
    for turn in conversation.turns:
        _count_turn(turn, tally)
    _count_tools(conversation.tools, tally)
    if conversation.output is not None and conversation.output.schema is not None:
        _count_schema(conversation.output.schema, tally)
    text = estimate_text_tokens(tally.texts) + max(0, tally.overhead)
    return round(text * factor) + tally.media


@dataclass(slots=True, eq=False, repr=False)
class _Tally:
    """What has been found so far: tokens, and texts whose tokens are to be counted."""

    texts: list[str] = field(default_factory=list)
    overhead: int = PRIMING
    media: int = 0


def _count_turn(turn: Turn, tally: _Tally) -> None:
    if not turn.parts or not all(isinstance(part, ToolResult) for part in turn.parts):
        tally.overhead += PER_MESSAGE  # a result of a tool is a message of its own
    if turn.name:
        tally.overhead += PER_NAME
        tally.texts.append(turn.name)
    for part in turn.parts:
        _count_part(part, tally)


def _count_part(part: Part, tally: _Tally) -> None:
    match part:
        case Text() | Refusal():
            tally.texts.append(part.text)
        case Media():
            tally.texts.extend(text for text in (part.text, part.name, part.context) if text)
            tally.media += media_tokens(part)
        case ToolCall():
            tally.overhead += PER_CALL
            tally.texts += (part.name, part.arguments)
        case ToolResult():
            tally.overhead += PER_MESSAGE
            for piece in part.parts:
                _count_part(piece, tally)


def _count_tools(tools: tuple[Tool, ...], tally: _Tally) -> None:
    for tool in tools:
        tally.overhead += PER_TOOL
        tally.texts.append(f"{tool.name}:{(tool.description or '').rstrip('.')}")
        if tool.schema is not None:
            _count_schema(tool.schema, tally)
    if tools:
        tally.overhead += PER_TOOLBOX


def _count_schema(schema: JsonObject, tally: _Tally) -> None:
    """Count what is left of a schema when it is written as a TypeScript type."""
    waiting: list[Any] = [schema]  # Any: a client's JSON; a list, since clients choose the depth
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        if not isinstance(node, dict):
            continue
        for word, value in node.items():  # few of all words: a request may have thousands of tools
            if word in _OF_SCHEMAS:
                waiting.append(value)
            elif word == "enum" and isinstance(value, list):
                tally.overhead += PER_ENUM + PER_ENUM_ITEM * len(value)
                tally.texts += (str(choice) for choice in value if isinstance(choice, str | int | float))
            elif word in _OF_NAMED_SCHEMAS and isinstance(value, dict) and value:
                tally.overhead += PER_OBJECT + PER_PROPERTY * len(value)
                tally.texts += [_property_line(name, child) for name, child in value.items()]
                waiting += value.values()


def _property_line(name: str, schema: object) -> str:
    if not isinstance(schema, dict):
        return name
    kind, description = schema.get("type"), schema.get("description")
    line = name
    if isinstance(kind, str):
        line = f"{line}:{kind}"
    if isinstance(description, str):
        line = f"{line}:{description}"
    return line.rstrip(".")


class _Price(NamedTuple):
    """What a medium costs whose content is not looked at."""

    base64_chars: int
    """The number of characters of base64 that cost :attr:`tokens`."""
    tokens: int
    """The price of that many characters."""
    unseen: int
    """The price of one that lies elsewhere."""


PRICES = {
    MediaKind.DOCUMENT: _Price(68_000, 1_500, 3_000),  # a page is taken to have 50 kB
    MediaKind.AUDIO: _Price(21_000, 10, 600),  # a second: ten tokens, 16 kB; elsewhere: a minute
    MediaKind.VIDEO: _Price(340_000, 300, 18_000),  # a second: 250 kB
}
LOW_IMAGE, IMAGE_BASE, IMAGE_TILE, TILE_PIXELS = 85, 85, 170, 512
UNSEEN_IMAGE = 765
"""The price of an image that is not looked at: that of one of 1024 x 1024 pixels."""
_JPEG_CHARS = 88_000  # a JPEG's size stands behind its metadata, which may have 64 kB


def media_tokens(media: Media) -> int:
    """Return about how many tokens a model takes for a medium, but for its text."""
    if media.text is not None:
        return 0
    if media.kind is MediaKind.IMAGE:
        return _image_tokens(media)
    price = PRICES[media.kind]
    if media.data is None:
        return price.unseen
    if media.kind is MediaKind.AUDIO:
        return max(price.tokens, estimate_sound(len(media.data)))
    if media.kind is MediaKind.DOCUMENT and (media.media_type or "").startswith("text/"):
        return len(media.data) * 3 // 16  # four bytes a token
    return price.tokens * max(1, ceil(len(media.data) / price.base64_chars))


def estimate_sound(base64_chars: int) -> int:
    """Return about how many tokens so much sound takes."""
    price = PRICES[MediaKind.AUDIO]
    return price.tokens * ceil(base64_chars / price.base64_chars)


def _image_tokens(image: Media) -> int:
    """Fit into 2048 x 2048, then the short side into 768, count the tiles (OpenAI, "Images and vision")."""
    if image.detail == "low":
        return LOW_IMAGE
    size = None if image.data is None else _image_size(image.data)
    if size is None or not all(size):
        return UNSEEN_IMAGE
    scale = min(1.0, 2048 / max(size))
    scale *= min(1.0, 768 / (min(size) * scale))
    width, height = (max(1, ceil(round(side * scale, 3) / TILE_PIXELS)) for side in size)
    return IMAGE_BASE + IMAGE_TILE * width * height


def _image_size(data: str) -> tuple[int, int] | None:
    """Width and height by the first bytes of a PNG, GIF, WebP or JPEG."""
    try:
        head = b64decode(data[:64])
        if head.startswith(b"\xff\xd8"):
            return _jpeg_size(b64decode(data[:_JPEG_CHARS]))
    except ValueError:
        return None
    if head.startswith(b"\x89PNG") and head[12:16] == b"IHDR":
        return _big(head[16:20]), _big(head[20:24])
    if head.startswith(b"GIF8"):
        return _little(head[6:8]), _little(head[8:10])
    if head[8:12] == b"WEBP":
        return _webp_size(head)
    return None


def _big(number: bytes) -> int:
    return int.from_bytes(number, "big")


def _little(number: bytes) -> int:
    return int.from_bytes(number, "little")


def _webp_size(head: bytes) -> tuple[int, int] | None:
    """RFC 9649, 2.5 to 2.7."""
    match head[12:16]:
        case b"VP8X":
            return _little(head[24:27]) + 1, _little(head[27:30]) + 1
        case b"VP8L":
            bits = _little(head[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Go from marker to marker to the frame header (ITU T.81, B.2.2)."""
    place = 2
    while place + 9 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return _big(data[place + 7 : place + 9]), _big(data[place + 5 : place + 7])
        place += 1 if marker == 0xFF else 2 + _big(data[place + 2 : place + 4])
    return None
