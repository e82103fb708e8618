"""Turns as Google's contents, both ways.

Clients keep a streamed response as it came, one content per chunk, and send it back so.  Contents of the
model that follow one another are therefore one turn, and the pieces of a thought or of a text are one part
again: a signature belongs to the whole of what stands before it.  The user's contents stay one to one.

To Google (:mod:`mgw.canonical.history`): turns of one side that follow one another are one content.  What
Google demands, and what is done for it:

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
from itertools import groupby
from operator import attrgetter
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
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.canonical.history import (
    NO_RESULT,
    HistoryPart,
    HistoryPolicy,
    HistoryTurn,
    PairedCall,
    SystemTurns,
    alternating_texts,
    pair_calls,
    render_history,
)
from mgw.canonical.identifiers import GEMINI_ID
from mgw.dialects.arguments import embed_arguments
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.gemini.blocks import (
    CallMatcher,
    PartJoiner,
    bare_text,
    has_data,
    leave_part,
    parse_bare_call,
    parse_bare_result,
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
from mgw.dialects.gemini.thoughts import may_be_carried, skip_image_validation, skip_validation
from mgw.dialects.placeholders import ATTACHED, BETWEEN, describe_document, describe_omission
from mgw.dialects.refusal import no_addresses
from mgw.dialects.signatures import is_altered, names_reasoning_item
from mgw.dialects.tool_names import ToolNames
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family

USER: Final = "user"
MODEL: Final = "model"
_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT

_ROLES: Final = MappingProxyType({"user": Role.USER, "function": Role.USER, "model": Role.ASSISTANT})

_Parts = list[JsonObject]


def parse_turns(request: Fields, contents: list[JsonObject], detail: str | None = None) -> tuple[Turn, ...]:
    """Return the turns; ``detail`` is the resolution of images that state none of their own.

    :raises GatewayError: ``MALFORMED`` for roles and parts that nobody knows.
    """
    parser = _TurnParser(detail)
    for index, content in enumerate(contents):
        if not parser.parse_bare_content(content):
            parser.parse(request.open_element("contents", index, content))
    return parser.finish()


@dataclass(slots=True)
class _TurnParser:
    """Parses contents in order."""

    _detail: str | None
    _calls: CallMatcher = field(default_factory=CallMatcher)
    _turns: list[Turn] = field(default_factory=list)
    _joiner: PartJoiner = field(default_factory=PartJoiner)
    """The model's turn so far."""

    def parse_bare_content(self, content: JsonObject) -> bool:
        """Parse a content that is no more than a text, as most are; return whether it is."""
        role, parts = content.get("role"), content.get("parts")
        if len(content) != 2 or type(parts) is not list or len(parts) != 1 or type(parts[0]) is not dict:
            return False
        text = bare_text(parts[0])
        if text is None:
            return False
        if role == MODEL:
            self._joiner.add_text(text, None)
        elif role == USER:
            self._end_model_turn()
            self._turns.append(Turn(_USER, (Text(text),)))
        else:
            return False
        return True

    def parse(self, content: Fields) -> None:
        """Parse one content."""
        name = content.text("role") or USER
        role = _ROLES.get(name.lower())  # Google's own examples have "USER", too
        if role is None:
            raise none_of(content, "role", name, _ROLES)
        parts = content.elements_or_one("parts")
        if role is _ASSISTANT:
            for index, part in enumerate(parts):
                call = parse_bare_call(part, self._calls) if len(part) == 1 else None
                if call is None:
                    self._parse_model_part(content.open_element("parts", index, part))
                else:
                    self._joiner.add(call)
            return
        self._end_model_turn()
        found: list[Part] = []
        for index, part in enumerate(parts):
            one: Part | None = parse_bare_result(part, content, self._calls) if len(part) == 1 else None
            if one is None:
                one = self._parse_user_part(content.open_element("parts", index, part))
            if one is not None:
                found.append(one)
        self._turns.append(Turn(_USER, tuple(found)))

    def finish(self) -> tuple[Turn, ...]:
        """Return all turns."""
        self._end_model_turn()
        return tuple(self._turns)

    def _end_model_turn(self) -> None:
        parts = self._joiner.finish()
        if parts:
            self._turns.append(Turn(_ASSISTANT, parts))

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
            raise part.wrong("functionResponse", "it belongs in a content with role 'user'")
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
        if not names_reasoning_item(signature) and is_altered(signature_text, ""):
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
            raise part.wrong("functionCall", "it belongs in a content with role 'model'")
        response = part.nested("functionResponse")
        if response is not None:
            return parse_result(response, self._detail, self._calls)
        return parse_other_part(part, self._detail)


