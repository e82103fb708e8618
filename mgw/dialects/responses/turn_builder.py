"""The turns of a conversation, put together from items in their order.

Adjacent items of one side are one turn, but for messages of the assistant.  A client may put messages
between a call and its output; they belong before the call, since a provider wants the result directly behind
it (contract 11.4)::

    call  developer  output            developer  call  output
    call  call  output  user  output   user  call  call  output  output

So what comes while a call waits is held until an output of the same turn follows.  Where the assistant goes
on instead, the messages stay where they are, and the history's own rules put the result at its call.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import Media, Part, Role, Signature, Text, ToolCall, ToolResult, Turn
from mgw.dialects.fields import Ledger

_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_SYSTEM: Final = Role.SYSTEM
REASONING: Final = "input[reasoning]"
"""The client's path of a thought, or a signature, that is left out."""


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
