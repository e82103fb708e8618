"""The turns of a conversation: put together from a request's items, and rendered as items.

Towards the gateway, adjacent items of one side are one turn, but for messages of the assistant.  A client may
put messages between a call and its output; they belong before the call, since a provider wants the result
directly behind it (contract 11.4)::

    call  developer  output            developer  call  output
    call  call  output  user  output   user  call  call  output  output

So what comes while a call waits is held until an output of the same turn follows.  Where the assistant goes
on instead, the messages stay where they are, and the history's own rules put the result at its call.

What a provider takes (:mod:`mgw.canonical.history`):

* The output of each call stands behind the items of the turn that made it, and holds its images and documents
  itself.  A call without a result gets one that says so, and a result without a call becomes text.
* An instruction in mid-conversation is a message of the developer's at its place.
* A message of the assistant's is an ``output_text`` or a ``refusal``, and needs an identifier, which OpenAI
  does not look up.  It holds no media.
* A ``reasoning`` item goes back if OpenAI encrypted it.  It needs an item of the assistant's behind it.

Sources: contract 11.9; the SDK's ``ResponseInputParam`` and its members.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

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
from mgw.canonical.history import (
    NO_RESULT,
    HistoryMessage,
    HistoryPolicy,
    HistoryTurn,
    PairedCall,
    SystemTurns,
    alternating_texts,
    pair_calls,
    render_history,
)
from mgw.canonical.identifiers import NINE_ID
from mgw.dialects.arguments import is_empty
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.fields import Ledger
from mgw.dialects.placeholders import BEGIN_STRICT, BETWEEN
from mgw.dialects.responses.blocks import CALL_ID, item_id
from mgw.dialects.responses.media import render_media, render_text
from mgw.dialects.responses.thoughts import render_thought
from mgw.dialects.tool_names import ToolNames
from mgw.nouns.vocabulary import CallIds

_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_SYSTEM: Final = Role.SYSTEM
REASONING: Final = "input[reasoning]"
"""The client's path of a thought, or a signature, that is left out."""
_POLICY: Final = HistoryPolicy(CALL_ID, alternates=False, system_turns=SystemTurns.ANYWHERE)
_STRICT: Final = replace(_POLICY, joins_neighbours=True, begins_with_user=True, begin=BEGIN_STRICT)
"""The policy for hosts that put the items through a chat template (contract 8.29)."""
_STRICT_NINE: Final = replace(_STRICT, call_ids=NINE_ID)
_SEED: Final = "history"
"""The seed of the identifiers of messages, the same in every request: prompts share their beginnings."""


