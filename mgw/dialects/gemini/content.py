"""The contents of a request: what was said, as turns.

A client keeps a streamed answer as it came, one content per chunk, and sends it back so.  Contents of the
model that follow one another are therefore one turn, and the pieces of a thought or of a text are one part
again: a signature belongs to the whole of what stands before it.  The user's contents stay one to one.

Sources: ``Content`` and ``Part`` of google-genai 3.4, its ``Chat``;
https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import (
    Media,
    MediaKind,
    Part,
    Role,
    Signature,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.gemini.calls import CallLog
from mgw.dialects.gemini.enums import PART_RESOLUTIONS, enum_text
from mgw.dialects.gemini.media import parse_blob, parse_file
from mgw.dialects.gemini.results import encoded, text_of
from mgw.dialects.gemini.spoken import Spoken
from mgw.dialects.gemini.thoughts import may_be_carried
from mgw.dialects.signatures import SKIP_VALIDATOR, is_altered, read_signature
from mgw.vocabulary import Family

_ROLES: Final = MappingProxyType({"user": Role.USER, "function": Role.USER, "model": Role.ASSISTANT})
_VENDOR_RUN: Final = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
"""What Google's own tools did: nobody else has them."""
_DATA: Final = ("functionCall", "functionResponse", "inlineData", "fileData", *_VENDOR_RUN)
"""What a part may hold but for text."""
_BESIDE: Final = frozenset(
    {
        "videoMetadata",
        "partMetadata",
        "mediaResolution",
        "mediaProcessing",
        "audioTranscription",
        "speechMetadata",
        "documentMetadata",
        "spreadsheetMetadata",
        "audioMetadata",
    }
)
"""What stands beside the data of a part and is none."""
_SKIP_VALUES: Final = frozenset({SKIP_VALIDATOR, "context_engineering_is_the_way_to_go"})
_URL_SAFE: Final = str.maketrans("+/", "-_")
_DETAIL: Final = "MEDIA_RESOLUTION_"
DETAILS: Final = frozenset({"low", "medium", "high", "ultra_high"})
"""The names of resolutions, as the canonical form has them."""


def parse_contents(contents: list[Fields], detail: str | None = None) -> tuple[Turn, ...]:
    """Return the turns; ``detail`` is the resolution of media that state none of their own.

    Raises: :class:`GatewayError` (``MALFORMED``) for roles and parts that nobody knows.
    """
    reader = _Reader(detail)
    for content in contents:
        reader.read(content)
    return reader.finish()


def parse_system(content: Fields) -> tuple[Text, ...]:
    """Return the texts of a system instruction; what is no text there is reported."""
    content.skip("role")
    texts: list[Text] = []
    for part in content.objects_or_one("parts"):
        text = part.text("text")
        if text is not None:
            content.note(Feature.SYSTEM)
            texts.append(Text(text))
    return tuple(texts)


def detail_of(level: str | None) -> str | None:
    """Return the canonical name of a media resolution; ``None`` for none that is known."""
    name = (level or "").upper().removeprefix(_DETAIL).lower()
    return name if name in DETAILS else None


def leave_part(part: Fields, kind: str) -> None:
    """Report a part as not carried, under its type."""
    part.ledger.leave(_typed(part, kind))
    part.skip(*part)


