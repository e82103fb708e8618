"""The items of a response's output, each in the bytes of its JSON (contract 11.5, 11.7).

Sources: the SDK's ``ResponseOutputItem`` and its members.  What is a function towards the provider is a call
of the client's own kind here: the arguments of the function become the fields of that call.  Arguments that
do not fit are told as the call of a function, so that nothing is lost and the client can say what is wrong.

Texts come as the inside of a JSON string, encoded already: that is how a stream gathers them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import Citation, JsonObject, Media
from mgw.canonical.reply import Alternative, TokenLogprob
from mgw.dialects.arguments import is_empty
from mgw.dialects.dialect import ClientTool, ToolKind
from mgw.dialects.responses.identifiers import item_id

CALL_ID: Final = re.compile(r".{1,64}", re.DOTALL)
"""What Responses takes for ``call_id``: any text of up to 64 characters."""
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
_UNREADABLE: Final = (MsgspecError, UnicodeError, RecursionError)


class CallHead(Struct, frozen=True):
    """What is known of a call from its beginning."""

    tool: ClientTool
    call_id: str


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


def open_text_call(head: CallHead, identifier: bytes) -> tuple[bytes, bytes]:
    """Return a call of a function or of a custom tool, around its status and around its text.

    ``%b`` in the first stands for the status; the text follows it, then the second.
    """
    tool = head.tool
    custom = tool.kind is ToolKind.CUSTOM
    item: JsonObject = {
        "type": "custom_tool_call" if custom else "function_call",
        "id": identifier.decode(),
        "call_id": head.call_id,
        "name": tool.name,
    }
    if tool.namespace is not None:
        item["namespace"] = tool.namespace
    begin = _ENCODER.encode(item)[:-1]
    return begin, b',"input":"' if custom else b',"arguments":"'


def render_text_call(opened: tuple[bytes, bytes], status: bytes, text: bytes) -> bytes:
    """Return a call of a function or of a custom tool."""
    begin, key = opened
    return b'%b,"status":"%b"%b%b"}' % (begin, status, key, text)


class _LocalShell(Struct, tag_field="type", tag="exec", omit_defaults=True):
    """What is not said is left out: some clients take no null there."""

    command: list[str]
    env: dict[str, str] | None = None
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class _Shell(Struct, omit_defaults=True):
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


class _Created(Struct, tag_field="type", tag="create_file"):
    path: str
    diff: str


class _Updated(Struct, tag_field="type", tag="update_file"):
    path: str
    diff: str


class _Deleted(Struct, tag_field="type", tag="delete_file"):
    path: str


class _Patch(Struct):
    operation: _Created | _Updated | _Deleted


_LOCAL_SHELL: Final = Decoder(_LocalShell)
_SHELL: Final = Decoder(_Shell)
_PATCH: Final = Decoder(_Patch)
_OBJECT: Final = Decoder(dict[str, Raw])


def _read_local_shell(arguments: str) -> JsonObject:
    action = _LOCAL_SHELL.decode(arguments)
    action.env = action.env or {}
    return {"action": action}


def _read_shell(arguments: str) -> JsonObject:
    return {"action": _SHELL.decode(arguments)}


def _read_patch(arguments: str) -> JsonObject:
    return {"operation": _PATCH.decode(arguments).operation}


def _read_search(arguments: str) -> JsonObject:
    return {"arguments": _OBJECT.decode(arguments), "execution": "client"}


class _StructuredCall(Struct, frozen=True):
    """A call whose arguments are fields of its own."""

    type: str
    read: Callable[[str], JsonObject]
    """Reads the arguments; raises one of ``_UNREADABLE`` if they do not fit."""
    may_be_incomplete: bool = True


_STRUCTURED: Final = MappingProxyType(
    {
        ToolKind.LOCAL_SHELL: _StructuredCall("local_shell_call", _read_local_shell),
        ToolKind.SHELL: _StructuredCall("shell_call", _read_shell),
        ToolKind.APPLY_PATCH: _StructuredCall("apply_patch_call", _read_patch, may_be_incomplete=False),
        ToolKind.TOOL_SEARCH: _StructuredCall("tool_search_call", _read_search),
    }
)
"""The kinds that are written when their arguments are whole."""


def is_structured(kind: ToolKind) -> bool:
    """Whether the arguments of such a call are fields of its own."""
    return kind in _STRUCTURED


def render_structured_call(
    head: CallHead, seed: str, number: int, arguments: str, status: bytes
) -> tuple[bytes, bytes] | None:
    """Return a call as it begins and as it is; ``None`` where its arguments do not fit its kind."""
    row = _STRUCTURED[head.tool.kind]
    try:
        fields = row.read("{}" if is_empty(arguments) else arguments)
    except _UNREADABLE:
        return None
    identifier = item_id(row.type, seed, number)
    item: JsonObject = {"type": row.type, "id": identifier, "call_id": head.call_id, **fields}
    if not row.may_be_incomplete:
        status = COMPLETED
    begun, ended = ({**item, "status": word.decode()} for word in (IN_PROGRESS, status))
    return _ENCODER.encode(begun), _ENCODER.encode(ended)
