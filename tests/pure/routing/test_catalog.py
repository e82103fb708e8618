"""What the catalog lists."""

from __future__ import annotations

import pytest

from mgw.canonical.catalog import ListedModel, ModelMetadata
from mgw.nouns.errors import GatewayError, Reason
from mgw.routing.catalog import Catalog
from mgw.routing.resolve import Resolver
from tests.support.configs import THREE_FAMILIES, config

CONFIG = config()
CATALOG = Catalog(CONFIG, Resolver(CONFIG), 1_700_000_000)


def test_aliases_come_first_then_targets_then_configured_models_each_once() -> None:
    assert [entry.id for entry in CATALOG.entries] == [
        "fast",
        "smart",
        "slashed/name",
        "main/gpt-b",
        "claude/claude-x",
        "host/meta-llama/llama-4",
        "main/gpt-c",
    ]


def test_capabilities_are_the_kinds_defaults_with_the_configured_changes() -> None:
    by_id = {entry.id: entry.capabilities for entry in CATALOG.entries}
    assert all(by_id["fast"].values())
    assert by_id["smart"] == {
        "chat": True,
        "image_gen": False,
        "video_gen": False,
        "audio_speech": False,
        "audio_transcribe": False,
        "realtime": False,
    }
    assert not CATALOG.entry("mute/anything").capabilities["chat"]


@pytest.mark.parametrize("name", ["fast", "models/fast", "gem/unlisted", "slashed/name", "host/a/b"])
def test_an_id_that_resolves_by_alias_or_prefix_has_an_entry(name: str) -> None:
    assert CATALOG.entry(name).id == name


@pytest.mark.parametrize("name", ["gpt-9", "", "nobody/x", "main/"])
def test_a_bare_or_unknown_id_has_none(name: str) -> None:
    with pytest.raises(GatewayError) as refusal:
        CATALOG.entry(name)
    assert refusal.value.reason is Reason.UNKNOWN_MODEL


def test_live_models_come_last_by_provider_in_the_configurations_order() -> None:
    live = {
        "gem": [ListedModel("g")],
        "main": [ListedModel("b"), ListedModel("a")],
        "gone": [ListedModel("x")],
    }
    added = CATALOG.with_live(live)[len(CATALOG.entries) :]
    assert [entry.id for entry in added] == ["main/b", "main/a", "gem/g"]


def test_a_live_model_that_is_listed_already_stays_where_it_is() -> None:
    entries = CATALOG.with_live(
        {"main": [ListedModel("gpt-c", 7, "GPT C"), ListedModel("gpt-c", 7, "GPT C")]}
    )
    assert [entry.id for entry in entries] == [entry.id for entry in CATALOG.entries]
    found = entries[-1]
    assert (found.id, found.created, found.display_name) == ("main/gpt-c", 7, "GPT C")


def test_a_live_model_has_the_providers_capabilities_and_the_upstreams_time() -> None:
    dated, undated = CATALOG.with_live({"mute": [ListedModel("a", 7, "A"), ListedModel("b")]})[-2:]
    assert (dated.created, dated.display_name, dated.owned_by) == (7, "A", "mute")
    assert (undated.created, undated.display_name) == (1_700_000_000, None)
    assert dated.capabilities == CATALOG.entry("mute/a").capabilities


def test_an_alias_is_not_taken_for_the_live_model_of_its_name() -> None:
    settings = config(THREE_FAMILIES + "  main/gpt-b: claude/claude-x\n")
    catalog = Catalog(settings, Resolver(settings), 1_700_000_000)
    entries = catalog.with_live({"main": [ListedModel("gpt-b", 7, "GPT B")]})
    assert entries == catalog.entries


def test_a_model_without_a_name_is_not_listed() -> None:
    assert CATALOG.with_live({"main": [ListedModel("")]}) == CATALOG.entries


def test_every_live_id_resolves_to_its_provider() -> None:
    for entry in CATALOG.with_live({"main": [ListedModel("x/y"), ListedModel("models/z")]}):
        assert CATALOG.entry(entry.id).owned_by == entry.owned_by


SAID = """
providers:
  main:
    kind: openai
    api_key: k1
    models: [plain, {id: listed, display_name: Listed, context_window: 9}, {id: hidden, max_output: 1}]
defaults: {openai_dialect: main}
aliases:
  coder: {targets: [main/listed, main/gpt-b], display_name: Coder, description: For all., max_output: 5}
  main/hidden: main/plain
  fast: main/listed
"""


@pytest.mark.parametrize(
    ("name", "metadata"),
    [
        ("coder", ModelMetadata("Coder", "For all.", None, 5)),
        ("models/coder", ModelMetadata("Coder", "For all.", None, 5)),
        ("main/listed", ModelMetadata("Listed", None, 9)),
        ("main/plain", None),
        ("main/gpt-b", None),
        ("main/hidden", None),
        ("fast", None),
    ],
)
def test_an_entry_has_what_is_said_about_its_own_name(name: str, metadata: ModelMetadata | None) -> None:
    settings = config(SAID)
    catalog = Catalog(settings, Resolver(settings), 1_700_000_000)
    assert catalog.entry(name).metadata == metadata
    assert {entry.id: entry for entry in catalog.entries}.get(name, catalog.entry(name)).metadata == metadata


def test_what_an_operator_says_goes_before_what_a_provider_lists() -> None:
    settings = config(SAID)
    catalog = Catalog(settings, Resolver(settings), 1_700_000_000)
    live = {"main": [ListedModel("listed", 7, "Of the provider"), ListedModel("plain", 7, "Plain")]}
    entries = {entry.id: entry for entry in catalog.with_live(live)}
    listed = entries["main/listed"]
    assert (listed.shown_name, listed.metadata) == ("Listed", ModelMetadata("Listed", None, 9))
    assert entries["main/plain"].shown_name == "Plain"
