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

from mgw_sim.faults import Faults
from mgw_sim.json_schema import example

_TOKEN = re.compile(r"\s*\S+|\s+\Z")
_REPEAT = re.compile(r"\brepeat:(\d{1,7})")
_TOOL_CALL = re.compile(r"use tool ([A-Za-z0-9_.:-]*[A-Za-z0-9_])( with nothing\b| with (?=\{))?")
_BIG_TOKEN: Final = 8192


class FinishReason(enum.Enum):
    """Why the answer ends."""

    END = "end"
    LENGTH = "length"
    STOP_SEQUENCE = "stop_sequence"
    TOOLS = "tools"
    REFUSAL = "refusal"
    BLOCKED = "blocked"
    """The prompt was not even answered."""


class ToolChoice(enum.Enum):
    """What the client says of tools."""

    AUTO = "auto"
    NONE = "none"
    ANY = "any"


class Tool(Struct, frozen=True):
    """A function that the model may call."""

    name: str
    schema: Any  # the client's JSON Schema, or None


class ToolResult(Struct, frozen=True):
    """What a tool gave, in the turn that is to be answered."""

    name: str
    text: str


class Prompt(Struct, frozen=True):
    """A conversation, as far as the answer depends on it."""

    text: str
    tokens: int
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    allowed_tools: tuple[str, ...] = ()
    parallel: bool = True
    results: tuple[ToolResult, ...] = ()
    schema: Any = None  # the client's JSON Schema for the answer; True for any object
    max_tokens: int | None = None
    stop_sequences: tuple[str, ...] = ()
    wants_thinking: bool = False
    candidate: int = 0


class Thinking(Struct, frozen=True):
    """A thought; ``hidden`` ones leave only their signature, or their number of tokens."""

    text: str
    hidden: bool = False


class Text(Struct, frozen=True):
    """Text for the user."""

    text: str


class ToolCall(Struct, frozen=True):
    """A call: ``arguments`` is JSON text, or ""; it is not ``whole`` if the room ended in its midst."""

    name: str
    arguments: str
    whole: bool = True

    @property
    def value(self) -> dict[str, Any]:  # a JSON object
        """The arguments as an object; an empty one where they are not whole."""
        arguments: dict[str, Any] = json.loads(self.arguments) if self.whole and self.arguments else {}
        return arguments


Part = Thinking | Text | ToolCall


class Completion(Struct, frozen=True):
    """The answer, part by part, in the order in which it comes."""

    parts: tuple[Part, ...]
    finish_reason: FinishReason
    stop_sequence: str | None = None
    thinking_tokens: int = 0
    tokens: int = 0
    """All tokens of the answer, thinking included."""

    @property
    def thinking(self) -> str:
        """The thoughts that are shown, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Thinking) and not part.hidden)

    @property
    def text(self) -> str:
        """The text, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


def tokenize(text: str) -> list[str]:
    """Cut a text into tokens; joined they are the text.  A very long word is cut too."""
    words = _TOKEN.findall(text)
    if len(text) <= _BIG_TOKEN:
        return words
    return [word[at : at + _BIG_TOKEN] for word in words for at in range(0, len(word), _BIG_TOKEN)]


def token_count(text: str) -> int:
    """How many words a text has."""
    return len(text.split())


def complete(prompt: Prompt, faults: Faults) -> Completion:
    """Answer the prompt."""
    if "block" in faults:
        return Completion((), FinishReason.BLOCKED)
    if "refuse" in faults:
        refusal = Text("" if _is_silent(prompt) else "I cannot help with that.")
        return Completion(_text_parts(refusal), FinishReason.REFUSAL, tokens=token_count(refusal.text))
    tool_calls = _tool_calls(prompt)
    parts, stop_sequence = _cut_at_stop_sequence(
        (*_first_thinking(prompt), *_plan(prompt, faults, tool_calls)), prompt.stop_sequences
    )
    parts, is_cut = _cut_at_max_tokens(parts, prompt.max_tokens)
    called = any(isinstance(part, ToolCall) for part in parts)
    finish = FinishReason.TOOLS if called else FinishReason.END
    if stop_sequence is not None:
        finish = FinishReason.STOP_SEQUENCE
    if is_cut:
        finish, stop_sequence = FinishReason.LENGTH, None
    thinking_tokens = sum(_tokens_of(part) for part in parts if isinstance(part, Thinking))
    return Completion(parts, finish, stop_sequence, thinking_tokens, sum(map(_tokens_of, parts)))


def _is_silent(prompt: Prompt) -> bool:
    return "say nothing" in prompt.text


def _text_parts(speech: Text) -> tuple[Part, ...]:
    return (speech,) if speech.text else ()


def _first_thinking(prompt: Prompt) -> tuple[Part, ...]:
    return (_think(prompt, f"The user wants: {prompt.text}"),) if prompt.wants_thinking else ()