class TurnBuilder:
    """Gathers turns.

    :param ledger: is told of signatures that belong to nothing, and of results that another one replaced.
    """

    __slots__ = (
        "_before",
        "_calls",
        "_held",
        "_ledger",
        "_parts",
        "_replaced",
        "_results",
        "_signature",
        "_speaks",
        "_turns",
        "_waiting",
        "system",
    )

    def __init__(self, ledger: Ledger) -> None:
        self.system: list[Text] = []
        """The instructions that come before all else."""
        self._ledger = ledger
        self._turns: list[tuple[Role, list[Part]]] = []
        self._parts: list[Part] = []
        """The parts of the assistant's last turn."""
        self._speaks = False
        """Whether that turn has a message."""
        self._waiting: set[str] = set()
        """The calls of that turn which have no result yet."""
        self._before: list[tuple[Role, list[Part]]] = []
        """The messages that have to go before that turn."""
        self._results: list[Part] = []
        """The results of that turn."""
        self._held: list[tuple[Role, list[Part]]] = []
        """The messages that may have to go before that turn."""
        self._signature: Signature | None = None
        """The signature of the next call or image."""
        self._calls: dict[str, tuple[ToolResult, str] | None] = {}
        """The last result of each call, and the client's path of it."""
        self._replaced: set[int] = set()
        """Results that do not count, by the identity of the object."""

    def add_assistant(self, parts: list[Part]) -> None:
        """Add what the assistant said or thought."""
        if self._results or self._held:
            self._close()
        self._parts += parts

    def add_message(self, parts: list[Part]) -> None:
        """Add a message of the assistant's; behind another one it is a turn of its own.

        Texts of one turn go on from one another, and messages do not.
        """
        if self._speaks and not (self._waiting or self._results or self._held):
            self._append(_ASSISTANT, self._parts)
            self._parts = []
        self.add_assistant(parts)
        self._speaks = bool(parts)

    def add_call(self, call_id: str, name: str, arguments: str) -> None:
        """Add a call."""
        if self._results or self._held:
            self._close()
        signature, self._signature = self._signature, None
        self._parts.append(ToolCall(call_id, name, arguments, signature))
        self._waiting.add(call_id)
        self._calls[call_id] = None

    def add_image(self, image: Media) -> None:
        """Add an image that the assistant made."""
        if self._results or self._held:
            self._close()
        signature, self._signature = self._signature, None
        self._parts.append(replace(image, signature=signature))

    def sign_next_call(self, signature: Signature) -> None:
        """Keep a signature for the next call or image of the turn."""
        if self._results or self._held:
            self._close()
        self._forget_signature()
        self._signature = signature

    def sign_last_text(self, signature: Signature) -> bool:
        """Put a signature on the text that the turn ends with; return whether there is one without."""
        last = self._parts[-1] if self._parts and not (self._results or self._held) else None
        if type(last) is not Text or last.signature is not None:
            return False
        self._parts[-1] = replace(last, signature=signature)
        return True

    def add_user(self, parts: list[Part]) -> None:
        """Add what the user said."""
        self._add_message(_USER, parts)

    def add_system(self, texts: list[Text]) -> bool:
        """Add an instruction; return whether it is one of those that come before all else."""
        if not self._turns and not self._parts:
            self.system += texts
            return True
        self._add_message(_SYSTEM, [*texts])
        return False

    def has_call(self, call_id: str) -> bool:
        """Whether there is such a call."""
        return call_id in self._calls

    def add_result(self, result: ToolResult, path: str) -> None:
        """Add the result of a call that there is; an earlier one does not count any more, and is reported."""
        call_id = result.call_id
        former = self._calls[call_id]
        self._calls[call_id] = (result, path)
        if former is not None:
            self._replaced.add(id(former[0]))
            self._ledger.leave(former[1])
        if call_id in self._waiting:
            self._waiting.discard(call_id)
            if self._held:
                self._before += self._held
                self._held = []
            self._results.append(result)
        elif self._parts and not self._held:
            self._results.append(result)
        else:
            self._close()
            self._append(_USER, [result])

    def finish(self) -> tuple[Turn, ...]:
        """Return the turns."""
        self._close()
        if self._replaced:
            for _, parts in self._turns:
                parts[:] = [part for part in parts if id(part) not in self._replaced]
        return tuple([Turn(role, tuple(parts)) for role, parts in self._turns if parts])

    def _add_message(self, role: Role, parts: list[Part]) -> None:
        if self._waiting:
            self._held.append((role, parts))
            return
        self._close()
        self._append(role, parts)

    def _close(self) -> None:
        """End the assistant's turn, with what belongs before and behind it."""
        self._forget_signature()
        for role, parts in self._before:
            self._append(role, parts)
        self._append(_ASSISTANT, self._parts)
        self._append(_USER, self._results)
        for role, parts in self._held:
            self._append(role, parts)
        self._parts, self._results, self._before, self._held = [], [], [], []
        self._speaks = False
        self._waiting.clear()

    def _forget_signature(self) -> None:
        if self._signature is not None:
            self._ledger.leave(REASONING)
            self._signature = None

    def _append(self, role: Role, parts: list[Part]) -> None:
        if not parts:
            return
        turns = self._turns
        if turns and turns[-1][0] is role is _USER:
            turns[-1][1].extend(parts)
        else:
            turns.append((role, parts))


def render_turns(
    conversation: Conversation, options: RenderOptions, names: ToolNames, lost: set[Feature]
) -> tuple[list[JsonObject], bool]:
    """Return the items of the turns and whether any is a thought, and note what they do not carry."""
    texts = alternating_texts(conversation.turns, "user", "assistant")
    if texts is not None:
        return [_text_message(number, role, text) for number, (role, text) in enumerate(texts)], False
    renderer = _TurnRenderer(options, names, lost)
    policy = _policy_for(options)
    history = render_history(pair_calls(conversation.turns, policy.call_ids), policy, renderer)
    items = list(chain.from_iterable(map(_items_of, history)))
    kept = _drop_last_thoughts(items)
    if len(kept) < len(items):
        lost.add(Feature.THINKING)
    has_thoughts = False
    for number, item in enumerate(kept):
        has_thoughts = has_thoughts or item["type"] == "reasoning"
        if item.get("role") == "assistant":
            item["id"] = item_id("message", _SEED, number)
    return kept, has_thoughts


def _policy_for(options: RenderOptions) -> HistoryPolicy:
    if not options.is_template_strict:
        return _POLICY
    return _STRICT_NINE if options.row.call_ids is CallIds.NINE else _STRICT