def render_turns(
    conversation: Conversation, options: RenderOptions, names: ToolNames, lost: set[Feature]
) -> list[JsonObject]:
    """Return the contents, and add to ``lost`` what they cannot express.

    :raises GatewayError: ``MALFORMED`` for an address that the model does not fetch.
    """
    texts = alternating_texts(conversation.turns, USER, MODEL)
    if texts is not None:
        return [{"role": role, "parts": [{"text": text}]} for role, text in texts]
    row = options.row
    has_ids = row.vertex_call_ids or not options.on_vertex
    policy = HistoryPolicy(
        GEMINI_ID,
        alternates=True,
        system_turns=SystemTurns.AS_USER,
        begins_with_user=True,
        ends_with_user=not row.prefill,
    )
    turns = _join_model_turns(pair_calls(conversation.turns, policy.call_ids))
    history = render_history(turns, policy, _TurnRenderer(row, names, lost, has_ids=has_ids))
    contents: list[JsonObject] = [
        {"role": MODEL if message.role is _ASSISTANT else USER, "parts": message.blocks}
        for message in history
    ]
    if row.signatures:
        skip_validation(contents)
        if row.images:
            skip_image_validation(contents)
    return contents


def _join_model_turns(turns: list[HistoryTurn]) -> list[HistoryTurn]:
    """Return the turns with neighbours of the model's as one: a call may sign the thought before it."""
    before: Role | None = None
    for turn in turns:
        if turn.role is _ASSISTANT is before:
            break
        before = turn.role
    else:
        return turns
    joined: list[HistoryTurn] = []
    for role, group in groupby(turns, key=attrgetter("role")):
        neighbours = list(group)
        if role is _ASSISTANT:
            parts = tuple(part for turn in neighbours for part in turn.parts)
            calls = tuple(call for turn in neighbours for call in turn.calls)
            joined.append(HistoryTurn(role, parts, calls=calls))
        else:
            joined += neighbours
    return joined


