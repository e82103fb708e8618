"""Requests of an exact size as agents make them late in their work: large, full of code and calls."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Final

_CORPUS: Final = Path(__file__).parent / "corpus"
_READ: Final = ("python", "json", "shell", "rust", "logs", "javascript", "english")
"""What the agent's tools return, in turn."""
_PIECE: Final = 2400
_TOOLS: Final = 20
Json = dict[str, object]


def agent_request(model: str, size: int) -> bytes:
    """Return a chat request of exactly ``size`` bytes: tools, then calls and what they returned.

    The model stands first and a text of the user last, which is as long as it must be.

    :raises ValueError: the size is too small for the tools and one turn.
    """
    messages: list[Json] = [
        {"role": "system", "content": "You are a coding agent. Change only what you are asked to."}
    ]
    body: Json = {"model": model, "tools": [_tool(number) for number in range(_TOOLS)], "messages": messages}
    texts = [(_CORPUS / f"{name}.txt").read_text(encoding="utf-8") for name in _READ]
    left = size - len(_dumped(body)) - len(_dumped(_user("")))
    for number in count():
        turn = _turn(number, texts[number % len(texts)])
        length = sum(len(_dumped(one)) + 1 for one in turn)
        if length + 1 > left:
            break
        left -= length
        messages += turn
    if not messages[1:]:
        raise ValueError(f"{size} bytes have no room for a turn")
    messages.append(_user("x" * (left - 1)))
    return _dumped(body)


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _user(text: str) -> Json:
    return {"role": "user", "content": text}


def _turn(number: int, text: str) -> list[Json]:
    start = number * 97 % max(1, len(text) - _PIECE)
    name, called = f"call_{number:024d}", {"path": f"src/module_{number}.py", "offset": number, "limit": 60}
    function = {"name": f"tool_{number % _TOOLS}", "arguments": json.dumps(called)}
    calls = [{"id": name, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": name, "content": text[start : start + _PIECE]},
    ]


def _tool(number: int) -> Json:
    path = {"type": "string", "description": "The file's path, relative to the root of the project."}
    properties = {"path": path, "offset": {"type": "integer"}, "limit": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["path"], "additionalProperties": False}
    said = f"Tool {number}: reads or changes a file of the project and returns the lines around the place."
    return {
        "type": "function",
        "function": {"name": f"tool_{number}", "description": said, "parameters": schema},
    }
