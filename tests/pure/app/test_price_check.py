"""Models without a price that clients under a limit on money may ask for."""

from __future__ import annotations

from typing import Final

import pytest

from mgw.app.check import warnings
from mgw.config.key_settings import NamedKeySettings
from mgw.config.load import parse, parse_key_file
from mgw.usage.prices import PriceTable

GATEWAY: Final = """
providers: {{a: {{kind: openai}}, b: {{kind: anthropic}}, c: {{kind: gemini}}}}
defaults: {{openai_dialect: a}}
aliases: {{one: a/gpt-5}}
edge_auth: {{enabled: true, keys_dir: /etc/mgw/keys.d, {auth}}}
prices:
  unpriced: {unpriced}
  rows: [{{model: "gpt-*", provider: a, input: 1}}, {{model: claude-1, provider: b, input: 1}}]
"""
BUDGET: Final = "limits: [{usd: 1, per: day}]"


def keys(*models: str) -> str:
    patterns = ", ".join(f"'{model}'" for model in models)
    return f"keys: [{{name: k, key: long-key-1, models: [{patterns}]}}]"


def tokens(rules: str) -> str:
    return f"jwt: [{{name: corp, issuer: 'https://a.example', audience: mgw, rules: {rules}}}]"


def of_prices(auth: str, unpriced: str = "refuse", *file_keys: NamedKeySettings) -> list[str]:
    config = parse(GATEWAY.format(auth=auth, unpriced=unpriced), "mgw.yaml", {})
    assert config.prices is not None
    found = warnings(config, PriceTable(config.prices.rows), file_keys=file_keys)
    return [one for one in found if one.startswith("prices: ")]


CASES = {
    "a key of a group, by the pattern of the group": (
        (
            "groups: {g: {models: [b/x-*], limits: [{usd: 1, per: day}]}}, "
            "keys: [{name: k, key: long-key-1, groups: [g]}]"
        ),
        ["prices: no row is for a model like 'x-*' of providers.b"],
    ),
    "models that patterns name": (
        f"{BUDGET}, {keys('a/o9', 'a/gpt-5', 'b/claude-1', 'b/claude-2')}",
        [
            "prices: no row matches o9 of providers.a",
            "prices: no row matches claude-2 of providers.b",
        ],
    ),
    "a model of no provider goes to a default": (
        f"{BUDGET}, {keys('o9', 'gpt-5', 'g*', 'one')}",
        ["prices: no row matches o9 of providers.a"],
    ),
    "a pattern of no provider goes to a default": (
        f"{BUDGET}, {keys('o*', 'gpt-5*', 'g*', 'one')}",
        ["prices: no row is for a model like 'o*' of providers.a"],
    ),
    "a row without wildcards is no row for longer names": (
        f"{BUDGET}, {keys('b/claude-1-*', 'b/claude-*')}",
        ["prices: no row is for a model like 'claude-1-*' of providers.b"],
    ),
    "clients that may use everything": (
        f"{BUDGET}, keys: [long-key-1]",
        ["prices: no row is for a model of providers.c"],
    ),
    "a client that may use everything": (
        "keys: [{name: k, key: long-key-1, limits: [{usd: 1, per: day}]}]",
        ["prices: no row is for a model of providers.c"],
    ),
    "clients with tokens, by the patterns of their groups": (
        (
            "groups: {g: {models: [b/x-*, a/o9], limits: [{usd: 1, per: day}]}, h: {models: [b/y-*]}}, "
            f"{tokens('[{when: {a: b}, groups: [g]}, {groups: [h]}]')}"
        ),
        [
            "prices: no row matches o9 of providers.a",
            "prices: no row is for a model like 'x-*' of providers.b",
        ],
    ),
    "clients with tokens that may use everything": (
        f"{BUDGET}, {tokens('[{}]')}",
        ["prices: no row is for a model of providers.c"],
    ),
    "another client's limit": (
        (
            "keys: [{name: k, key: long-key-1, models: [b/x-*]}, "
            "{name: l, key: long-key-2, models: [b/claude-1], limits: [{usd: 1, per: day}]}]"
        ),
        [],
    ),
    "a limit that only warns": (f"{BUDGET.replace('day', 'day, action: warn')}, {keys('b/x-*')}", []),
    "a limit on something else": (f"{BUDGET.replace('usd', 'tokens')}, {keys('b/x-*')}", []),
}


@pytest.mark.parametrize(("auth", "said"), CASES.values(), ids=CASES)
def test_what_clients_under_a_budget_cannot_use_for_want_of_a_price_is_told(
    auth: str, said: list[str]
) -> None:
    found = of_prices(auth)
    assert [one.split(", so ")[0] for one in found] == said
    assert all("clients under a limit on usd get 403" in one for one in found)
    assert not any("403" in one for one in of_prices(auth, "allow"))


def test_key_files_count_as_well() -> None:
    file = f"sha256: {'a' * 64}\nmodels: [a/o9, b/x-*]\n{BUDGET}\n"
    config = parse(GATEWAY.format(auth="keys: []", unpriced="refuse"), "mgw.yaml", {})
    key = parse_key_file(file, "k", "k.yaml", config)[0]
    assert len(of_prices("keys: []", "refuse", key)) == 2
    assert of_prices("keys: []") == []


def test_a_client_that_only_a_warning_is_for_is_not_said_to_get_403() -> None:
    """A model without a price is refused for rows that refuse, not for those that only warn."""
    text = f"{BUDGET.replace('day', 'day, action: warn')}, {keys('b/x-*')}"
    config = parse(
        GATEWAY.format(auth=text, unpriced="refuse").replace("openai}", "openai, models: [o9]}"), "m", {}
    )
    assert config.prices is not None
    (told,) = [one for one in warnings(config, PriceTable(config.prices.rows)) if one.startswith("prices")]
    assert told.endswith("so these requests have no cost_usd")


def test_of_many_patterns_a_few_are_named() -> None:
    (told,) = of_prices(f"{BUDGET}, {keys(*(f'b/x{number}-*' for number in range(9)))}")
    assert "'x0-*', 'x1-*', 'x2-*', 'x3-*', 'x4-*' and 4 more of providers.b" in told
