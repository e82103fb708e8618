"""The parts of messages and of outputs, parsed; and those of an answer with its items, rendered.

Parts of a request (contract 11.4):

======================================================  =====================================================
``input_text``, ``output_text``, ``text``,              a text
``summary_text``
``input_image``, ``input_file``, ``input_audio``        media (:mod:`mgw.dialects.responses.media`)
``refusal``                                             in messages of the assistant's
======================================================  =====================================================

Annotations, log probabilities and breakpoints of OpenAI's cache are reported.  Hosts' ``cache_control`` is
taken as in chat completions.

An answer's items come in the bytes of their JSON (contract 11.7).  Their texts are the inside of a JSON
string, encoded already: that is how a stream gathers them.  Identifiers hold the gateway's name, so that a
request for a stored response can be told from one of OpenAI's own, and nothing is ever read back from them.
They begin as OpenAI's do, since it refuses others in later input.

Sources: the SDK's ``ResponseInputContentParam``, ``ResponseOutputTextParam``, ``ResponseOutputRefusalParam``
and ``ResponseOutputItem``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

from msgspec.json import Encoder
from msgspec.structs import replace

from mgw.canonical.conversation import Citation, JsonObject, Media, Refusal, Text
from mgw.canonical.features import Feature
from mgw.canonical.reply import Alternative, TokenLogprob
from mgw.dialects.fields import Fields
from mgw.dialects.media import FEATURES
from mgw.dialects.openai.blocks import parse_cache_control
from mgw.dialects.responses.errors import LONGEST_SHOWN
from mgw.dialects.responses.media import parse_media

ContentPart = Text | Media | Refusal
TEXT_TYPES: Final = frozenset({"input_text", "output_text", "text", "summary_text"})
_MEDIA_TYPES: Final = frozenset({"input_image", "input_file", "input_audio"})
_TEXT_KEYS: Final = frozenset({"type", "text", "annotations", "logprobs"})
_IDLE: Final = ("annotations", "logprobs")
"""What every text of an answer has, and says nothing where it is empty."""
IN_PROGRESS: Final = b"in_progress"
COMPLETED: Final = b"completed"
INCOMPLETE: Final = b"incomplete"
_ENCODER: Final = Encoder()
_OPEN_MESSAGE: Final = b'{"type":"message","id":"%b","role":"assistant"'
_OPEN_REASONING: Final = b'{"type":"reasoning","id":"%b"'
_TEXT_PART: Final = b'{"type":"output_text","text":"%b","annotations":[%b],"logprobs":[%b]}'
_REFUSAL_PART: Final = b'{"type":"refusal","refusal":"%b"}'
_SUMMARY_PART: Final = b'{"type":"summary_text","text":"%b"}'
_FORMATS: Final = {"image/png": "png", "image/webp": "webp", "image/jpeg": "jpeg", "image/gif": "gif"}
RESPONSE_PREFIX: Final = "resp_mgw"
"""How the identifiers of translated responses begin."""
PREFIXES: Final = MappingProxyType(
    {
        "reasoning": "rs_mgw",
        "message": "msg_mgw",
        "function_call": "fc_mgw",
        "custom_tool_call": "ctc_mgw",
        "local_shell_call": "lsh_mgw",
        "shell_call": "sh_mgw",
        "apply_patch_call": "apc_mgw",
        "tool_search_call": "ts_mgw",
        "image_generation_call": "ig_mgw",
    }
)
"""How the identifiers of items begin, by the type of the item."""
_DIGEST_BYTES: Final = 16
CALL_ID: Final = re.compile(r".{1,64}", re.DOTALL)
"""What Responses take for ``call_id``: "a string with maximum length 64"."""


class Holder(Enum):
    """What parts stand in."""

    USER = "user"
    """A message of the user's, or the output of a tool."""
    ASSISTANT = "assistant"
    SYSTEM = "system"
    """An instruction holds texts only; its media are reported."""


