"""Turns as Google's contents, both ways.

Clients keep a streamed response as it came, one content per chunk, and send it back so.  Contents of the
model that follow one another are therefore one turn, and the pieces of a thought or of a text are one part
again: a signature belongs to the whole of what stands before it.  The user's contents stay one to one.

To Google: turns of one side that follow one another are one content.  What Google demands, and what is done
for it:

* A function call comes after a user's turn, so a history that begins with the model gets a user's before it.
* Every call has its result in the next content, in one ``functionResponse`` each and in the order of the
  calls, so results are put there from wherever they stand, and a call without one gets one that says so.
* Models without ``prefill`` (3.6 Flash, 3.5 Flash-Lite and later) refuse a request that ends with the model's
  turn, so there the user asks it to go on.
* Models with ``signatures`` refuse a first call of a step of the running turn that is not signed, so it gets
  the documented value that skips the check.  The running turn begins at the user's last content without
  results.

Media of a result stand beside the response: ``functionResponse.parts`` is known to newer models only, and
takes no addresses.  What is text of them, and a word in place of what is left out, stands in it.

Sources: ``Content`` and ``Part`` of google-genai 3.4, its ``Chat``; the refusals of generateContent ("Please
ensure that function call turn comes immediately after a user turn or after a function response turn", "...
that the number of function response parts is equal to the number of function call parts", "Requests ending
with a model turn are not supported"); https://ai.google.dev/gemini-api/docs/thought-signatures and the
developer's guide of Gemini 3.6 Flash.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
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
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.fillers import ATTACHED, BEGIN, BETWEEN, GO_ON, NO_RESULT, left_out, orphaned, told
from mgw.dialects.gemini.blocks import (
    CallMatcher,
    PartJoiner,
    has_data,
    leave_part,
    parse_call,
    parse_other_part,
    parse_result,
    parse_signature,
    path_of_type,
    render_call,
    render_result,
    render_result_value,
    render_text,
    render_thought,
)
from mgw.dialects.gemini.media import normalize_media, render_media
from mgw.dialects.gemini.thoughts import may_be_carried
from mgw.dialects.identifiers import GEMINI_ID
from mgw.dialects.model_row import ModelRow
from mgw.dialects.names import Names
from mgw.dialects.pairs import Call, paired
from mgw.dialects.refusal import no_addresses
from mgw.dialects.signatures import SKIP_VALIDATOR, is_altered
from mgw.vocabulary import Family

USER: Final = "user"
MODEL: Final = "model"

_ROLES: Final = MappingProxyType({"user": Role.USER, "function": Role.USER, "model": Role.ASSISTANT})

_Parts = list[JsonObject]


def parse_turns(contents: list[Fields], detail: str | None = None) -> tuple[Turn, ...]:
    """Return the turns; ``detail`` is the resolution of images that state none of their own.

    Raises: :class:`GatewayError` (``MALFORMED``) for roles and parts that nobody knows.
    """
    parser = _TurnParser(detail)
    for content in contents:
        parser.parse(content)
    return parser.finish()


@dataclass(slots=True)
class _TurnParser:
    """Parses contents in order."""

    _detail: str | None
    _calls: CallMatcher = field(default_factory=CallMatcher)
    _turns: list[Turn] = field(default_factory=list)
    _joiner: PartJoiner = field(default_factory=PartJoiner)
    """The model's turn so far."""

    def parse(self, content: Fields) -> None:
        """Parse one content."""
        name = content.text("role") or USER
        role = _ROLES.get(name.lower())  # Google's own examples have "USER", too
        if role is None:
            raise none_of(content, "role", name, _ROLES)
        parts = content.objects_or_one("parts")
        if role is Role.ASSISTANT:
            for part in parts:
                self._parse_model_part(part)
            return
        self._end_model_turn()
        found = [one for part in parts if (one := self._parse_user_part(part)) is not None]
        self._turns.append(Turn(Role.USER, tuple(found)))

    def finish(self) -> tuple[Turn, ...]:
        """Return all turns."""
        self._end_model_turn()
        return tuple(self._turns)

    def _end_model_turn(self) -> None:
        parts = self._joiner.finish()
        if parts:
            self._turns.append(Turn(Role.ASSISTANT, parts))

    def _parse_model_part(self, part: Fields) -> None:
        is_thought = part.flag("thought")
        signature_text = part.text("thoughtSignature") or ""
        signature = parse_signature(part, signature_text)
        text = part.text("text")
        if text is not None or (signature is not None and not has_data(part)):
            if is_thought:
                part.ledger.note(Feature.THINKING, path_of_type(part, "thought"))
                if not self._joiner.add_thought(text or "", signature, signature_text):
                    part.ledger.leave(path_of_type(part, "thought"))
            else:
                self._joiner.add_text(text or "", signature)
            return
        if "functionResponse" in part:
            raise part.wrong("functionResponse", "it belongs in a content of role 'user'")
        call = part.nested("functionCall")
        if call is not None:
            if signature is not None and may_be_carried(signature):
                self._restore_thought(part, signature, signature_text)
                signature = None
            self._joiner.add(parse_call(call, signature, self._calls))
            return
        other = parse_other_part(part, self._detail)
        if other is not None:
            self._joiner.add(other)

    def _restore_thought(self, part: Fields, signature: Signature, signature_text: str) -> None:
        """Bring back a thought that the client has dropped, and of which the signature is the whole."""
        if self._joiner.has_thought(signature):
            return
        if is_altered(signature_text, ""):
            part.ledger.leave(part.path("thoughtSignature"))
            return
        part.note(Feature.THINKING, "thoughtSignature")
        self._joiner.restore_thought(signature)

    def _parse_user_part(self, part: Fields) -> Part | None:
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
            return parse_result(response, self._detail, self._calls)
        return parse_other_part(part, self._detail)


