"""The content of a message: a string, or parts that are chosen by their type.

Sources: the SDK's ``ChatCompletionContentPartParam`` and the messages that hold it.  Beside OpenAI's own
parts stand those that hosts of this wire add: ``video_url`` and ``audio_url`` (vLLM, OpenRouter),
``thinking`` and ``document_url`` (Mistral), ``file_url`` (Perplexity), ``cache_control`` on any part
(OpenRouter, LiteLLM).  OpenAI's
``prompt_cache_breakpoint`` is a directive of its own family, which is dropped across families
(contract 8.27), and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    JsonObject,
    Media,
    MediaKind,
    Refusal,
    Signature,
    Text,
    Thinking,
)
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.media import FEATURES, is_text, kind_of, plain_text, standard_base64
from mgw.dialects.openai.media import AUDIO_TYPES, is_address, split_data_url, type_by_name
from mgw.vocabulary import Family

Content = Text | Media | Thinking | Refusal

TEXTS: Final = frozenset({"text"})
"""What instructions hold."""
ANYTHING: Final = frozenset(
    {"text", "image_url", "input_audio", "file", "video_url", "audio_url", "document_url", "file_url"}
)
"""What users and tools say."""
ANSWERS: Final = frozenset({"text", "refusal", "thinking"})
"""What assistants said."""

_TTLS: Final = frozenset({"5m", "1h"})
_DETAILS: Final = MappingProxyType({"low": "low", "high": "high", "original": "ultra_high"})


def read_content(message: Fields, known: frozenset[str]) -> list[Content]:
    """Return the parts of ``content``; none where it is absent, null or empty."""
    value = message.take("content")
    if type(value) is str:
        return [Text(value)] if value else []
    return [_part(block, known) for block in message.opened("content", value)]


def read_cache(fields: Fields) -> CacheMark | None:
    """Take Anthropic's ``cache_control``, which hosts of this wire take, too."""
    mark = None if fields.is_empty else fields.nested("cache_control")
    if mark is None:
        return None
    fields.note(Feature.CACHE, "cache_control")
    mark.skip("type")
    ttl = mark.text("ttl")
    if ttl is not None and ttl not in _TTLS:
        mark.leave("ttl")
        ttl = None
    return CacheMark(ttl)


def media_of(url: str, kind: MediaKind) -> Media | None:
    """Return what an address stands for; ``None`` where it is neither ``https:`` nor ``data:``."""
    split = split_data_url(url)
    if split is not None:
        return Media(kind, media_type=split[0], data=split[1])
    return Media(kind, url=url) if is_address(url) else None


def _part(block: Fields, known: frozenset[str]) -> Content:
    kind = block.required_text("type")
    reader = _READERS.get(kind)
    if reader is None or kind not in known:
        raise none_of(block, "type", kind, sorted(known))
    return reader(block)


def _text(block: Fields) -> Text:
    return Text(block.required_text("text"), read_cache(block))


def _refusal(block: Fields) -> Refusal:
    _note(block, Feature.REFUSAL, "refusal")
    return Refusal(block.required_text("refusal"))


def _thinking(block: Fields) -> Thinking:
    _note(block, Feature.THINKING, "thinking")
    block.skip("closed")
    return Thinking(spoken_thought(block.take("thinking")), Signature(Family.OPENAI, ""))


def spoken_thought(value: Any) -> str:  # Any: JSON of whatever type
    """Return the text of Mistral's ``thinking``: a string, or an array of text parts."""
    if type(value) is list:
        texts = [item.get("text") for item in value if type(item) is dict]
        return "".join(text for text in texts if type(text) is str)
    return value if type(value) is str else ""


def _address(key: str, kind: MediaKind) -> Callable[[Fields], Media]:
    def read(block: Fields) -> Media:
        value = block.take(key)
        if value is None:
            raise block.missing(key)
        if type(value) is str:  # Mistral writes the address itself
            return _fetched(block, key, value, kind, None)
        if type(value) is not dict:
            raise block.mistyped(key, dict, value)
        inner = Fields(value, block.ledger, block, key)
        url = inner.required_text("url")
        return _fetched(inner, "url", url, kind, _detail(inner))

    return read


def _detail(inner: Fields) -> str | None:
    """Take ``detail``; ``auto`` is what a model does by itself."""
    said = inner.text("detail", Feature.MEDIA_DETAIL)
    if said is None or said == "auto":
        return None
    if said not in _DETAILS:
        raise none_of(inner, "detail", said, ("auto", *_DETAILS))
    return _DETAILS[said]


