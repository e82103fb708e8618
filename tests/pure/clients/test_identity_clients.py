"""Clients that only tokens name: what groups and tokens give them, what they are counted and called by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.client import Client, ClientRegistry
from mgw.clients.identity_clients import MAX_CLIENTS, IdentityClients
from mgw.clients.limits import ONE_REQUEST, LimitReached, Permit, Taken
from mgw.clients.local_counts import MAX_IDLE_HOLDERS, LocalCounts
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.load import parse
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Priority
from mgw.routing.routes import ROUTES
from mgw.usage.labels import labels_of
from tests.support.counting import decision_of

ENTRY = "{name: corp, issuer: 'https://a.example', audience: mgw, rules: [{groups: [research, night]}, {}]}"
OTHER = "{name: ci, issuer: 'https://b.example', audience: mgw, rules: [{}]}"
GROUPS = """
  groups:
    research:
      models: ["claude/*", fast]
      limits: [{requests: 3, per: day}, {requests: 2, per: day, each: true}]
      tags: {cost_center: "4711", team: all}
    night: {models: [slow], priority: batch, tags: {team: night}}
  limits: [{in_flight: 50}, {requests: 4, per: day, each: true}]
"""


def settings(more: str = GROUPS) -> EdgeAuthSettings:
    groups = "" if "groups:" in more else "  groups: {research: , night: }\n"
    jwt = f"  enabled: true\n  jwt: [{ENTRY}, {OTHER}]\n{groups}{more}"
    return parse(f"providers: {{main: {{kind: openai}}}}\nedge_auth:\n{jwt}", "mgw.yaml", {}).edge_auth


def clients(more: str = GROUPS) -> tuple[IdentityClients, LocalCounts, ClientRegistry]:
    counts, found = LocalCounts(lambda: 0.0), settings(more)
    registry = ClientRegistry(counts)
    registry.clients_of(found)
    return IdentityClients(found, counts), counts, registry


def begin(client: Client) -> str:
    assert client.counts is not None
    found = decision_of(client.counts.begin(client.limits, ONE_REQUEST))
    return found.holder if isinstance(found, LimitReached) else "admitted"


def test_rows_of_groups_and_of_the_gateway_hold_and_name_the_client() -> None:
    identities, _, _ = clients()
    client = identities.client_of("corp", "ann@example.com", ["research", "night"], {})
    assert [(row.holder, row.limit.name, row.most) for row in client.limits] == [
        ("group:research", "requests_per_day", 3),
        ("group:research/corp:ann@example.com", "requests_per_day", 2),
        ("gateway", "max_in_flight", 50),
        ("gateway/corp:ann@example.com", "requests_per_day", 4),
    ]
    assert (client.name, client.issuer) == ("corp:ann@example.com", "corp")
    assert client.groups == ("research", "night")
    assert client.zone == "UTC"


def test_without_limits_nothing_counts() -> None:
    identities, _, _ = clients("")
    client = identities.client_of("corp", "ann", [], {})
    assert client.counts is None
    assert client.begin() is None


def test_models_are_those_that_a_group_allows() -> None:
    identities, _, _ = clients()
    both = identities.client_of("corp", "ann", ("research", "night"), {})
    assert [both.may_use(model, None, None) for model in ("fast", "slow", "claude/x", "gpt")] == [
        *(True, True, True, False)
    ]
    assert identities.client_of("corp", "ann", (), {}).may_use("gpt", None, None)


def test_a_model_that_is_not_allowed_is_refused_for_the_token() -> None:
    identities, _, _ = clients()
    client = identities.client_of("corp", "ann", ("night",), {})
    with pytest.raises(GatewayError, match="for this token"):
        client.check_model("gpt", None, None)


def test_tags_of_the_token_win_over_those_of_later_groups() -> None:
    identities, _, _ = clients()
    client = identities.client_of("corp", "ann", ("research", "night"), {"team": "own", "city": "Bonn"})
    assert client.tags == (("cost_center", "4711"), ("team", "own"), ("city", "Bonn"))
    assert dict(identities.client_of("corp", "ann", ("research", "night"), {}).tags)["team"] == "night"


def test_the_priority_is_the_highest_of_the_groups() -> None:
    identities, _, _ = clients()
    assert identities.client_of("corp", "ann", ("night",), {}).priority is Priority.BATCH
    assert identities.client_of("corp", "ann", ("research",), {}).priority is Priority.INTERACTIVE


PEOPLE = st.tuples(
    st.sampled_from(["corp", "ci"]),
    st.sampled_from(["ann", "bob", "ann:x", "ann/x"]),
    st.sampled_from([(), ("research",), ("research", "night")]),
    st.sampled_from([(), (("team", "a"),), (("team", "b"),)]),
)


@given(asked=st.lists(PEOPLE, max_size=20))
def test_there_is_one_object_for_each_person_and_what_the_token_gives_it(
    asked: list[tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]],
) -> None:
    identities = IdentityClients(settings(), None)
    found = [identities.client_of(*one) for one in asked]
    again = [identities.client_of(*one) for one in asked]
    assert all(one is other for one, other in zip(found, again, strict=True))
    assert len(set(map(id, found))) == len(set(asked))


def test_the_client_that_was_asked_for_least_recently_makes_room() -> None:
    identities = IdentityClients(settings(""), None)
    first = identities.client_of("corp", "0", (), {})
    for number in range(1, MAX_CLIENTS):
        identities.client_of("corp", str(number), (), {})
    assert identities.client_of("corp", "0", (), {}) is first
    identities.client_of("corp", "one more", (), {})
    assert len(identities._clients) == MAX_CLIENTS
    assert identities.client_of("corp", "0", (), {}) is first
    assert ("corp:1", (), ()) not in identities._clients


def test_a_client_that_nobody_has_made_known_is_counted_like_any_other() -> None:
    identities, _, _ = clients()
    ann = identities.client_of("corp", "ann", ("research",), {})
    bob = identities.client_of("corp", "bob", ("research",), {})
    assert [begin(ann), begin(ann), begin(ann)] == ["admitted", "admitted", "group:research/corp:ann"]
    assert [begin(bob), begin(bob)] == ["admitted", "group:research"]
    eve = identities.client_of("ci", "ann", (), {})
    assert [begin(eve) for _ in range(5)] == [*["admitted"] * 4, "gateway/ci:ann"]


def test_what_a_client_has_used_outlives_its_object_and_the_configuration() -> None:
    identities, counts, registry = clients()
    ann = identities.client_of("corp", "ann", ("research",), {})
    assert [begin(ann), begin(ann)] == ["admitted", "admitted"]
    after = settings()
    registry.clients_of(after)
    again = IdentityClients(after, counts).client_of("corp", "ann", ("research",), {"team": "other"})
    assert again is not ann
    assert begin(again) == "group:research/corp:ann"


def test_two_people_with_one_name_from_two_issuers_are_counted_apart() -> None:
    identities, _, _ = clients()
    one, other = (identities.client_of(entry, "ann", (), {}) for entry in ("corp", "ci"))
    assert [begin(one) for _ in range(5)][-1] == "gateway/corp:ann"
    assert begin(other) == "admitted"


def test_refusals_of_what_each_client_has_are_told_by_the_issuer() -> None:
    identities, _, registry = clients()
    assert sorted(registry.refusals()) == [
        ("ci", "requests_per_day", 0),
        ("corp", "requests_per_day", 0),
        ("gateway", "max_in_flight", 0),
        ("group:research", "requests_per_day", 0),
    ]
    ann, bob = (identities.client_of("corp", who, ("research",), {}) for who in ("ann", "b/o:b"))
    for client in (ann, ann, ann, bob, bob, bob):
        begin(client)
    assert sorted(registry.refusals()) == [
        ("ci", "requests_per_day", 0),
        ("corp", "requests_per_day", 1),
        ("gateway", "max_in_flight", 0),
        ("group:research", "requests_per_day", 2),
    ]


def test_a_metric_never_falls_and_shared_rows_stay_when_clients_are_forgotten() -> None:
    more = "  limits: [{requests: 30000, per: minute}, {requests: 1, per: minute, each: true}]\n"
    identities, counts, registry = clients(more)
    ann = identities.client_of("corp", "ann", (), {})
    assert [begin(ann), begin(ann)] == ["admitted", "gateway/corp:ann"]
    for number in range(MAX_IDLE_HOLDERS + 1000):
        client = identities.client_of("corp", str(number), (), {})
        found = decision_of(counts.begin(client.limits, ONE_REQUEST))
        assert isinstance(found, Permit)
        counts.end(found, Taken())
    assert len(list(counts.tallies)) <= MAX_IDLE_HOLDERS + 2
    assert ("corp", "requests_per_minute", 1) in registry.refusals()
    assert counts.in_flight("gateway") == 1


def test_events_name_the_client_and_metrics_its_issuer() -> None:
    identities, _, _ = clients()
    labels = labels_of(ROUTES[0], "main", "m", "m", None, identities.client_of("corp", "ann", (), {}))
    assert (labels.client, labels.client_label) == ("corp:ann", "corp")
    assert labels_of(ROUTES[0], "main", "m", "m", None, Client("alice", b"")).client_label == "alice"
    assert labels_of(ROUTES[0], "main", "m", "m", None, Client("sha256:12", b"")).client_label == "other"
