"""The calls of an answer: a function towards the provider is a call of the client's own kind here.

The arguments of the function become the fields of that call (contract 11.5).  Arguments that do not fit are
told as the call of a function, so that nothing is lost and the client can say what is wrong.  What streams is
written as it comes; a call whose arguments are fields of its own, when they are whole.

A custom tool's function takes ``{"input": string}``.  Arguments that begin like that object are decoded as
they come, and what follows the string is not read.  Anything else is kept to its end: an object that has the
string in another place gives it, and what is no such object is the input itself.  An empty object is no
input, as no arguments are: Anthropic's wire has the one in whole answers and the other in streams.  The
result depends on the whole text alone, not on how it was cut.  What was broken off in the string gives its
beginning; an escape that JSON does not have stands for itself, as models write those of regular expressions;
half of a surrogate pair is U+FFFD.

Source: the SDK's ``ResponseOutputItem`` and its members.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json import JSONDecoder
from types import MappingProxyType
from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import JsonObject
from mgw.dialects.arguments import is_empty
from mgw.dialects.responses.blocks import COMPLETED, IN_PROGRESS, INCOMPLETE, item_id
from mgw.dialects.responses.schema import ClientTool, ToolKind
from mgw.dialects.responses.stream_items import ARGUMENTS, INPUT, EventLog, TextRun
from mgw.dialects.serial_writer import STRING_BYTES

_LONGEST_BEGIN: Final = 64
"""Characters in which the string must begin to be decoded as it comes."""
_BEGIN: Final = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"input"[ \t\r\n]*:[ \t\r\n]*"')
_CUT: Final = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?)?\Z"
    r"|\\(?P<whole>.)",
    re.DOTALL,
)
"""An escape at the end that may go on, or one that is whole."""
_LONGEST_CUT: Final = 12
_NO_ESCAPE: Final = re.compile(r'\\(?!["/bfnrt]|u[0-9a-fA-F]{4})')
_BACKSLASH: Final = "\\u005c"
_BACKSLASH_TEMPLATE: Final = "\\" + _BACKSLASH
_HALF: Final = re.compile("[\ud800-\udfff]")
_STRING: Final = JSONDecoder(strict=False)
"""Takes halves of surrogate pairs, too, and says where the string ends."""
_UNREADABLE: Final = (MsgspecError, UnicodeError, RecursionError)
_ENCODER: Final = Encoder()
_OBJECT: Final = Decoder(dict[str, Raw])
_LONGEST_EMPTY: Final = 64
"""Characters of arguments that may still turn out to be none."""


class CustomInput:
    """Decodes the input of one call, piece by piece."""

    __slots__ = ("_held", "_is_string", "_tail")

    def __init__(self) -> None:
        self._held: list[str] = []
        """What is not decoded yet."""
        self._is_string: bool | None = None
        """Whether the string is decoded as it comes; ``None``: not known yet."""
        self._tail: str | None = ""
        """An escape that may go on; ``None``: the string has ended."""

    def feed(self, arguments: str) -> str:
        """Return what more of the arguments adds to the input."""
        if self._is_string:
            return self._decode(arguments)
        self._held.append(arguments)
        if self._is_string is False:
            return ""
        begun = "".join(self._held)
        found = _BEGIN.match(begun[:_LONGEST_BEGIN])
        if found is None:
            self._held = [begun]
            self._is_string = False if len(begun) >= _LONGEST_BEGIN else None
            return ""
        self._is_string = True
        self._held.clear()
        return self._decode(begun[found.end() :])

    def finish(self) -> str:
        """Return what the end of the arguments adds to the input."""
        if self._is_string:
            return ""
        text = "".join(self._held)
        self._held.clear()
        if is_empty(text) or (len(text) <= _LONGEST_BEGIN and text.split() == ["{}"]):
            return ""
        try:
            return _DECODER.decode(text).input
        except _UNREADABLE:
            return text

    def _decode(self, piece: str) -> str:
        """Return what a piece of the string says."""
        if self._tail is None:
            return ""
        text = self._tail + piece
        cut = _find_cut(text)
        whole, self._tail = text[:cut], text[cut:]
        try:
            said, end = _STRING.raw_decode(f'"{whole}"')
        except ValueError:  # escapes that JSON does not have
            whole = _NO_ESCAPE.sub(_BACKSLASH_TEMPLATE, whole.replace("\\\\", _BACKSLASH))
            said, end = _STRING.raw_decode(f'"{whole}"')
        if end < len(whole) + 2:
            self._tail = None
        return said if said.isascii() else _HALF.sub("\ufffd", said)


class OpenTextCall:
    """A call that is open, whose arguments or input stream."""

    __slots__ = ("_held", "_input", "_log", "_opened", "_run", "ended")

    def __init__(self, log: EventLog, head: CallHead) -> None:
        self._log = log
        custom = head.tool.kind is ToolKind.CUSTOM
        identifier = log.next_id("custom_tool_call" if custom else "function_call")
        self._opened = open_text_call(head, identifier)
        self._input = CustomInput() if custom else None
        place = b'"item_id":"%b","output_index":%d' % (identifier, len(log.items))
        self._run = TextRun(log, INPUT if custom else ARGUMENTS, place)
        self._held: str | None = ""
        """Arguments that may still turn out to be none; ``None``: they are some."""
        self.ended = False
        """Whether its text is whole; its item is not ended yet."""
        log.begin_item(render_text_call(self._opened, IN_PROGRESS, b""))

    def add(self, arguments: str) -> None:
        """Add arguments."""
        if self._input is not None:
            self._log.kept_bytes += len(arguments) + STRING_BYTES
            self._write(self._input.feed(arguments))
        elif self._held is None:
            self._write(arguments)
        else:
            self._held += arguments
            if len(self._held) > _LONGEST_EMPTY or not "null".startswith(self._held.strip()):
                self._flush()

    def end_text(self) -> None:
        """End the arguments, or the input."""
        if self._input is not None:
            self._write(self._input.finish())
        elif self._held is not None:
            self._held = "{}" if is_empty(self._held) else self._held
            self._flush()
        self._run.end()
        self.ended = True

    def end(self, status: bytes) -> None:
        """End the call."""
        if not self.ended:
            self.end_text()
        self._log.end_item(render_text_call(self._opened, status, self._run.inside()))

    def render(self) -> bytes:
        """Return the call as it is now, which it will not go on from."""
        return render_text_call(self._opened, INCOMPLETE, self._run.inside())

    def _flush(self) -> None:
        text, self._held = self._held, None
        self._write(text or "")

    def _write(self, text: str) -> None:
        if text:
            self._run.add(text)


class OpenStructuredCall:
    """A call that is written when its arguments are whole."""

    __slots__ = ("_arguments", "_log", "ended", "head")

    def __init__(self, log: EventLog, head: CallHead) -> None:
        self._log = log
        self._arguments: list[str] = []
        self.head = head
        self.ended = False

    def add(self, arguments: str) -> None:
        """Keep more of the arguments."""
        self._log.kept_bytes += len(arguments) + STRING_BYTES
        self._arguments.append(arguments)

    def end_text(self) -> None:
        """Take the arguments as whole."""
        self.ended = True

    def end(self, status: bytes) -> None:
        """Write the call, of the client's own kind where its arguments fit."""
        log, arguments = self._log, "".join(self._arguments)
        rendered = render_structured_call(self.head, log.seed, len(log.items), arguments, status)
        if rendered is not None:
            log.add_item(*rendered)
            return
        call = OpenTextCall(
            log, CallHead(ClientTool(ToolKind.FUNCTION, self.head.tool.name), self.head.call_id)
        )
        call.add(arguments)
        call.end(status)

    def render(self) -> None:
        """Nothing of it has been written."""


