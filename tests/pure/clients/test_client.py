"""Clients of a configuration: what groups add to models, limits, tags and priority, and when keys end."""

from __future__ import annotations

from fnmatch import fnmatchcase
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.client import Client, ClientRegistry, clients_of
from mgw.clients.limits import ONE_REQUEST, LimitReached, Permit
from mgw.clients.local_counts import LocalCounts
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.load import parse
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Priority

ONE = "providers: {main: {kind: openai}}\nprices: {rows: []}\n"
GROUPS = """
  groups:
    research:
      models: ["claude/*", fast]
      limits: [{usd: 500, per: month}, {tokens: 20, per: day, each: true}]
      tags: {cost_center: "4711", team: all}
    batch: {priority: batch, tags: {team: night}}
    empty:
"""


def settings(text: str) -> EdgeAuthSettings:
    return parse(f"{ONE}edge_auth:\n  enabled: true\n{text}", "mgw.yaml", {}).edge_auth


def client_of(key: str, more: str = GROUPS) -> Client:
    (client,) = clients_of(settings(f"  keys: [{{name: alice, key: a-long-key, {key}}}]\n{more}"))
    return client


def test_rows_of_the_key_its_groups_and_the_gateway_hold_and_each_has_its_holder() -> None:
    gateway = "  timezone: Europe/Berlin\n  limits: [{in_flight: 9}, {usd: 2.5, per: day, each: true}]\n"
    key = "max_in_flight: 3, limits: [{tokens: 5, per: minute, count: before}], groups: [empty, research]"
    client = client_of(key, GROUPS + gateway)
    assert [(row.holder, row.limit.name, row.most) for row in client.limits] == [
        ("alice", "max_in_flight", 3),
        ("alice", "tokens_per_minute", 5),
        ("group:research", "usd_per_month", 500 * 10**9),
        ("group:research/alice", "tokens_per_day", 20),
        ("gateway", "max_in_flight", 9),
        ("gateway/alice", "usd_per_day", 2_500_000_000),
    ]
    assert [row.is_reserved for row in client.limits] == [False, True, True, False, False, True]
    assert {row.zone for row in client.limits[1:]} == {"Europe/Berlin"}


def test_what_a_row_says_of_warnings_reaches_its_counts() -> None:
    client = client_of("limits: [{tokens: 5, per: day, action: warn, warn: [0.9, 0.5, 1]}]")
    (row,) = client.limits
    assert (row.refuses, row.warn_at) == (False, (500_000_000, 900_000_000))


def test_a_key_without_a_name_is_under_the_rows_of_the_gateway_alone() -> None:
    text = "  keys: [a-plain-key]\n  limits: [{requests: 9, per: day}, {requests: 5, per: day, each: true}]\n"
    (client,) = clients_of(settings(text))
    digits = sha256(b"a-plain-key").hexdigest()[:12]
    assert [row.holder for row in client.limits] == ["gateway", f"gateway/sha256:{digits}"]


def test_a_row_of_a_group_is_used_up_by_all_of_its_members_and_one_of_each_by_one() -> None:
    text = (
        "  keys: [{name: a, key: key-of-a, groups: [g]}, {name: b, key: key-of-b, groups: [g]}]\n"
        "  groups: {g: {limits: [{requests: 3, per: day}, {requests: 2, per: day, each: true}]}}\n"
    )
    counts = LocalCounts(lambda: 0.0)
    a, b = ClientRegistry(counts).clients_of(settings(text)).values()

    def begin(client: Client) -> str:
        found = counts.begin(client.limits, ONE_REQUEST)
        assert isinstance(found, Permit | LimitReached)
        return found.holder if isinstance(found, LimitReached) else "admitted"

    assert [begin(a), begin(a), begin(a)] == ["admitted", "admitted", "group:g/a"]
    assert [begin(b), begin(b)] == ["admitted", "group:g"]


def test_tags_of_later_groups_and_of_the_key_win() -> None:
    client = client_of("groups: [research, batch], tags: {project: x}")
    assert dict(client.tags) == {"cost_center": "4711", "team": "night", "project": "x"}
    assert dict(client_of("groups: [batch, research]").tags)["team"] == "all"
    assert dict(client_of("groups: [batch, research], tags: {team: mine}").tags)["team"] == "mine"