def _think(prompt: Prompt, text: str) -> Thinking:
    return Thinking(text, hidden="think hidden" in prompt.text)


def _plan(prompt: Prompt, faults: Faults, tool_calls: tuple[ToolCall, ...]) -> tuple[Part, ...]:
    """The answer behind the first thought, as long as it would be without limits."""
    if not tool_calls:
        return () if _is_silent(prompt) else _text_parts(Text(_text(prompt, faults)))
    names = ", ".join(tool_call.name for tool_call in tool_calls)
    between = prompt.wants_thinking and "think between" in prompt.text
    plan: list[Part] = [Text(f"I call {names}.")] if "preface" in prompt.text else []
    for place, tool_call in enumerate(tool_calls):
        if between and (place or plan):
            plan.append(_think(prompt, f"Now I call {tool_call.name}."))
        plan.append(tool_call)
    if "afterword" in prompt.text:
        plan.append(Text(f"I called {names}."))
    return tuple(plan)


def _tokens_of(part: Part) -> int:
    """The tokens of a part."""
    return 1 + len(tokenize(part.arguments)) if isinstance(part, ToolCall) else len(tokenize(part.text))


def _tool_calls(prompt: Prompt) -> tuple[ToolCall, ...]:
    tools = {
        tool.name: tool
        for tool in prompt.tools
        if not prompt.allowed_tools or tool.name in prompt.allowed_tools
    }
    if prompt.tool_choice is ToolChoice.NONE or not tools:
        return ()
    calls: list[ToolCall] = []
    if not prompt.results or prompt.tool_choice is ToolChoice.ANY:
        calls = [
            ToolCall(name, _arguments(tools[name]) if arguments is None else arguments)
            for name, arguments in _tools_named_in(prompt.text)
            if name in tools
        ]
    if not calls and prompt.tool_choice is ToolChoice.ANY:
        first = next(iter(tools.values()))
        calls = [ToolCall(first.name, _arguments(first))]
    return tuple(calls if prompt.parallel else calls[:1])


def _tools_named_in(text: str) -> list[tuple[str, str | None]]:
    """The tools that a text names, each with the arguments that stand behind ``with``, or None."""
    tools: list[tuple[str, str | None]] = []
    for match in _TOOL_CALL.finditer(text):
        arguments = None
        if match[2] == " with nothing":
            arguments = ""
        elif match[2]:
            try:
                _, end = json.JSONDecoder().raw_decode(text, match.end())
                arguments = text[match.end() : end]
            except ValueError:
                arguments = None
        tools.append((match[1], arguments))
    return tools


def _arguments(tool: Tool) -> str:
    value = example(tool.schema) if tool.schema else {}
    return json.dumps(value if isinstance(value, dict) else {}, ensure_ascii=False)


def _text(prompt: Prompt, faults: Faults) -> str:
    if prompt.schema is not None:
        value = {"answer": prompt.text} if prompt.schema is True else example(prompt.schema)
        return json.dumps(value, ensure_ascii=False)
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
    suffix = f" ({prompt.candidate + 1})" if prompt.candidate else ""
    return f"You said: {prompt.text}{suffix}"


def _cut_at_stop_sequence(
    parts: tuple[Part, ...], stop_sequences: tuple[str, ...]
) -> tuple[tuple[Part, ...], str | None]:
    """The answer up to the first stop sequence in its text, and that sequence."""
    for place, part in enumerate(parts):
        if isinstance(part, Text):
            positions = [
                (part.text.find(stop_sequence), stop_sequence)
                for stop_sequence in stop_sequences
                if stop_sequence and stop_sequence in part.text
            ]
            if positions:
                at, stop_sequence = min(positions)
                return (*parts[:place], *_text_parts(Text(part.text[:at]))), stop_sequence
    return parts, None


def _cut_at_max_tokens(parts: tuple[Part, ...], room: int | None) -> tuple[tuple[Part, ...], bool]:
    """The parts that have room, the last of them cut where it ends; and whether anything was cut."""
    if room is None:
        return parts, False
    kept_parts: list[Part] = []
    for part in parts:
        if _tokens_of(part) > room:
            return (*kept_parts, *_cut_part(part, room)), True
        kept_parts.append(part)
        room -= _tokens_of(part)
    return tuple(kept_parts), False


def _cut_part(part: Part, room: int) -> tuple[Part, ...]:
    if not room:
        return ()
    match part:
        case ToolCall():
            arguments = "".join(tokenize(part.arguments)[: room - 1])
            return (ToolCall(part.name, arguments, whole=False),)
        case Thinking():
            return (Thinking("".join(tokenize(part.text)[:room]), part.hidden),)
    return (Text("".join(tokenize(part.text)[:room])),)