@dataclass(slots=True)
class _TurnRenderer:
    """Renders each turn as parts."""

    row: ModelRow
    names: ToolNames
    lost: set[Feature]
    has_ids: bool
    """Calls and their responses have identifiers; else their names and their order tell them apart."""

    def render_text(self, text: str) -> JsonObject:
        """Return a text."""
        return render_text(text)

    def render_user(self, turn: HistoryTurn) -> _Parts:
        """Return the parts of a turn of the user's."""
        parts: _Parts = []
        for part in turn.parts:
            if type(part) is Text and part.signature is None:  # most are, and each call costs
                if part.text:
                    parts.append({"text": part.text})
            else:
                parts += self._render_part(part)
        return parts

    render_system = render_user

    def render_assistant(self, turn: HistoryTurn) -> tuple[_Parts, _Parts]:
        """Return the parts of a turn of the model's; its media stay there."""
        carried: str | None = None
        parts: _Parts = []
        for index, part in enumerate(turn.parts):
            if isinstance(part, PairedCall):
                parts.append(self._render_call(part, carried))
                carried = None
            elif isinstance(part, Thinking):
                after = turn.parts[index + 1] if index + 1 < len(turn.parts) else None
                carried = _find_carried(part, after)
                self._add_thought(part, parts, signed=carried is None)
            else:
                carried = None
                if type(part) is Text and part.signature is None:
                    if part.text:
                        parts.append({"text": part.text})
                else:
                    parts += self._render_part(part)
        return parts, []

    def render_result(self, call: PairedCall) -> tuple[_Parts, _Parts]:
        """Return the response to a call, and the media that stand behind all responses."""
        value: Raw | JsonObject = {"error": NO_RESULT}
        media: _Parts = []
        if call.result is not None:
            value, media = self._render_result_value(call.result)
        call_id = call.id if self.has_ids else None
        return [render_result(call_id, self.names[call.part.name], value)], media

    def _render_call(self, call: PairedCall, carried: str | None) -> JsonObject:
        part = call.part
        signature = _own_signature(part.signature) or carried
        call_id = call.id if self.has_ids else None
        return render_call(call_id, self.names[part.name], embed_arguments(part.arguments), signature)

    def _add_thought(self, thought: Thinking, parts: _Parts, *, signed: bool) -> None:
        signature = thought.signature
        if signature is None or signature.family is not Family.GEMINI:
            self.lost.add(Feature.THINKING)
            return
        value = _own_signature(signature) if signed else None
        if thought.text or value:
            parts.append(render_thought(thought.text, value))

    def _render_result_value(self, result: ToolResult) -> tuple[Raw | JsonObject, _Parts]:
        """Return the ``response`` of a result, and the media that stand beside it."""
        texts: list[str] = []
        media: _Parts = []
        for part in result.parts:
            if type(part) is Text and part.signature is None:
                if part.text:
                    texts.append(part.text)
                continue
            rendered = self._render_part(part)
            if all("text" in one for one in rendered):
                texts += (one["text"] for one in rendered)
            else:
                media += rendered
        text = BETWEEN.join(texts) or (ATTACHED if media else "")
        return render_result_value(text, is_error=result.is_error), media

    def _render_part(self, part: HistoryPart) -> _Parts:
        """Return the parts for one that is neither a call nor a thought."""
        match part:
            case Text():
                signature = _own_signature(part.signature)
                return [render_text(part.text, signature)] if part.text or signature else []
            case Media():
                return self._render_media(part)
            case Refusal():
                return [render_text(part.text)] if part.text else []
        return []

    def _render_media(self, media: Media) -> _Parts:
        if media.text is not None:
            text = describe_document(media)
            return [render_text(text)] if text else []
        if media.name is not None:
            self.lost.add(Feature.MEDIA_NAME)
        normalized = normalize_media(media)
        if normalized is None:
            self.lost.add(Feature.IMAGE)
            return _add_context(media, render_text(describe_omission(media)))
        if media.url is not None and not self.row.addresses and not media.url.startswith("gs:"):
            raise no_addresses(media.url)
        found = render_media(normalized)
        if found is None:
            self.lost.add(Feature.FILE_ID)
            found = render_text(describe_omission(media))
        if media.signature is not None:
            self._sign(found, media.signature)
        return _add_context(media, found)

    def _sign(self, part: JsonObject, signature: Signature) -> None:
        """Give an image its signature back, if Google made it."""
        value = _own_signature(signature)
        if value is None:
            self.lost.add(Feature.THINKING)
        else:
            part["thoughtSignature"] = value


def _add_context(media: Media, part: JsonObject) -> _Parts:
    """Return the part of media behind what the model should know of it."""
    return [render_text(media.context), part] if media.context else [part]


def _find_carried(thought: Thinking, after: HistoryPart | None) -> str | None:
    """Return the signature of a thought if it is that of the call behind it.

    A client whose dialect signs no calls has the call's signature beside the thought.
    """
    if not isinstance(after, PairedCall) or _own_signature(after.part.signature):
        return None
    return _own_signature(thought.signature)


def _own_signature(signature: Signature | None) -> str | None:
    """Return a signature's value if Google made it."""
    if signature is None or signature.family is not Family.GEMINI:
        return None
    return signature.value or None
