"""The parts of contents, both ways: texts, thoughts, function calls and what functions gave back.

What a function gave back is an object, and a text in the canonical form (contract 8.16).  Text that is a JSON
object goes as that object, other text as ``{"result": text}``, an error as ``{"error": text}``.  Back again
the same way, with ``output``, the key that Google's reference and Gemini CLI write, beside ``result``.

Google matches a ``functionResponse`` by ``id`` where there is one, else by name and order.  A call without an
identifier gets one that is made from its name and its number in the history: the same in every later turn.

Sources: ``Part``, ``FunctionCall`` and ``FunctionResponse`` of google-genai 3.4;
https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from msgspec import Raw
from msgspec.json import Encoder

from mgw.canonical.conversation import (
    JsonObject,
    Media,
    Part,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from mgw.canonical.features import Feature
from mgw.canonical.identifiers import make_id
from mgw.dialects.arguments import object_of
from mgw.dialects.fields import Fields
from mgw.dialects.gemini.media import parse_media
from mgw.dialects.signatures import SKIP_VALIDATOR, is_altered, untag_signature
from mgw.nouns.vocabulary import Family

_GOOGLE_TOOLS: Final = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
"""What Google's own tools did: nobody else has them."""
_DATA: Final = ("functionCall", "functionResponse", "inlineData", "fileData", *_GOOGLE_TOOLS)
"""What a part may hold but for text."""
_METADATA: Final = frozenset(
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
UNSIGNED: Final = Signature(Family.GEMINI, "")
"""The signature of a thought that nobody signed, so that no other family gets it as one of its own."""
_ENCODER: Final = Encoder()


def parse_system(content: Fields) -> tuple[Text, ...]:
    """Return the texts of a system instruction; what is no text there is reported."""
    content.skip("role")
    texts: list[Text] = []
    for index, part in enumerate(content.elements_or_one("parts")):
        text = bare_text(part)
        if text is None:
            text = content.open_element("parts", index, part).text("text")
        if text is not None:
            texts.append(Text(text))
    if texts:
        content.note(Feature.SYSTEM)
    return tuple(texts)


def bare_text(part: JsonObject) -> str | None:
    """Return the text of a part that holds nothing else; ``None``: it is another."""
    text = part.get("text")
    return text if len(part) == 1 and type(text) is str else None


def parse_call(call: Fields, signature: Signature | None, calls: CallMatcher) -> ToolCall:
    """Return a ``functionCall``."""
    name = call.required_text("name")
    call_id = calls.add_call(call.text("id"), name)
    return ToolCall(call_id, name, _encode(call.raw_object("args") or {}), signature)


def parse_result(response: Fields, detail: str | None, calls: CallMatcher) -> ToolResult:
    """Return a ``functionResponse``; ``detail`` is the resolution of images that state none."""
    name = response.text("name", Feature.RESULT_NAME) or ""
    call_id = calls.match_result(response.text("id"), name)
    value = response.raw_object("response")
    text, is_error = ("", False) if value is None else _parse_result_value(value)
    if is_error:
        response.note(Feature.RESULT_ERROR, "response")
    parts: list[Text | Media] = [Text(text)] if text else []
    for part in response.objects_or_one("parts") if response.unread else ():
        media = parse_media(part, detail)
        if media is not None:
            parts.append(media)
    return ToolResult(call_id, tuple(parts), name or None, is_error)


def parse_bare_call(part: JsonObject, calls: CallMatcher) -> ToolCall | None:
    """Return the call that a part of nothing else is; ``None``: it is another, or has more."""
    call = part.get("functionCall")
    if type(call) is not dict or not _is_bare(call, "args"):
        return None
    name: str = call["name"]
    return ToolCall(calls.add_call(call.get("id"), name), name, _encode(call["args"]))


def parse_bare_result(part: JsonObject, content: Fields, calls: CallMatcher) -> ToolResult | None:
    """Return the result that a part of nothing else is; ``None``: it is another, or has more."""
    response = part.get("functionResponse")
    if type(response) is not dict or not _is_bare(response, "response"):
        return None
    name: str = response["name"]
    content.note(Feature.RESULT_NAME, "parts[].functionResponse.name")
    call_id = calls.match_result(response.get("id"), name)
    text, is_error = _parse_result_value(response["response"])
    if is_error:
        content.note(Feature.RESULT_ERROR, "parts[].functionResponse.response")
    return ToolResult(call_id, (Text(text),) if text else (), name or None, is_error)


def _is_bare(said: JsonObject, value: str) -> bool:
    """Whether a call or a result holds a name, the object ``value``, perhaps an ``id``, and nothing else."""
    if type(said.get("name")) is not str or type(said.get(value)) is not dict:
        return False
    return len(said) == 2 or (len(said) == 3 and type(said.get("id")) is str)


def _parse_result_value(value: JsonObject) -> tuple[str, bool]:
    """Return a response as text, and whether it tells of an error."""
    if len(value) == 1:
        key, inner = next(iter(value.items()))
        if key == "error" and inner is not None:
            return (inner if type(inner) is str else _encode(inner)), True
        if key in {"result", "output"} and type(inner) is str:
            return inner, False
    return _encode(value), False


def parse_other_part(part: Fields, detail: str | None) -> Media | None:
    """Return a part that is neither text nor of a function; what Google's own tools did is left.

    :raises GatewayError: ``MALFORMED`` for a part that nobody knows.
    """
    media = parse_media(part, detail)
    if media is not None:
        return media
    for kind in _GOOGLE_TOOLS:
        if kind in part:
            leave_part(part, kind)
            return None
    unknown = next((key for key in part if key in part and _camel(key) not in _METADATA), None)
    if unknown is not None:
        raise part.wrong("", f"parts of type {unknown[:64]!r} are not supported")
    return None


def parse_signature(part: Fields, value: str) -> Signature | None:
    """Return who signed a part; what a gateway or client put in place of a signature is none."""
    if not value or value.translate(_URL_SAFE) in _SKIP_VALUES:  # some clients write the bytes anew
        return None
    signature = untag_signature(value, Family.GEMINI)
    if signature is not None and signature.family is Family.GEMINI:
        part.note(Feature.THINKING, "thoughtSignature")
    return signature


def has_data(part: Fields) -> bool:
    """Whether a part holds anything but text."""
    return any(name in part for name in _DATA)


def path_of_type(part: Fields, kind: str) -> str:
    """Return the path of a part that is reported by its type."""
    return f"{part.path().removesuffix('[]')}[{kind}]"


def leave_part(part: Fields, kind: str) -> None:
    """Report a part as not carried, under its type."""
    part.ledger.leave(path_of_type(part, kind))
    part.skip(*part)


def render_system(system: tuple[Text, ...]) -> list[JsonObject]:
    """Return the parts of a system instruction."""
    return [{"text": text.text} for text in system if text.text]


def render_text(text: str, signature: str | None = None) -> JsonObject:
    """Return a text, with its signature if there is one."""
    return _add_signature({"text": text}, signature)


def render_thought(text: str, signature: str | None = None) -> JsonObject:
    """Return a thought."""
    return _add_signature({"text": text, "thought": True}, signature)


def render_call(call_id: str | None, name: str, args: Raw | JsonObject, signature: str | None) -> JsonObject:
    """Return a ``functionCall``."""
    return _add_signature({"functionCall": {**_id(call_id), "name": name, "args": args}}, signature)


def render_result(call_id: str | None, name: str, value: Raw | JsonObject) -> JsonObject:
    """Return a ``functionResponse``."""
    return {"functionResponse": {**_id(call_id), "name": name, "response": value}}


def _id(call_id: str | None) -> JsonObject:
    return {} if call_id is None else {"id": call_id}


def render_result_value(text: str, *, is_error: bool) -> Raw | JsonObject:
    """Return the ``response`` of a ``functionResponse`` for a result's text."""
    if is_error:
        return {"error": text}
    found = object_of(text)
    return {"result": text} if found is None else found


def make_call_id(seed: str, candidate: int, number: int) -> str:
    """Return the identifier of a call that a response leaves without one, by its candidate and its number."""
    return make_id(f"{seed}/{candidate}" if candidate else seed, number)


@dataclass(slots=True)
class _OpenCall:
    call_id: str
    answered: bool = False


@dataclass(slots=True)
class CallMatcher:
    """Finds the call that a result answers, where identifiers are optional."""

    _calls: int = 0
    _results: int = 0
    _by_id: dict[str, deque[_OpenCall]] = field(default_factory=dict)
    _by_name: dict[str, deque[_OpenCall]] = field(default_factory=dict)

    def add_call(self, call_id: str | None, name: str) -> str:
        """Return the identifier of the next call."""
        call_id = call_id or make_id(name, self._calls)
        self._calls += 1
        call = _OpenCall(call_id)
        self._by_id.setdefault(call_id, deque()).append(call)
        self._by_name.setdefault(name, deque()).append(call)
        return call_id

    def match_result(self, call_id: str | None, name: str) -> str:
        """Return the identifier of the call that the next result answers, or an own one."""
        self._results += 1
        call = _first_open(self._by_id.get(call_id)) if call_id else None
        call = call or _first_open(self._by_name.get(name))
        if call is None:
            return call_id or make_id(f"{name}/result", self._results)
        call.answered = True
        return call.call_id


@dataclass(slots=True)
class PartJoiner:
    """Joins the pieces of a model's turn into parts.

    The parts of one turn, as a streamed response leaves them in a client's history::

        {"text": "Let me ", "thought": true} {"text": "see.", "thought": true}
        {"text": "", "thought": true, "thoughtSignature": "..."} {"text": "It is "} {"text": "blue."}

    are one thought with its signature and one text.
    """

    _parts: list[Part] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _thinking: bool = False

    def add_text(self, text: str, signature: Signature | None) -> None:
        """Add a piece of text, and the signature of the text so far."""
        if self._thinking:
            self._flush()
            self._thinking = False
        if text:
            self._pieces.append(text)
        if signature is not None:
            self._parts.append(Text(self._join(), signature=signature))

    def add_thought(self, text: str, signature: Signature | None, signature_text: str = "") -> bool:
        """Add a piece of a thought, and the signature that ends it; a redacted thought stands for itself.

        ``signature_text`` is the signature as the client has it.  Returned is whether the thought is the one
        that was signed; one that the client has altered is left out.
        """
        if signature is not None and signature.redacted:
            self._flush()
            self._parts.append(Thinking("", signature))
            return True
        if not self._thinking:
            self._flush()
            self._thinking = True
        if text:
            self._pieces.append(text)
        if signature is None:
            return True
        thought = Thinking(self._join(), signature)
        if is_altered(signature_text, thought.text):
            return False
        self._parts.append(thought)
        return True

    def has_thought(self, signature: Signature) -> bool:
        """Whether a thought since the last call has this signature."""
        return any(
            isinstance(part, Thinking) and part.signature == signature
            for part in islice(reversed(self._parts), len(self._parts) - self._after_last_call())
        )

    def restore_thought(self, signature: Signature) -> None:
        """Put a thought that is all signature back where the stretch since the last call begins."""
        self._flush()
        self._parts.insert(self._after_last_call(), Thinking("", signature))

    def add(self, part: Part) -> None:
        """Add a whole part."""
        self._flush()
        self._parts.append(part)

    def finish(self) -> tuple[Part, ...]:
        """Return the parts, and begin anew."""
        if self._pieces:
            self._flush()
        parts = tuple(self._parts)
        self._parts.clear()
        return parts

    def _after_last_call(self) -> int:
        """Return the place behind the last call."""
        place = len(self._parts)
        while place and not isinstance(self._parts[place - 1], ToolCall):
            place -= 1
        return place

    def _join(self) -> str:
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def _flush(self) -> None:
        if self._pieces:
            text = "".join(self._pieces)
            self._pieces.clear()
            self._parts.append(Thinking(text, UNSIGNED) if self._thinking else Text(text))


def _first_open(calls: deque[_OpenCall] | None) -> _OpenCall | None:
    while calls:
        if not calls[0].answered:
            return calls[0]
        calls.popleft()
    return None


def _add_signature(part: JsonObject, signature: str | None) -> JsonObject:
    if signature:
        part["thoughtSignature"] = signature
    return part


def _camel(key: str) -> str:
    head, *tail = key.split("_")
    return head + "".join(word.title() for word in tail)


def _encode(value: Any) -> str:  # Any: JSON
    """Return compact JSON text, in the sender's key order.

    :raises RecursionError: where it is nested too deeply.
    """
    return _ENCODER.encode(value).decode()
