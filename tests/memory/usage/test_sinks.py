"""The registry of sinks: what a configuration can ask for can be opened."""

from __future__ import annotations

from typing import get_args

from mgw.config.settings import HooksSettings
from mgw.usage.sinks import SINKS


def test_every_hook_has_a_sink_with_its_settings() -> None:
    stated = {name: set(get_args(field.annotation)) for name, field in HooksSettings.model_fields.items()}
    assert stated == {name: {kind.settings, type(None)} for name, kind in SINKS.items()}
