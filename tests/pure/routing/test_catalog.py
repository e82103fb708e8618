"""What the catalog lists."""

from __future__ import annotations

import pytest

from mgw.errors import GatewayError, Reason
from mgw.routing.catalog import Catalog
from mgw.routing.resolve import Resolver
from tests.support.configs import config

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
