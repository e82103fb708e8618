"""What the simulated model answers: a function of the conversation, the same every time.

The reply repeats the last text of the user (``You said: …``), and a few phrases in that text ask for more:

``repeat:N``
    N words, ``w1 w2 …``
``use tool NAME``
    a call of that tool, as often as it is said; ``use tool NAME with {…}`` gives its arguments
``preface``
    text before the calls

After tool results the reply names them.  A token is a word with the blanks before it.
"""

import enum
import json
import re
from typing import Any, Final

from msgspec import Struct

from mgw.simulator.faults import Faults
from mgw.simulator.schema import example

_TOKENS = re.compile(r"\s*\S+|\s+\Z")
_REPEAT = re.compile(r"\brepeat:(\d{1,7})")
_USE = re.compile(r"use tool ([A-Za-z0-9_.:-]*[A-Za-z0-9_])( with (?=\{))?")
_BIG_TOKEN: Final = 8192


class Finish(enum.Enum):
    """Why the answer ends."""

    END = "end"
    LENGTH = "length"
    STOP_SEQUENCE = "stop_sequence"
    TOOLS = "tools"
    REFUSAL = "refusal"


class Choice(enum.Enum):
    """What the client says of tools."""

    AUTO = "auto"
    NONE = "none"
    ANY = "any"


class Tool(Struct, frozen=True):
    """A function that the model may call."""

    name: str
    schema: Any  # the client's JSON Schema, or None


class Result(Struct, frozen=True):
    """What a tool gave, in the turn that is to be answered."""

    name: str
    text: str


class Prompt(Struct, frozen=True):
    """A conversation, as far as the answer depends on it."""

    text: str
    tokens: int
    tools: tuple[Tool, ...] = ()
    choice: Choice = Choice.AUTO
    allowed: tuple[str, ...] = ()
    parallel: bool = True
    results: tuple[Result, ...] = ()
    schema: Any = None  # the client's JSON Schema for the answer; True for any object
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    thinks: bool = False
    candidate: int = 0


class ToolUse(Struct, frozen=True):
    """A call: ``arguments`` is JSON text."""

    name: str
    arguments: str


class Outcome(Struct, frozen=True):
    """The answer."""

    thinking: str
    text: str
    uses: tuple[ToolUse, ...]
    finish: Finish
    stop: str | None
    thinking_tokens: int
    tokens: int
    """All tokens of the answer, thinking included."""


def tokens(text: str) -> list[str]:
    """Cut a text into tokens; joined they are the text.  A very long word is cut too."""
    found = _TOKENS.findall(text)
    if len(text) <= _BIG_TOKEN:
        return found
    return [word[at : at + _BIG_TOKEN] for word in found for at in range(0, len(word), _BIG_TOKEN)]


def count(text: str) -> int:
    """How many words a text has."""
    return len(text.split())


def answer(prompt: Prompt, faults: Faults) -> Outcome:
    """Answer the prompt."""
    thinking = f"The user wants: {prompt.text}" if prompt.thinks else ""
    if "refuse" in faults:
        return Outcome("", "I cannot help with that.", (), Finish.REFUSAL, None, 0, 5)
    uses = _uses(prompt)
    text = _text(prompt, faults, uses)
    text, stop = _stopped(text, prompt.stops)
    room = prompt.max_tokens
    thinking, thought, room = _within(thinking, room)
    spoken, said, room = _within(text, room)
    if room == 0 and (uses or spoken != text):
        return Outcome(thinking, spoken, (), Finish.LENGTH, None, thought, thought + said)
    called = sum(1 + count(use.arguments) for use in uses)
    finish = Finish.TOOLS if uses else Finish.STOP_SEQUENCE if stop else Finish.END
    return Outcome(thinking, spoken, uses, finish, stop, thought, thought + said + called)


def _uses(prompt: Prompt) -> tuple[ToolUse, ...]:
    known = {tool.name: tool for tool in prompt.tools if not prompt.allowed or tool.name in prompt.allowed}
    if prompt.choice is Choice.NONE or not known:
        return ()
    wanted: list[ToolUse] = []
    if not prompt.results or prompt.choice is Choice.ANY:
        wanted = [
            ToolUse(known[name].name, given or _arguments(known[name]))
            for name, given in _asked(prompt.text)
            if name in known
        ]
    if not wanted and prompt.choice is Choice.ANY:
        first = next(iter(known.values()))
        wanted = [ToolUse(first.name, _arguments(first))]
    return tuple(wanted if prompt.parallel else wanted[:1])


def _asked(text: str) -> list[tuple[str, str]]:
    """The tools that a text names, each with the arguments that stand behind ``with``."""
    found = []
    for match in _USE.finditer(text):
        given = ""
        if match[2]:
            try:
                _, end = json.JSONDecoder().raw_decode(text, match.end())
                given = text[match.end() : end]
            except ValueError:
                given = ""
        found.append((match[1], given))
    return found


def _arguments(tool: Tool) -> str:
    made = example(tool.schema) if tool.schema else {}
    return json.dumps(made if isinstance(made, dict) else {}, ensure_ascii=False)


def _text(prompt: Prompt, faults: Faults, uses: tuple[ToolUse, ...]) -> str:
    if uses:
        names = ", ".join(use.name for use in uses)
        return f"I call {names}." if "preface" in prompt.text else ""
    if prompt.schema is not None:
        made = {"answer": prompt.text} if prompt.schema is True else example(prompt.schema)
        return json.dumps(made, ensure_ascii=False)
    repeat = _REPEAT.search(prompt.text)
    words = faults.number("chunks")
    if words is None and repeat:
        words = int(repeat[1])
    if words is not None:
        return " ".join(f"w{index}" for index in range(1, words + 1))
    big = faults.number("big")
    if big is not None:
        return "x" * big
    if prompt.results:
        return " ".join(f"Tool {result.name} returned: {result.text}" for result in prompt.results)
    again = f" ({prompt.candidate + 1})" if prompt.candidate else ""
    return f"You said: {prompt.text}{again}"


def _stopped(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    found = [(text.find(stop), stop) for stop in stops if stop and stop in text]
    if not found:
        return text, None
    at, stop = min(found)
    return text[:at], stop


def _within(text: str, room: int | None) -> tuple[str, int, int | None]:
    """The part of a text that has room, its tokens, and the room that is left."""
    words = tokens(text)
    if room is None:
        return text, len(words), None
    kept = words[:room]
    return "".join(kept), len(kept), room - len(kept)
