"""Names of tools, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects.tool_name_map import ToolNameMap

NAMES = st.text("ab", max_size=3)
MAPS = st.dictionaries(NAMES, NAMES, max_size=5).filter(lambda exact: len({*exact.values()}) == len(exact))


@given(exact=MAPS, prefix=st.text("ab", max_size=2), names=st.sets(NAMES, max_size=20))
def test_two_tools_never_get_one_name_and_each_is_known_again(
    exact: dict[str, str], prefix: str, names: set[str]
) -> None:
    tools = ToolNameMap(exact, prefix)
    sent = {name: tools.sent(name) for name in names}
    assert len({*sent.values()}) == len(names)
    assert {name: tools.received(new) for name, new in sent.items()} == {name: name for name in names}


@given(exact=MAPS, prefix=st.text("ab", max_size=2), name=NAMES)
def test_a_name_that_nothing_becomes_stays_as_it_is(exact: dict[str, str], prefix: str, name: str) -> None:
    tools = ToolNameMap(exact, prefix)
    received = tools.received(name)
    assert received == name or tools.sent(received) == name


@pytest.mark.parametrize(
    ("exact", "prefix", "name", "sent"),
    [
        ({"shell": "Bash"}, "", "shell", "Bash"),
        ({"shell": "Bash"}, "", "read", "read"),
        ({"shell": "Bash"}, "", "Bash", "shell"),
        ({"shell": "Bash"}, "mcp_", "read", "mcp_read"),
        ({"shell": "Bash"}, "mcp_", "Bash", "mcp_Bash"),
        ({"shell": "mcp_read"}, "mcp_", "read", "mcp_shell"),
        ({"a": "b", "b": "c"}, "", "c", "a"),
    ],
)
def test_what_a_tool_is_called(exact: dict[str, str], prefix: str, name: str, sent: str) -> None:
    assert ToolNameMap(exact, prefix).sent(name) == sent
