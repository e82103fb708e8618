"""Groups of clients in a configuration, and the names by which keys and the dashboard refer to them."""

from __future__ import annotations

import pytest

from mgw.config.load import parse
from mgw.config.problems import ConfigError

ONE = "providers: {main: {kind: openai}}\n"
KEY = "name: a, key: a-long-key"


def said_of(settings: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse(ONE + settings, "mgw.yaml", {})
    return [str(problem) for problem in refusal.value.problems]


def test_a_group_may_say_nothing() -> None:
    config = parse(
        f"{ONE}edge_auth: {{groups: {{research: }}, keys: [{{{KEY}, groups: [research]}}]}}", "", {}
    )
    assert config.edge_auth.groups["research"].models is None
    assert config.edge_auth.named[0].groups == ("research",)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reserch", "no group is named 'reserch', did you mean research? (known: research, ops)"),
        ("sk-canary-7f3a91b2c4", "no group has this name (known: research, ops)"),
        ("something-else", "no group has this name (known: research, ops)"),
    ],
)
def test_an_unknown_group_is_named_only_beside_one_that_it_resembles(name: str, said: str) -> None:
    groups = "groups: {research: , ops: }"
    of_key = said_of(f"edge_auth: {{{groups}, keys: [{{{KEY}, groups: [ops, {name}]}}]}}\n")
    of_dashboard = said_of(f"edge_auth: {{{groups}}}\ndashboard: {{groups: [{name}]}}\n")
    assert of_key == [f"mgw.yaml:2: edge_auth.keys.0.groups.1: {said}"]
    assert of_dashboard == [f"mgw.yaml:3: dashboard.groups.0: {said}"]


def test_without_groups_none_is_known() -> None:
    (said,) = said_of("dashboard: {groups: [research]}\n")
    assert said == "mgw.yaml:2: dashboard.groups.0: no group has this name (known: none)"


@pytest.mark.parametrize("groups", ["[research]", "{research: 5}"])
def test_a_mistake_in_the_groups_is_told_once(groups: str) -> None:
    (said,) = said_of(f"edge_auth: {{groups: {groups}, keys: [{{{KEY}, groups: [research]}}]}}\n")
    assert "edge_auth.groups" in said