@dataclass(slots=True)
class _Reader:
    """Reads contents in order."""

    _detail: str | None
    _calls: CallLog = field(default_factory=CallLog)
    _turns: list[Turn] = field(default_factory=list)
    _spoken: Spoken = field(default_factory=Spoken)

    def read(self, content: Fields) -> None:
        """Take one content."""
        role = content.text("role") or "user"
        meant = _ROLES.get(role.lower())  # Google's own examples say "USER", too
        if meant is None:
            raise none_of(content, "role", role, _ROLES)
        parts = content.objects_or_one("parts")
        if meant is Role.ASSISTANT:
            for part in parts:
                self._say(part)
            return
        self._close()
        heard = [found for part in parts if (found := self._hear(part)) is not None]
        self._turns.append(Turn(Role.USER, tuple(heard)))

    def finish(self) -> tuple[Turn, ...]:
        """Return all turns."""
        self._close()
        return tuple(self._turns)

    def _close(self) -> None:
        parts = self._spoken.finish()
        if parts:
            self._turns.append(Turn(Role.ASSISTANT, parts))

    def _say(self, part: Fields) -> None:
        """Take a part of the model's."""
        thought = part.flag("thought")
        sealed = part.text("thoughtSignature") or ""
        signature = _signature(part, sealed)
        text = part.text("text")
        if text is not None or (signature is not None and not any(name in part for name in _DATA)):
            if thought:
                part.ledger.note(Feature.THINKING, _typed(part, "thought"))
                if not self._spoken.think(text or "", signature, sealed):
                    part.ledger.leave(_typed(part, "thought"))
            else:
                self._spoken.say(text or "", signature)
            return
        if "functionResponse" in part:
            raise part.wrong("functionResponse", "it belongs in a content of role 'user'")
        call = part.nested("functionCall")
        if call is not None:
            if signature is not None and may_be_carried(signature):
                self._restore(part, signature, sealed)
                signature = None
            self._spoken.add(self._call(call, signature))
            return
        found = self._datum(part)
        if found is not None:
            self._spoken.add(found)

    def _restore(self, part: Fields, signature: Signature, sealed: str) -> None:
        """Bring back a thought that the client has dropped, and of which the signature is the whole."""
        if self._spoken.remembers(signature):
            return
        if is_altered(sealed, ""):
            part.ledger.leave(part.path("thoughtSignature"))
            return
        part.note(Feature.THINKING, "thoughtSignature")
        self._spoken.restore(signature)

    def _hear(self, part: Fields) -> Part | None:
        """Return a part of the user's."""
        if part.flag("thought"):
            leave_part(part, "thought")
            return None
        part.skip("thoughtSignature")
        text = part.text("text")
        if text is not None:
            return Text(text)
        if "functionCall" in part:
            raise part.wrong("functionCall", "it belongs in a content of role 'model'")
        response = part.nested("functionResponse")
        if response is not None:
            return self._result(response)
        return self._datum(part)

    def _call(self, call: Fields, signature: Signature | None) -> ToolCall:
        name = call.required_text("name")
        call_id = self._calls.call(call.text("id"), name)
        return ToolCall(call_id, name, encoded(call.raw_object("args") or {}), signature)

    def _result(self, response: Fields) -> ToolResult:
        name = response.text("name", Feature.RESULT_NAME) or ""
        call_id = self._calls.result(response.text("id"), name)
        said = response.raw_object("response")
        text, is_error = ("", False) if said is None else text_of(said)
        if is_error:
            response.note(Feature.RESULT_ERROR, "response")
        parts: list[Text | Media] = [Text(text)] if text else []
        for part in response.objects_or_one("parts"):
            media = self._media(part)
            if media is not None:
                parts.append(media)
        return ToolResult(call_id, tuple(parts), name or None, is_error)

    def _datum(self, part: Fields) -> Media | None:
        """Return a part that is neither text nor of a function."""
        media = self._media(part)
        if media is not None:
            return media
        for kind in _VENDOR_RUN:
            if kind in part:
                leave_part(part, kind)
                return None
        unknown = next((key for key in part if key in part and _camel(key) not in _BESIDE), None)
        if unknown is not None:
            raise part.wrong("", f"parts of the type {unknown[:64]!r} are not supported")
        return None

    def _media(self, part: Fields) -> Media | None:
        blob = part.nested("inlineData")
        file = None if blob is not None else part.nested("fileData")
        media = parse_blob(blob) if blob is not None else parse_file(file) if file is not None else None
        if media is None:
            return None
        detail = _level(part) or (self._detail if media.kind is MediaKind.IMAGE else None)
        if detail is None:
            return media
        return replace(media, detail=detail)


def _level(part: Fields) -> str | None:
    """Return the resolution that a part states; one that is not known stays unread."""
    resolution = part.nested("mediaResolution")
    if resolution is None:
        return None
    level = detail_of(enum_text(resolution, "level", PART_RESOLUTIONS))
    if level is None:
        resolution.leave()
    else:
        resolution.note(Feature.MEDIA_DETAIL)
    return level


def _signature(part: Fields, value: str) -> Signature | None:
    """Return who signed a part; what a gateway or client put in place of a signature is none."""
    if not value or value.translate(_URL_SAFE) in _SKIP_VALUES:  # some clients write the bytes anew
        return None
    signature = read_signature(value, Family.GEMINI)
    if signature is not None and signature.family is Family.GEMINI:
        part.note(Feature.THINKING, "thoughtSignature")
    return signature


def _typed(part: Fields, kind: str) -> str:
    """Return the path of a part that is told by its type."""
    return f"{part.path().removesuffix('[]')}[{kind}]"


def _camel(key: str) -> str:
    head, *tail = key.split("_")
    return head + "".join(word.title() for word in tail)
