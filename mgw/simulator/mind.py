"""What the simulated model answers: a function of the conversation, the same every time.

The reply repeats the last text of the user (``You said: …``), and a few phrases in that text ask for more:

``repeat:N``
    N words, ``w1 w2 …``
``say nothing``
    no text
``use tool NAME``
    a call of that tool, as often as it is said; ``use tool NAME with {…}`` gives its arguments, and
    ``use tool NAME with nothing`` leaves them out
``preface``, ``afterword``
    text before the calls, and behind them
``think between``, ``think hidden``
    where the client asks for thinking: a thought before each further call, too; thoughts that are not shown

After tool results the reply names them.  A token is a word with the blanks before it, and a call is one more
than its arguments.  Where the room ends, the answer ends, in the midst of a call's arguments, too.
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
_USE = re.compile(r"use tool ([A-Za-z0-9_.:-]*[A-Za-z0-9_])( with nothing\b| with (?=\{))?")
_BIG_TOKEN: Final = 8192


class Finish(enum.Enum):
    """Why the answer ends."""

    END = "end"
    LENGTH = "length"
    STOP_SEQUENCE = "stop_sequence"
    TOOLS = "tools"
    REFUSAL = "refusal"
    BLOCKED = "blocked"
    """The prompt was not even answered."""


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


class Thought(Struct, frozen=True):
    """A thought; ``hidden`` ones leave only their signature, or their number of tokens."""

    text: str
    hidden: bool = False


class Speech(Struct, frozen=True):
    """Text for the user."""

    text: str


class ToolUse(Struct, frozen=True):
    """A call: ``arguments`` is JSON text, or ""; it is not ``whole`` if the room ended in its midst."""

    name: str
    arguments: str
    whole: bool = True

    @property
    def value(self) -> dict[str, Any]:  # a JSON object
        """The arguments as an object; an empty one where they are not whole."""
        made: dict[str, Any] = json.loads(self.arguments) if self.whole and self.arguments else {}
        return made


Part = Thought | Speech | ToolUse


class Outcome(Struct, frozen=True):
    """The answer, part by part, in the order in which it comes."""

    parts: tuple[Part, ...]
    finish: Finish
    stop: str | None = None
    thinking_tokens: int = 0
    tokens: int = 0
    """All tokens of the answer, thinking included."""

    @property
    def thinking(self) -> str:
        """The thoughts that are shown, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Thought) and not part.hidden)

    @property
    def text(self) -> str:
        """The text, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Speech))

    @property
    def uses(self) -> tuple[ToolUse, ...]:
        """The calls."""
        return tuple(part for part in self.parts if isinstance(part, ToolUse))


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
    if "block" in faults:
        return Outcome((), Finish.BLOCKED)
    if "refuse" in faults:
        refused = Speech("" if _is_silent(prompt) else "I cannot help with that.")
        return Outcome(_said(refused), Finish.REFUSAL, tokens=count(refused.text))
    uses = _uses(prompt)
    parts, stop = _stopped((*_thoughts(prompt), *_plan(prompt, faults, uses)), prompt.stops)
    parts, is_cut = _fitting(parts, prompt.max_tokens)
    called = any(isinstance(part, ToolUse) for part in parts)
    finish = Finish.TOOLS if called else Finish.END
    if stop is not None:
        finish = Finish.STOP_SEQUENCE
    if is_cut:
        finish, stop = Finish.LENGTH, None
    thought = sum(_cost(part) for part in parts if isinstance(part, Thought))
    return Outcome(parts, finish, stop, thought, sum(map(_cost, parts)))


def _is_silent(prompt: Prompt) -> bool:
    return "say nothing" in prompt.text


def _said(speech: Speech) -> tuple[Part, ...]:
    return (speech,) if speech.text else ()


def _thoughts(prompt: Prompt) -> tuple[Part, ...]:
    return (_thought(prompt, f"The user wants: {prompt.text}"),) if prompt.thinks else ()


def _thought(prompt: Prompt, text: str) -> Thought:
    return Thought(text, hidden="think hidden" in prompt.text)


def _plan(prompt: Prompt, faults: Faults, uses: tuple[ToolUse, ...]) -> tuple[Part, ...]:
    """The answer behind the first thought, as long as it would be without limits."""
    if not uses:
        return () if _is_silent(prompt) else _said(Speech(_text(prompt, faults)))
    names = ", ".join(use.name for use in uses)
    between = prompt.thinks and "think between" in prompt.text
    plan: list[Part] = [Speech(f"I call {names}.")] if "preface" in prompt.text else []
    for place, use in enumerate(uses):
        if between and (place or plan):
            plan.append(_thought(prompt, f"Now I call {use.name}."))
        plan.append(use)
    if "afterword" in prompt.text:
        plan.append(Speech(f"I called {names}."))
    return tuple(plan)


def _cost(part: Part) -> int:
    """The tokens of a part."""
    return 1 + len(tokens(part.arguments)) if isinstance(part, ToolUse) else len(tokens(part.text))


def _uses(prompt: Prompt) -> tuple[ToolUse, ...]:
    known = {tool.name: tool for tool in prompt.tools if not prompt.allowed or tool.name in prompt.allowed}
    if prompt.choice is Choice.NONE or not known:
        return ()
    wanted: list[ToolUse] = []
    if not prompt.results or prompt.choice is Choice.ANY:
        wanted = [
            ToolUse(name, _arguments(known[name]) if given is None else given)
            for name, given in _asked(prompt.text)
            if name in known
        ]
    if not wanted and prompt.choice is Choice.ANY:
        first = next(iter(known.values()))
        wanted = [ToolUse(first.name, _arguments(first))]
    return tuple(wanted if prompt.parallel else wanted[:1])


def _asked(text: str) -> list[tuple[str, str | None]]:
    """The tools that a text names, each with the arguments that stand behind ``with``, or None."""
    found: list[tuple[str, str | None]] = []
    for match in _USE.finditer(text):
        given = None
        if match[2] == " with nothing":
            given = ""
        elif match[2]:
            try:
                _, end = json.JSONDecoder().raw_decode(text, match.end())
                given = text[match.end() : end]
            except ValueError:
                given = None
        found.append((match[1], given))
    return found


def _arguments(tool: Tool) -> str:
    made = example(tool.schema) if tool.schema else {}
    return json.dumps(made if isinstance(made, dict) else {}, ensure_ascii=False)


def _text(prompt: Prompt, faults: Faults) -> str:
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


def _stopped(parts: tuple[Part, ...], stops: tuple[str, ...]) -> tuple[tuple[Part, ...], str | None]:
    """The answer up to the first stop sequence in its text, and that sequence."""
    for place, part in enumerate(parts):
        if isinstance(part, Speech):
            found = [(part.text.find(stop), stop) for stop in stops if stop and stop in part.text]
            if found:
                at, stop = min(found)
                return (*parts[:place], *_said(Speech(part.text[:at]))), stop
    return parts, None


def _fitting(parts: tuple[Part, ...], room: int | None) -> tuple[tuple[Part, ...], bool]:
    """The parts that have room, the last of them cut where it ends; and whether anything was cut."""
    if room is None:
        return parts, False
    kept: list[Part] = []
    for part in parts:
        if _cost(part) > room:
            return (*kept, *_cut(part, room)), True
        kept.append(part)
        room -= _cost(part)
    return tuple(kept), False


def _cut(part: Part, room: int) -> tuple[Part, ...]:
    if not room:
        return ()
    match part:
        case ToolUse():
            begun = "".join(tokens(part.arguments)[: room - 1])
            return (ToolUse(part.name, begun, whole=False),)
        case Thought():
            return (Thought("".join(tokens(part.text)[:room]), part.hidden),)
    return (Speech("".join(tokens(part.text)[:room])),)
