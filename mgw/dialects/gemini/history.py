"""Turns as Google's contents.

Contents alternate here: turns of one side that follow one another are one content.  What Google demands, and
what is done for it:

* A function call comes after a user's turn, so a history that begins with the model gets a user's before it.
* Every call is answered in the next content, in one response each and in the order of the calls, so results
  are put there from wherever they stand, and a call without one gets a response that says so.
* Models without ``prefill`` (3.6 Flash, 3.5 Flash-Lite and later) refuse a request that ends with the model's
  turn, so there the user asks it to go on.
* Models with ``signatures`` refuse a first call of a step of the running turn that is not signed, so it gets
  the documented value that skips the check.  The running turn begins at the user's last content that is no
  answer to calls.

Media of a result stand beside the response: ``functionResponse.parts`` is known to newer models only, and
takes no addresses.  What is text of them, and a word in place of what is left out, stands in it.

Sources: the refusals of generateContent ("Please ensure that function call turn comes immediately after a
user turn or after a function response turn", "... that the number of function response parts is equal to the
number of function call parts", "Requests ending with a model turn are not supported");
https://ai.google.dev/gemini-api/docs/thought-signatures and the developer's guide of Gemini 3.6 Flash.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec import Raw

from mgw.canonical.conversation import (
    Conversation,
    JsonObject,
    Media,
    Part,
    Refusal,
    Role,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.arguments import embedded
from mgw.dialects.fillers import ATTACHED, BEGIN, BETWEEN, GO_ON, NO_RESULT, left_out, orphaned, told
from mgw.dialects.gemini.media import readable, render_media
from mgw.dialects.gemini.parts import call_part, response_part, text_part, thought_part
from mgw.dialects.gemini.results import response_of
from mgw.dialects.identifiers import GEMINI_ID
from mgw.dialects.model_row import ModelRow
from mgw.dialects.names import Names
from mgw.dialects.pairs import Call, paired
from mgw.dialects.refusal import no_addresses
from mgw.dialects.signatures import SKIP_VALIDATOR
from mgw.vocabulary import Family

USER: Final = "user"
MODEL: Final = "model"

Parts = list[JsonObject]


@dataclass(slots=True)
class _Group:
    """Turns of one side that follow one another."""

    role: str
    parts: list[Part] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    """Those among the parts, in their order; results that answer one are not."""


def render_contents(
    conversation: Conversation, row: ModelRow, names: Names, lost: set[Feature]
) -> list[JsonObject]:
    """Return the contents, and add to ``lost`` what they cannot say.

    Raises: :class:`GatewayError` (``MALFORMED``) for an address that the model does not fetch.
    """
    contents = _Contents(row, names, lost)
    for group in _grouped(conversation.turns):
        if group.role == MODEL:
            contents.speak(group)
        else:
            contents.hear(group)
    found = contents.found
    if found and found[0]["role"] == MODEL:
        found.insert(0, {"role": USER, "parts": [text_part(BEGIN)]})
    if found and found[-1]["role"] == MODEL and not row.prefill:
        found.append({"role": USER, "parts": [text_part(GO_ON)]})
    if row.signatures:
        _sign(found)
    return found


def _grouped(turns: tuple[Turn, ...]) -> list[_Group]:
    pairs = paired(turns, GEMINI_ID)
    groups: list[_Group] = []
    for number, turn in enumerate(turns):
        role = MODEL if turn.role is Role.ASSISTANT else USER
        if not groups or groups[-1].role != role:
            groups.append(_Group(role))
        for index, part in enumerate(turn.parts):
            place = number, index
            if place in pairs.calls:
                groups[-1].calls.append(pairs.calls[place])
            if place not in pairs.taken:
                groups[-1].parts.append(part)
    return groups


@dataclass(slots=True)
class _Contents:
    """The contents so far."""

    row: ModelRow
    names: Names
    lost: set[Feature]
    found: list[JsonObject] = field(default_factory=list)

    def speak(self, group: _Group) -> None:
        """Add a turn of the model's and the answers to its calls."""
        calls = iter(group.calls)
        carried: str | None = None
        parts: Parts = []
        for place, part in enumerate(group.parts):
            if isinstance(part, ToolCall):
                parts.append(self._called(next(calls), carried))
                carried = None
            elif isinstance(part, Thinking):
                carried = self._carried(group.parts, place)
                self._think(part, parts, signed=carried is None)
            else:
                carried = None
                parts += self._said(part)
        self._add(MODEL, parts)
        self._add(USER, self._responses(group.calls))

    def hear(self, group: _Group) -> None:
        """Add a turn of the user's."""
        self._add(USER, [found for part in group.parts for found in self._said(part)])

    def _add(self, role: str, parts: Parts) -> None:
        if not parts:
            return
        if self.found and self.found[-1]["role"] == role:
            self.found[-1]["parts"] += parts
        else:
            self.found.append({"role": role, "parts": parts})

    def _called(self, call: Call, carried: str | None) -> JsonObject:
        said = call.part
        signature = _own(said.signature) or carried
        return call_part(call.id, self.names[said.name], embedded(said.arguments), signature)

    def _carried(self, parts: list[Part], place: int) -> str | None:
        """Return the signature of a thought if it is that of the call behind it.

        A client whose wire signs no calls has the call's signature beside the thought.
        """
        thought = parts[place]
        after = parts[place + 1] if place + 1 < len(parts) else None
        if not isinstance(thought, Thinking) or not isinstance(after, ToolCall) or _own(after.signature):
            return None
        return _own(thought.signature)

    def _think(self, thought: Thinking, parts: Parts, *, signed: bool) -> None:
        signature = thought.signature
        if signature is None or signature.family is not Family.GEMINI:
            self.lost.add(Feature.THINKING)
            return
        value = _own(signature) if signed else None
        if thought.text or value:
            parts.append(thought_part(thought.text, value))

    def _responses(self, calls: list[Call]) -> Parts:
        """Return the answers to calls, then the media of all of them."""
        responses: Parts = []
        attached: Parts = []
        for call in calls:
            response: Raw | JsonObject = {"error": NO_RESULT}
            if call.result is not None:
                response, media = self._response(call.result)
                attached += media
            responses.append(response_part(call.id, self.names[call.part.name], response))
        return responses + attached

    def _response(self, result: ToolResult) -> tuple[Raw | JsonObject, Parts]:
        """Return what a result says, and the media that stand beside it."""
        texts: list[str] = []
        media: Parts = []
        for part in result.parts:
            said = self._said(part)
            if all("text" in one for one in said):
                texts += (one["text"] for one in said)
            else:
                media += said
        text = BETWEEN.join(texts) or (ATTACHED if media else "")
        return response_of(text, is_error=result.is_error), media

    def _said(self, part: Part) -> Parts:
        """Return the parts for one that is neither a call nor a thought."""
        match part:
            case Text():
                signature = _own(part.signature)
                return [text_part(part.text, signature)] if part.text or signature else []
            case Media():
                return self._shown(part)
            case Refusal():
                return [text_part(part.text)] if part.text else []
            case ToolResult():
                return [said for inner in orphaned(part) for said in self._said(inner)]
        return []

    def _shown(self, media: Media) -> Parts:
        if media.text is not None:
            text = told(media)
            return [text_part(text)] if text else []
        if media.name is not None:
            self.lost.add(Feature.MEDIA_NAME)
        seen = readable(media)
        if seen is None:
            self.lost.add(Feature.IMAGE)
            return _beside(media, text_part(left_out(media)))
        if media.url is not None and not self.row.addresses and not media.url.startswith("gs:"):
            raise no_addresses(media.url)
        found = render_media(seen)
        if found is None:
            self.lost.add(Feature.FILE_ID)
            found = text_part(left_out(media))
        return _beside(media, found)


def _beside(media: Media, part: JsonObject) -> Parts:
    """Return the part of media behind what the model should know of it."""
    return [text_part(media.context), part] if media.context else [part]


def _own(signature: Signature | None) -> str | None:
    """Return a signature's value if Google made it."""
    if signature is None or signature.family is not Family.GEMINI:
        return None
    return signature.value or None


def _sign(contents: list[JsonObject]) -> None:
    """Let the first call of each step of the running turn pass where it has no signature."""
    for content in reversed(contents):
        parts: Parts = content["parts"]
        if content["role"] == MODEL:
            first = next((part for part in parts if "functionCall" in part), None)
            if first is not None:
                first.setdefault("thoughtSignature", SKIP_VALIDATOR)
        elif not any("functionResponse" in part for part in parts):
            return