class CallHead(Struct, frozen=True):
    """What is known of a call from its beginning."""

    tool: ClientTool
    call_id: str


class _Input(Struct):
    input: str


_DECODER: Final = Decoder(_Input)


def _find_cut(text: str) -> int:
    """Return where the last escape begins, if it may go on, else the end."""
    start = max(0, len(text) - _LONGEST_CUT)
    start -= (start - len(text[:start].rstrip("\\"))) % 2  # not between a backslash and what it escapes
    for escape in _CUT.finditer(text, start):
        if escape["whole"] is None:
            return escape.start()
    return len(text)


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


class _StructuredKind(Struct, frozen=True):
    """A call whose arguments are fields of its own."""

    type: str
    read: Callable[[str], JsonObject]
    """Reads the arguments; raises one of ``_UNREADABLE`` if they do not fit."""
    may_be_incomplete: bool = True


_STRUCTURED: Final = MappingProxyType(
    {
        ToolKind.LOCAL_SHELL: _StructuredKind("local_shell_call", _read_local_shell),
        ToolKind.SHELL: _StructuredKind("shell_call", _read_shell),
        ToolKind.APPLY_PATCH: _StructuredKind("apply_patch_call", _read_patch, may_be_incomplete=False),
        ToolKind.TOOL_SEARCH: _StructuredKind("tool_search_call", _read_search),
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