def render_turns(
    conversation: Conversation, row: ModelRow, names: Names, lost: set[Feature]
) -> list[JsonObject]:
    """Return the contents, and add to ``lost`` what they cannot express.

    Raises: :class:`GatewayError` (``MALFORMED``) for an address that the model does not fetch.
    """
    renderer = _TurnRenderer(row, names, lost)
    for group in _group_turns(conversation.turns):
        if group.role == MODEL:
            renderer.add_model_turn(group)
        else:
            renderer.add_user_turn(group)
    contents = renderer.contents
    if contents and contents[0]["role"] == MODEL:
        contents.insert(0, {"role": USER, "parts": [render_text(BEGIN)]})
    if contents and contents[-1]["role"] == MODEL and not row.prefill:
        contents.append({"role": USER, "parts": [render_text(GO_ON)]})
    if row.signatures:
        _skip_validation(contents)
    return contents


@dataclass(slots=True)
class _Group:
    """Turns of one side that follow one another."""

    role: str
    parts: list[Part] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    """Those among the parts, in their order; results that answer one are not."""


def _group_turns(turns: tuple[Turn, ...]) -> list[_Group]:
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
class _TurnRenderer:
    """Renders turns in order."""

    row: ModelRow
    names: Names
    lost: set[Feature]
    contents: list[JsonObject] = field(default_factory=list)

    def add_model_turn(self, group: _Group) -> None:
        """Add a turn of the model's and the results of its calls."""
        calls = iter(group.calls)
        carried: str | None = None
        parts: _Parts = []
        for place, part in enumerate(group.parts):
            if isinstance(part, ToolCall):
                parts.append(self._render_call(next(calls), carried))
                carried = None
            elif isinstance(part, Thinking):
                carried = self._find_carried(group.parts, place)
                self._add_thought(part, parts, signed=carried is None)
            else:
                carried = None
                parts += self._render_part(part)
        self._add(MODEL, parts)
        self._add(USER, self._render_results(group.calls))

    def add_user_turn(self, group: _Group) -> None:
        """Add a turn of the user's."""
        self._add(USER, [one for part in group.parts for one in self._render_part(part)])

    def _add(self, role: str, parts: _Parts) -> None:
        if not parts:
            return
        if self.contents and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _render_call(self, call: Call, carried: str | None) -> JsonObject:
        part = call.part
        signature = _own_signature(part.signature) or carried
        return render_call(call.id, self.names[part.name], embedded(part.arguments), signature)

    def _find_carried(self, parts: list[Part], place: int) -> str | None:
        """Return the signature of a thought if it is that of the call behind it.

        A client whose dialect signs no calls has the call's signature beside the thought.
        """
        thought = parts[place]
        after = parts[place + 1] if place + 1 < len(parts) else None
        if (
            not isinstance(thought, Thinking)
            or not isinstance(after, ToolCall)
            or _own_signature(after.signature)
        ):
            return None
        return _own_signature(thought.signature)

    def _add_thought(self, thought: Thinking, parts: _Parts, *, signed: bool) -> None:
        signature = thought.signature
        if signature is None or signature.family is not Family.GEMINI:
            self.lost.add(Feature.THINKING)
            return
        value = _own_signature(signature) if signed else None
        if thought.text or value:
            parts.append(render_thought(thought.text, value))

    def _render_results(self, calls: list[Call]) -> _Parts:
        """Return the results of calls, then the media of all of them."""
        responses: _Parts = []
        attached: _Parts = []
        for call in calls:
            value: Raw | JsonObject = {"error": NO_RESULT}
            if call.result is not None:
                value, media = self._render_result_value(call.result)
                attached += media
            responses.append(render_result(call.id, self.names[call.part.name], value))
        return responses + attached

    def _render_result_value(self, result: ToolResult) -> tuple[Raw | JsonObject, _Parts]:
        """Return the ``response`` of a result, and the media that stand beside it."""
        texts: list[str] = []
        media: _Parts = []
        for part in result.parts:
            rendered = self._render_part(part)
            if all("text" in one for one in rendered):
                texts += (one["text"] for one in rendered)
            else:
                media += rendered
        text = BETWEEN.join(texts) or (ATTACHED if media else "")
        return render_result_value(text, is_error=result.is_error), media

    def _render_part(self, part: Part) -> _Parts:
        """Return the parts for one that is neither a call nor a thought."""
        match part:
            case Text():
                signature = _own_signature(part.signature)
                return [render_text(part.text, signature)] if part.text or signature else []
            case Media():
                return self._render_media(part)
            case Refusal():
                return [render_text(part.text)] if part.text else []
            case ToolResult():
                return [one for inner in orphaned(part) for one in self._render_part(inner)]
        return []

    def _render_media(self, media: Media) -> _Parts:
        if media.text is not None:
            text = told(media)
            return [render_text(text)] if text else []
        if media.name is not None:
            self.lost.add(Feature.MEDIA_NAME)
        normalized = normalize_media(media)
        if normalized is None:
            self.lost.add(Feature.IMAGE)
            return _add_context(media, render_text(left_out(media)))
        if media.url is not None and not self.row.addresses and not media.url.startswith("gs:"):
            raise no_addresses(media.url)
        found = render_media(normalized)
        if found is None:
            self.lost.add(Feature.FILE_ID)
            found = render_text(left_out(media))
        return _add_context(media, found)


def _add_context(media: Media, part: JsonObject) -> _Parts:
    """Return the part of media behind what the model should know of it."""
    return [render_text(media.context), part] if media.context else [part]


def _own_signature(signature: Signature | None) -> str | None:
    """Return a signature's value if Google made it."""
    if signature is None or signature.family is not Family.GEMINI:
        return None
    return signature.value or None


def _skip_validation(contents: list[JsonObject]) -> None:
    """Let the first call of each step of the running turn pass where it has no signature."""
    for content in reversed(contents):
        parts: _Parts = content["parts"]
        if content["role"] == MODEL:
            first = next((part for part in parts if "functionCall" in part), None)
            if first is not None:
                first.setdefault("thoughtSignature", SKIP_VALIDATOR)
        elif not any("functionResponse" in part for part in parts):
            return