@pytest.mark.parametrize(
    ("key", "priority"),
    [
        ("groups: []", Priority.INTERACTIVE),
        ("groups: [batch]", Priority.BATCH),
        ("groups: [empty, batch]", Priority.BATCH),
        ("groups: [batch, urgent]", Priority.INTERACTIVE),
        ("groups: [urgent], priority: batch", Priority.BATCH),
        ("groups: [batch], priority: interactive", Priority.INTERACTIVE),
    ],
)
def test_the_priority_is_the_keys_own_or_the_highest_of_its_groups(key: str, priority: Priority) -> None:
    assert client_of(key, f"{GROUPS}    urgent: {{priority: interactive}}\n").priority is priority


PATTERNS = st.lists(st.sampled_from(["a*", "*b", "ab", "main/a*", "main/*", "c"]), max_size=3)
STATED = st.none() | PATTERNS


@given(
    own=STATED,
    groups=st.lists(STATED, max_size=3),
    asked=st.sampled_from(["a", "b", "ab", "c", "A", "models/ab"]),
    model=st.none() | st.sampled_from(["a", "ab", "cb"]),
)
def test_a_model_has_to_fit_the_key_and_one_of_its_groups(
    own: list[str] | None, groups: list[list[str] | None], asked: str, model: str | None
) -> None:
    names = [asked.removeprefix("models/").lower(), *([] if model is None else [f"main/{model}"])]

    def fits(patterns: list[str] | None) -> bool:
        return patterns is None or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)

    models = "" if own is None else f", models: {own}"
    joined = "".join(
        f"    g{number}: {{{'' if patterns is None else f'models: {patterns}'}}}\n"
        for number, patterns in enumerate(groups)
    )
    names_of_groups = ", ".join(f"g{number}" for number in range(len(groups)))
    text = f"  keys: [{{name: alice, key: a-long-key{models}, groups: [{names_of_groups}]}}]\n"
    (client,) = clients_of(settings(f"{text}  groups:\n{joined}"))
    expected = fits(own) and (not groups or any(map(fits, groups)))
    assert client.may_use(asked, None if model is None else "main", model) is expected


@pytest.mark.parametrize(
    ("key", "use"),
    [
        ("models: [c]", "use one that GET /v1/models lists; if it lists none, ask the operator"),
        ("models: []", "this key may use no model"),
        ("groups: [nothing]", "this key may use no model"),
        ("groups: [nothing, some]", "use one that GET /v1/models lists"),
        ("models: [c], groups: [nothing]", "this key may use no model"),
    ],
)
def test_a_model_that_a_key_may_not_use_is_refused_with_what_it_may_use(key: str, use: str) -> None:
    client = client_of(key, "  groups: {nothing: {models: []}, some: {models: [c]}}\n")
    with pytest.raises(GatewayError) as refused:
        client.check_model("ab", "main", "ab")
    assert str(refused.value).startswith(f"no model is named 'ab' for this key: {use}")


def test_a_date_ends_in_the_time_zone_of_the_gateway() -> None:
    assert client_of("models: []").expires is None
    assert client_of("expires: 2027-03-31", "  timezone: Europe/Berlin\n").expires == 1806530400
    assert client_of("expires: 2027-03-31T00:00:00Z", "  timezone: Europe/Berlin\n").expires == 1806451200


def test_refusals_are_told_by_holder_and_of_each_row_by_client() -> None:
    text = (
        "  keys: [{name: a, key: key-of-a, groups: [g], requests_per_minute: 7}, a-plain-key]\n"
        "  groups: {g: {limits: [{requests: 1, per: day}, {tokens: 2, per: day, each: true}]}}\n"
        "  limits: [{requests: 2, per: day, each: true}, {tokens: 3, per: day, action: warn}]\n"
    )
    counts = LocalCounts(lambda: 0.0)
    registry = ClientRegistry(counts)
    named, plain = registry.clients_of(settings(text)).values()
    for client in (named, named, named, plain, plain, plain):
        counts.begin(client.limits, ONE_REQUEST)
    assert sorted(registry.refusals()) == [
        ("a", "requests_per_day", 0),
        ("a", "requests_per_minute", 0),
        ("a", "tokens_per_day", 0),
        ("group:g", "requests_per_day", 2),
        ("other", "requests_per_day", 1),
    ]
