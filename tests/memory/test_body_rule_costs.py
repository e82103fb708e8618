"""What body rules cost: calls of Python functions for a request with a known head."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.in_memory.cases import cases
from tests.support.in_memory.gateway import MemoryGateway
from tests.support.in_memory.measure import calls_by_function, count_cycles
from tests.support.in_memory.work import work_of

CASES: Final = cases()
ALIAS: Final = "aliases: {{up/bench-model: {{targets: [up/bench-model], body: [{}]}}}}\n"
RULES: Final = {
    "cap": "{cap: {max_tokens: 1}}",
    "set": "{set: {seed: 1}}",
    "default": "{default: {seed: 1}}",
    "remove": "{remove: [messages_of_others]}",
}
SCANS: Final = ("json_document", "json_spans", "offload")
"""Modules whose calls are those of the scan and the splices."""
BASE: Final = 8
ONCE_IN_A_WHILE: Final = 0.1
"""Some calls are made by the second."""
EACH: Final = 6


def calls_with(settings: str, row: str = "relayed 1 kB") -> tuple[float, float]:
    """The calls of a request, and those of them that scan its body."""
    gateway = MemoryGateway(settings=settings)
    try:
        with work_of(CASES[row], gateway) as work:
            calls = calls_by_function(work)
            assert count_cycles(work, 100) == {}
        scanning = sum(count for name, count in calls.items() if any(scan in name for scan in SCANS))
        return sum(calls.values()), scanning
    finally:
        gateway.close()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_rules_take_few_calls_and_one_scan(rule: str, count: int) -> None:
    without, scanning = calls_with("aliases: {up/bench-model: [up/bench-model]}\n")
    with_rules, scanning_with = calls_with(ALIAS.format(", ".join([RULES[rule]] * count)))
    assert (with_rules - scanning_with) - (without - scanning) <= BASE + EACH * count + ONCE_IN_A_WHILE
    _, scanning_once = calls_with(ALIAS.format(RULES[rule]))
    assert scanning_with - scanning_once <= 1


def test_rules_for_others_take_two_calls() -> None:
    without, _ = calls_with("")
    with_rules, _ = calls_with("aliases: {other: {targets: [up/x], body: [{set: {a: 1}}]}}\n")
    assert with_rules - without <= 4