def render_instruction(texts: Iterable[str]) -> JsonObject:
    """Return an instruction as a message of the developer's."""
    return _message("developer", [render_text(text) for text in texts])


def _text_message(number: int, role: str, text: str) -> JsonObject:
    if role == "user":
        return _message(role, [render_text(text)])
    return {**_assistant_message([_output_text(text)]), "id": item_id("message", _SEED, number)}


def _message(role: str, content: list[JsonObject]) -> JsonObject:
    return {"type": "message", "role": role, "content": content}


def _assistant_message(content: list[JsonObject]) -> JsonObject:
    return {**_message("assistant", content), "status": "completed"}


def _output_text(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": []}


def _items_of(message: HistoryMessage) -> list[JsonObject]:
    """Return the items of a message; those of the assistant's, and results, are items already."""
    role = message.role
    if role is _ASSISTANT or message.is_result:
        return message.blocks
    return [_message("developer" if role is _SYSTEM else "user", message.blocks)]


def _drop_last_thoughts(items: list[JsonObject]) -> list[JsonObject]:
    """Return the items without thoughts that nothing of the assistant's follows.

    "Item of type 'reasoning' was provided without its required following item."
    """
    kept: list[JsonObject] = []
    follows = False
    for item in reversed(items):
        is_thought = item["type"] == "reasoning"
        if is_thought and not follows:
            continue
        follows = is_thought or item["type"] == "function_call" or item.get("role") == "assistant"
        kept.append(item)
    kept.reverse()
    return kept


class _TurnRenderer:
    """Renders each turn: the user's as content parts, the assistant's and results as whole items."""

    def __init__(self, options: RenderOptions, names: ToolNames, lost: set[Feature]) -> None:
        self._options = options
        self._names = names
        self._lost = lost

    def render_text(self, text: str) -> JsonObject:
        """Return a text of the user's."""
        return render_text(text)

    def render_system(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the texts of an instruction."""
        return [render_text(part.text) for part in turn.parts if isinstance(part, Text) and part.text]

    def render_user(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the content parts of a turn of the user's."""
        return self._render_content(turn.parts)

    def render_assistant(self, turn: HistoryTurn) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the items of the assistant's turn, and its media, which have to move."""
        items: list[JsonObject] = []
        media: list[JsonObject] = []
        for part in turn.parts:
            match part:
                case Text():
                    self._check_signature(part.signature)
                    if part.text:
                        _add_content(items, _output_text(part.text))
                case Refusal():
                    _add_content(items, {"type": "refusal", "refusal": part.text})
                case PairedCall():
                    items.append(self._render_call(part))
                case Thinking():
                    items += self._render_thinking(part)
                case Media():
                    if part.signature is not None:
                        self._lost.add(Feature.THINKING)
                    media += self._render_content([part])
        return items, media

    def render_result(self, call: PairedCall) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the output of a call, which holds its media itself."""
        output: JsonObject = {"type": "function_call_output", "call_id": call.id}
        output["output"] = NO_RESULT if call.result is None else self._render_output(call.result)
        return [output], []

    def _render_output(self, result: ToolResult) -> str | list[JsonObject]:
        """Return a result as one string where it is all text."""
        content = self._render_content(result.parts)
        if all(part["type"] == "input_text" for part in content):
            return BETWEEN.join([part["text"] for part in content])
        return content

    def _render_content(self, parts: Iterable[Any]) -> list[JsonObject]:  # Any: texts and media among them
        content: list[JsonObject] = []
        for part in parts:
            if type(part) is Text:
                if part.text:
                    content.append(render_text(part.text))
            elif type(part) is Media:
                content += render_media(part, self._options, self._lost)
        return content

    def _render_call(self, call: PairedCall) -> JsonObject:
        part = call.part
        self._check_signature(part.signature)
        return {
            "type": "function_call",
            "call_id": call.id,
            "name": self._names[part.name],
            "arguments": "{}" if is_empty(part.arguments) else part.arguments,
        }

    def _render_thinking(self, part: Thinking) -> list[JsonObject]:
        item = render_thought(part.signature) if self._options.thoughts else None
        if item is None:
            self._lost.add(Feature.THINKING)
            return []
        return [item]

    def _check_signature(self, signature: Signature | None) -> None:
        """Note the signature of a text or a call, for which Responses have no place."""
        if signature is not None and signature.value:
            self._lost.add(Feature.THINKING)


def _add_content(items: list[JsonObject], part: JsonObject) -> None:
    """Add what the assistant says to the message before it, or to a new one."""
    if items and items[-1]["type"] == "message":
        items[-1]["content"].append(part)
    else:
        items.append(_assistant_message([part]))
