"""The parts that messages, and the outputs of tools, are made of (contract 11.4).

======================================================  =====================================================
``input_text``, ``output_text``, ``text``,              a text
``summary_text``
``input_image``                                         ``image_url`` (``data:`` or an address), ``detail``
``input_file``                                          ``file_data``, ``file_url``, ``filename``; its media
                                                        type is stated, else the name's, else that of PDF
``input_audio``                                         as in chat completions
``refusal``                                             in messages of the assistant's
======================================================  =====================================================

Files that lie with OpenAI (``file_id``) leave a note in their place and are reported, as are annotations, log
probabilities and breakpoints of OpenAI's cache.  Hosts' ``cache_control`` is taken as in chat completions.

Sources: the SDK's ``ResponseInputContentParam``, ``ResponseOutputTextParam``, ``ResponseOutputRefusalParam``.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject, Media, MediaKind, Refusal, Text
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields
from mgw.dialects.media import FEATURES, kind_of
from mgw.dialects.openai.blocks import parse_cache_control
from mgw.dialects.openai.media import (
    MEDIA_PARSERS,
    parse_detail,
    parse_file_data,
    parse_url_field,
    type_by_name,
)
from mgw.dialects.responses.refusals import LONGEST_SHOWN

ContentPart = Text | Media | Refusal

TEXT_TYPES: Final = frozenset({"input_text", "output_text", "text", "summary_text"})
_MEDIA_TYPES: Final = frozenset({"input_image", "input_file", "input_audio"})
_TEXT_KEYS: Final = frozenset({"type", "text", "annotations", "logprobs"})
_IDLE: Final = ("annotations", "logprobs")
"""What every text of an answer has, and says nothing where it is empty."""


class Holder(Enum):
    """What parts stand in."""

    USER = "user"
    """A message of the user's, or the output of a tool."""
    ASSISTANT = "assistant"
    SYSTEM = "system"
    """An instruction holds texts only; its media are reported."""


def parse_parts(fields: Fields, key: str, holder: Holder) -> list[ContentPart]:
    """Take the parts under ``key``; none where it is absent, null or empty.

    :raises GatewayError: ``MALFORMED`` for a part of an unknown type.
    """
    value = fields.take(key)
    if type(value) is str:
        return [Text(value)] if value else []
    bare = bare_texts(value)
    if bare is not None:
        return [*bare]
    parts: list[ContentPart] = []
    for index, block in enumerate(fields.elements(key, value)):
        part = _bare_text(block) or _parse_part(fields.open_element(key, index, block), holder)
        if part is not None:
            parts.append(part)
    return parts


def bare_texts(value: Any) -> list[Text] | None:  # Any: JSON of whatever type
    """Return a list that holds bare texts alone, as most do; ``None``: it is another, or none."""
    if type(value) is not list:
        return None
    texts: list[Text] = []
    for block in value:
        text = _bare_text(block) if type(block) is dict else None
        if text is None:
            return None
        texts.append(text)
    return texts


def _bare_text(block: JsonObject) -> Text | None:
    """Return a part that is a text and no more; ``None``: it is another."""
    kind, text = block.get("type"), block.get("text")
    if type(kind) is not str or kind not in TEXT_TYPES or type(text) is not str:
        return None
    if len(block) == 2:
        return Text(text)
    if block.keys() <= _TEXT_KEYS and not block.get("annotations") and not block.get("logprobs"):
        return Text(text)
    return None


def _parse_part(block: Fields, holder: Holder) -> ContentPart | None:
    kind = block.required_text("type")
    if kind in TEXT_TYPES:
        for idle in _IDLE:
            if not block.unread.get(idle):
                block.skip(idle)
        return Text(block.required_text("text"), parse_cache_control(block))
    if kind == "refusal" and holder is Holder.ASSISTANT:
        block.ledger.note(Feature.REFUSAL, f"{block.path().removesuffix('[]')}[refusal]")
        return Refusal(block.required_text("refusal"))
    if kind not in _MEDIA_TYPES:
        raise block.wrong("type", f"parts of type {kind[:LONGEST_SHOWN]!r} are not supported")
    path = f"{block.path().removesuffix('[]')}[{kind}]"
    if holder is Holder.SYSTEM:
        block.unread.clear()
        block.ledger.leave(path)
        return None
    media = _parse_media(block, kind)
    block.ledger.note(FEATURES[media.kind], path)
    cache = parse_cache_control(block)
    return media if cache is None else replace(media, cache=cache)


def _parse_media(block: Fields, kind: str) -> Media:
    if kind == "input_audio":
        return MEDIA_PARSERS["input_audio"](block)
    return _parse_image(block) if kind == "input_image" else _parse_file(block)


def _parse_image(block: Fields) -> Media:
    url = block.text("image_url")
    detail = parse_detail(block)
    if url is not None:
        return parse_url_field(block, "image_url", url, MediaKind.IMAGE, detail)
    file_id = block.text("file_id", Feature.FILE_ID)
    if file_id is None:
        raise block.wrong("", "image_url is required")
    return Media(MediaKind.IMAGE, file_id=file_id, detail=detail)


def _parse_file(block: Fields) -> Media:
    name = block.text("filename", Feature.MEDIA_NAME)
    data = block.text("file_data")
    if data is not None:
        return parse_file_data(data, name)
    url = block.text("file_url")
    if url is not None:
        return _parse_address(block, url, name)
    file_id = block.text("file_id", Feature.FILE_ID)
    if file_id is None:
        raise block.wrong("", "file_data or file_url is required")
    return Media(MediaKind.DOCUMENT, file_id=file_id, name=name)


def _parse_address(block: Fields, url: str, name: str | None) -> Media:
    """Return the document that lies at an address."""
    media = parse_url_field(block, "file_url", url, MediaKind.DOCUMENT, None)
    if media.data is not None:
        return parse_file_data(url, name)
    media_type = type_by_name(name)
    return Media(kind_of(media_type), media_type, url=media.url, name=name)
