"""Cache breakpoints."""

from __future__ import annotations

from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    Text,
)
from mgw.canonical.features import Feature
from tests.support.messages import (
    LOOK,
    USER,
    render,
    turn,
)


def test_at_most_four_breakpoints_go_and_only_where_they_were_set() -> None:
    marked = Text("x", CacheMark("1h"))
    body, rendered = render(
        turn(USER, marked, marked, "plain", marked),
        system=(marked,),
        tools=(replace(LOOK, cache=CacheMark()),),
    )
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    marks = ["cache_control" in block for block in body["messages"][0]["content"]]
    assert marks == [True, True, False, False]
    assert rendered.lost == {Feature.CACHE}
