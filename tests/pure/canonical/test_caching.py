"""Automatic cache breakpoints."""

from __future__ import annotations

from mgw.canonical.caching import add_breakpoints
from mgw.canonical.conversation import CacheMark, Conversation, Role, Text, Tool, Turn

BOTH = frozenset({"system", "tools"})
HELLO = Turn(Role.USER, (Text("hello"),))


def conversation(*system: Text, tools: tuple[Tool, ...] = ()) -> Conversation:
    return Conversation((HELLO,), system=system, tools=tools)


def test_the_last_of_each_target_gets_the_mark() -> None:
    asked = conversation(Text("a" * 50), Text("b" * 50), tools=(Tool("one", "x" * 100), Tool("two")))
    marked, names = add_breakpoints(asked, BOTH, 10)
    assert names == ("system", "tools")
    assert [text.cache for text in marked.system] == [None, CacheMark()]
    assert [tool.cache for tool in marked.tools] == [None, CacheMark()]


def test_below_the_least_size_nothing_is_marked() -> None:
    asked = conversation(Text("a" * 50))
    assert add_breakpoints(asked, BOTH, 51) == (asked, ())
    assert add_breakpoints(asked, BOTH, 50)[1] == ("system",)


def test_tools_stand_before_the_instructions_and_count_with_them() -> None:
    asked = conversation(Text("a" * 10), tools=(Tool("one", "x" * 100),))
    marked, names = add_breakpoints(asked, frozenset({"system"}), 100)
    assert names == ("system",)
    assert marked.tools[0].cache is None


def test_a_schema_counts_by_its_json() -> None:
    asked = conversation(tools=(Tool("one", schema={"type": "object", "properties": {}}),))
    assert add_breakpoints(asked, BOTH, 30)[1] == ("tools",)
    assert add_breakpoints(asked, BOTH, 80)[1] == ()


def test_a_mark_of_the_client_keeps_the_gateway_from_that_target_alone() -> None:
    own = CacheMark("1h")
    asked = conversation(Text("a" * 50, cache=own), Text("b"), tools=(Tool("one", "x" * 100),))
    marked, names = add_breakpoints(asked, BOTH, 10)
    assert names == ("tools",)
    assert marked.system == asked.system


def test_an_empty_last_instruction_is_passed_over() -> None:
    marked, names = add_breakpoints(conversation(Text("a" * 50), Text("")), BOTH, 10)
    assert names == ("system",)
    assert [text.cache for text in marked.system] == [CacheMark(), None]


def test_only_the_targets_of_the_operator_are_marked() -> None:
    asked = conversation(Text("a" * 50), tools=(Tool("one", "x" * 100),))
    assert add_breakpoints(asked, frozenset({"tools"}), 10)[1] == ("tools",)
    assert add_breakpoints(asked, frozenset(), 10) == (asked, ())


def test_the_marks_of_the_client_leave_no_more_than_a_provider_takes() -> None:
    marked = tuple(Turn(Role.USER, (Text("x", cache=CacheMark()),)) for _ in range(4))
    asked = Conversation(marked, system=(Text("a" * 50),), tools=(Tool("one", "x" * 100),))
    assert add_breakpoints(asked, BOTH, 10) == (asked, ())
    three = Conversation(marked[:3], system=asked.system, tools=asked.tools)
    assert add_breakpoints(three, BOTH, 10)[1] == ("tools",)
