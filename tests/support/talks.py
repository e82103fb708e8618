"""The two conversations that are translated, without any wire: a chat of 4 kB, an agent's work of 200 kB.

Everything is made up and the same in every run.  There is text, tools, calls and their results, since that
is what all of the measured programs carry; no media, no thinking, nothing of one vendor alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import cycle, islice

TOOLS = 40
TURNS = 48

_PROSE = (
    "the gateway reads each request once and keeps its order while every answer waits for nothing but the "
    "line below it; a naïve parser would build the tree twice, “quote” it, and lose “größer” on the way - "
    'so we write:\n\treturn {"ok": true, "path": "C:\\\\tmp"}\n'
)
_WORDS = _PROSE.split(" ")


@dataclass(frozen=True, slots=True)
class Call:
    """The model asks for a tool."""

    id: str
    name: str
    arguments: dict[str, object]


@dataclass(frozen=True, slots=True)
class User:
    """The user speaks."""

    text: str


@dataclass(frozen=True, slots=True)
class Assistant:
    """The model speaks, or calls, or both."""

    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """What the calls gave."""

    of: tuple[tuple[Call, str], ...]


Turn = User | Assistant | Results


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that may be called."""

    name: str
    description: str
    schema: dict[str, object]


@dataclass(frozen=True, slots=True)
class Talk:
    """A request, and what was answered."""

    name: str
    system: str
    turns: tuple[Turn, ...]
    answer: Assistant
    tools: tuple[Tool, ...] = ()
    stop: tuple[str, ...] = field(default=("<END>",))
    max_tokens: int = 4096
    temperature: float = 0.5


def chat() -> Talk:
    """A few turns of talk: 4 kB in, 4 kB out."""
    turns: list[Turn] = []
    for number in range(3):
        turns += [User(words(320, number)), Assistant(words(700, number + 7))]
    turns.append(User(words(120, 3)))
    return Talk("chat", words(320, 11), tuple(turns), Assistant(words(3300, 5)))


def agent() -> Talk:
    """An agent in the middle of its work: 200 kB with 40 tools, and calls, two at a time now and then."""
    turns: list[Turn] = [User(words(900, 2))]
    tools = tuple(map(_tool, range(TOOLS)))
    for number in range(TURNS):
        calls = tuple(_call(number, nth) for nth in range(1 + number % 2))
        turns.append(Assistant(words(180, number) if number % 3 else "", calls))
        turns.append(Results(tuple((call, words(1200, number + 20)) for call in calls)))
    turns += [Assistant(words(300, 4)), User(words(200, 8))]
    answer = Assistant(words(600, 9), tuple(_call(TURNS, nth) for nth in range(3)))
    return Talk("agent", words(12_000, 6), tuple(turns), answer, tools)


def words(characters: int, begin: int) -> str:
    """So many characters of prose and code; every word of it may have to be escaped in JSON."""
    text = " ".join(islice(cycle(_WORDS), begin, begin + characters // 3 + 2))
    return text[:characters].rstrip().ljust(characters, ".")


def fragments(text: str) -> list[str]:
    """A text as a model streams it: some four characters at a time."""
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def first_lines(talk: Talk, characters: int) -> Assistant:
    """The beginning of the answer, without calls: a stream of text."""
    return replace(talk.answer, text=talk.answer.text[:characters], calls=())


def as_json(value: object) -> str:
    """JSON as the vendors' SDKs write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _call(number: int, nth: int) -> Call:
    arguments: dict[str, object] = {
        "path": f"src/gateway/module_{number:02d}.py",
        "pattern": words(60, number + nth),
        "limit": 20 + number,
        "options": {"recursive": True, "kinds": ["py", "rst"], "weight": 0.75},
    }
    call_id = f"{number:02d}{nth}7Qx3mZk9Lw2Rt5Vb8Ny1"
    return Call(call_id, f"tool_{(number + nth) % TOOLS:02d}", arguments)


def _tool(number: int) -> Tool:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": words(90, number)},
            "pattern": {"type": "string", "description": words(120, number + 1)},
            "limit": {"type": "integer", "description": words(40, number + 2), "minimum": 1, "maximum": 500},
            "mode": {"type": "string", "enum": ["read", "write", "append"], "description": words(50, number)},
            "options": {
                "type": "object",
                "description": words(70, number + 3),
                "properties": {
                    "recursive": {"type": "boolean"},
                    "weight": {"type": "number"},
                    "kinds": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["recursive"],
            },
        },
        "required": ["path"],
    }
    return Tool(f"tool_{number:02d}", words(420, number), schema)
