"""What an output holds, so that nobody is measured doing less: counted by the names that the wires use.

An output is compared with the case in the same wire, so one way of counting is enough for all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tests.support.talks import as_json

TOLERANCES: Final = {"characters": 0.005, "arguments": 0.2}
"""By how much a count may differ: some put a newline between two texts, or escape what need not be."""
Tally = dict[str, int]
_TEXTS: Final = {"text", "content", "system", "description", "output", "result"}
_ARGUMENTS: Final = {"arguments", "partial_json", "input", "args"}
_RESULTS: Final = {"tool_call_id", "tool_use_id", "functionResponse", "function_response"}
_STOPS: Final = {"stop", "stop_sequences", "stopSequences"}
_ENDS: Final = {"finish_reason", "stop_reason", "finishReason"}
_LIMITS: Final = {"max_tokens", "max_completion_tokens", "maxOutputTokens", "max_output_tokens"}
_TOKENS: Final = {"completion_tokens", "output_tokens", "candidatesTokenCount"}


def of_body(body: bytes) -> Tally:
    """Count what a request or a whole answer holds."""
    return _counted(_items(json.loads(body)))


def of_stream(data: bytes) -> Tally:
    """Count what a stream holds, but for the tokens, which some repeat."""
    lines = data.decode().replace("\r\n", "\n").split("\n")
    bodies = [line[6:] for line in lines if line.startswith("data: ") and line != "data: [DONE]"]
    found = _counted(item for body in bodies for item in _items(json.loads(body)))
    return {name: count for name, count in found.items() if name != "tokens out"}


def differences(wanted: Tally, found: Tally) -> list[str]:
    """Say what one output has that another lacks."""
    said = []
    for name in sorted(wanted.keys() | found.keys()):
        one, other = wanted.get(name, 0), found.get(name, 0)
        if abs(one - other) > one * TOLERANCES.get(name, 0):
            said.append(f"{name}: {other} in place of {one}")
    return said


def _counted(items: Iterable[tuple[str, int]]) -> Tally:
    counts: Counter[str] = Counter()
    for name, count in items:
        counts[name] += count
    return dict(+counts)


def _items(value: Any, key: str = "") -> Iterator[tuple[str, int]]:  # Any: JSON of whatever shape
    """Yield the counts of a value that stands under a key, or in a list there."""
    if key in _RESULTS:
        yield "results", 1
    if key in _ARGUMENTS:
        yield "arguments", _dense(value)
    elif isinstance(value, dict):
        within = value.items() if "response" not in value else [("response", value["response"])]
        for name, inner in within:  # a result repeats the name of its call in one wire
            yield from _items(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _items(inner, key)
    elif isinstance(value, str):
        yield from _of_text(value, key)
    elif key in _LIMITS and value:
        yield "most tokens", value
    elif key in _TOKENS and value:
        yield "tokens out", value


def _of_text(text: str, key: str) -> Iterator[tuple[str, int]]:
    if key in _TEXTS:
        yield "characters", len(text)
    elif key == "name":
        yield "tools and calls", bool(text)
    elif key in _STOPS:
        yield "stop sequences", 1
    elif key in _ENDS:
        yield "ends", 1


def _dense(value: Any) -> int:
    """The characters that are no space: JSON may be written with some or without."""
    return len("".join((value if isinstance(value, str) else as_json(value)).split())) if value else 0