def parse_content(fields: Fields, key: str, holder: Holder) -> list[ContentPart]:
    """Take the parts under ``key``; none where it is absent, null or empty.

    :raises GatewayError: ``MALFORMED`` for a part of an unknown type.
    """
    value = fields.take(key)
    if type(value) is str:
        return [Text(value)] if value else []
    bare = parse_bare_texts(value)
    if bare is not None:
        return [*bare]
    parts: list[ContentPart] = []
    for index, block in enumerate(fields.elements(key, value)):
        part = _parse_bare_text(block) or _parse_part(fields.open_element(key, index, block), holder)
        if part is not None:
            parts.append(part)
    return parts


def parse_bare_texts(value: Any) -> list[Text] | None:  # Any: JSON of whatever type
    """Return a list that holds bare texts alone, as most do; ``None``: it is another, or none."""
    if type(value) is not list:
        return None
    texts: list[Text] = []
    for block in value:
        text = _parse_bare_text(block) if type(block) is dict else None
        if text is None:
            return None
        texts.append(text)
    return texts


def _parse_bare_text(block: JsonObject) -> Text | None:
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
    media = parse_media(block, kind)
    block.ledger.note(FEATURES[media.kind], path)
    cache = parse_cache_control(block)
    return media if cache is None else replace(media, cache=cache)


def render_message(identifier: bytes, status: bytes, parts: Iterable[bytes]) -> bytes:
    """Return a message with these parts."""
    content = b",".join(parts)
    return b'%b,"status":"%b","content":[%b]}' % (_OPEN_MESSAGE % identifier, status, content)


def render_text_part(text: bytes, annotations: Iterable[bytes] = (), logprobs: Iterable[bytes] = ()) -> bytes:
    """Return an ``output_text``."""
    return _TEXT_PART % (text, b",".join(annotations), b",".join(logprobs))


def render_refusal_part(text: bytes) -> bytes:
    """Return a ``refusal``."""
    return _REFUSAL_PART % text


def render_summary_part(text: bytes) -> bytes:
    """Return a ``summary_text``."""
    return _SUMMARY_PART % text


def render_reasoning(
    identifier: bytes, status: bytes, summary: bytes = b"", encrypted: str | None = None
) -> bytes:
    """Return a thought; ``summary`` is its part, where it has one."""
    sealed = b"" if encrypted is None else b',"encrypted_content":' + _ENCODER.encode(encrypted)
    return b'%b,"status":"%b","summary":[%b]%b}' % (_OPEN_REASONING % identifier, status, summary, sealed)


def render_annotation(citation: Citation, characters: int) -> bytes:
    """Return a citation that names an address; one without a place stands behind all ``characters``."""
    annotation = {
        "type": "url_citation",
        "url": citation.url,
        "title": citation.title or "",
        "start_index": characters if citation.start is None else citation.start,
        "end_index": characters if citation.end is None else citation.end,
    }
    return _ENCODER.encode(annotation)


def render_logprobs(tokens: Iterable[TokenLogprob]) -> bytes:
    """Return the tokens, as the inside of a list."""
    rendered = [{**_logprob(token), "top_logprobs": [*map(_logprob, token.top)]} for token in tokens]
    return _ENCODER.encode(rendered)[1:-1]


def _logprob(token: TokenLogprob | Alternative) -> JsonObject:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.token.encode())}


def render_image(seed: str, number: int, media: Media) -> tuple[bytes, bytes]:
    """Return an image in base64 as it begins and as it is."""
    kind = "image_generation_call"
    item: JsonObject = {"type": kind, "id": item_id(kind, seed, number), "status": "in_progress"}
    begun = _ENCODER.encode({**item, "result": None})
    item |= {"status": "completed", "result": media.data}
    if file_format := _FORMATS.get(media.media_type or ""):
        item["output_format"] = file_format
    return begun, _ENCODER.encode(item)


def response_id(seed: str) -> str:
    """Return the identifier of the response to the request that ``seed`` names."""
    return RESPONSE_PREFIX + _digest(seed)


def item_id(kind: str, seed: str, number: int) -> str:
    """Return the identifier of an item of the type ``kind``, the ``number``-th of the response, from 0."""
    return PREFIXES[kind] + _digest(f"{seed}/{number}")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