def _fetched(fields: Fields, key: str, url: str, kind: MediaKind, detail: str | None) -> Media:
    media = media_of(url, kind)
    if media is None:
        raise fields.wrong(key, "must be an https: URL or a data: URL in base64")
    if media.media_type is not None:  # LiteLLM takes documents here, too
        kind = kind_of(media.media_type)
    return Media(kind, media.media_type, media.data, media.url, detail=detail)


def _input_audio(block: Fields) -> Media:
    inner = block.nested("input_audio")
    if inner is None:
        raise block.missing("input_audio")
    form = inner.required_text("format").lower()
    return Media(
        MediaKind.AUDIO,
        AUDIO_TYPES.get(form, f"audio/{form}"),
        standard_base64(inner.required_text("data")),
    )


def _file(block: Fields) -> Media:
    inner = block.nested("file")
    if inner is None:
        raise block.missing("file")
    name = inner.text("filename", Feature.MEDIA_NAME)
    said = inner.text("format")  # LiteLLM's name for the media type
    data = inner.text("file_data")
    if data is None:
        found = inner.text("file_id", Feature.FILE_ID)
        if found is None:
            raise inner.wrong("", "file_data or file_id is required")
        if is_address(found):  # LiteLLM's place for one
            return Media(kind_of(said), said, url=found, name=name)
        return Media(kind_of(said), said, file_id=found, name=name)
    if is_address(data):  # OpenRouter's place for one
        return Media(kind_of(said), said, url=data, name=name)
    media_type, encoded = split_data_url(data) or (None, standard_base64(data))
    return _sent(media_type or said or type_by_name(name) or "application/pdf", encoded, name)


def _sent(media_type: str, encoded: str, name: str | None) -> Media:
    """Return a file that the request holds; a text is text."""
    text = plain_text(encoded) if is_text(media_type) else None
    if text is not None:
        return Media(MediaKind.DOCUMENT, media_type, text=text, name=name)
    return Media(kind_of(media_type), media_type, encoded, name=name)


def _document_at(key: str, name_key: str) -> Callable[[Fields], Media]:
    """Return the reader of a document at an address, with its name beside it."""
    read = _address(key, MediaKind.DOCUMENT)

    def reader(block: Fields) -> Media:
        name = block.text(name_key, Feature.MEDIA_NAME)
        media = read(block)
        media_type = media.media_type or type_by_name(name)
        if media.data is not None:
            return _sent(media_type or "application/pdf", media.data, name)
        return Media(kind_of(media_type), media_type, url=media.url, name=name)

    return reader


def _media(read: Callable[[Fields], Media], key: str) -> Callable[[Fields], Media]:
    """Let a reader of media note what it found, and the mark that every part may have."""

    def reader(block: Fields) -> Media:
        media = read(block)
        _note(block, FEATURES[media.kind], key)
        cache = read_cache(block)
        return media if cache is None else replace(media, cache=cache)

    return reader


def _note(block: Fields, feature: Feature, kind: str) -> None:
    """Note a feature under a block that is chosen by its type: ``messages[].content[file]``."""
    block.ledger.note(feature, f"{block.path().removesuffix('[]')}[{kind}]")


def read_images(message: Fields) -> list[Media]:
    """Take the images of an assistant's message, as answers of image models have them (OpenRouter)."""
    found: list[Media] = []
    for block in message.objects("images"):
        block.skip("type", "index")
        found.append(_READ_IMAGE(block))
    if found:
        message.note(Feature.IMAGE, "images")
    return found


def image_object(media: Media, index: int) -> JsonObject:
    """Return an image of an answer in that field."""
    url = media.url or f"data:{media.media_type or 'image/png'};base64,{media.data}"
    return {"type": "image_url", "image_url": {"url": url}, "index": index}


_READ_IMAGE: Final = _address("image_url", MediaKind.IMAGE)
_READERS: Final[MappingProxyType[str, Callable[[Fields], Content]]] = MappingProxyType(
    {
        "text": _text,
        "refusal": _refusal,
        "thinking": _thinking,
        "image_url": _media(_READ_IMAGE, "image_url"),
        "video_url": _media(_address("video_url", MediaKind.VIDEO), "video_url"),
        "audio_url": _media(_address("audio_url", MediaKind.AUDIO), "audio_url"),
        "input_audio": _media(_input_audio, "input_audio"),
        "file": _media(_file, "file"),
        "document_url": _media(_document_at("document_url", "document_name"), "document_url"),
        "file_url": _media(_document_at("file_url", "file_name"), "file_url"),
    }
)
