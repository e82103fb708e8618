"""What a configuration can ask for can be opened."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import get_args, get_type_hints

import pytest

from mgw.config.hooks import SINKS, HooksSettings
from mgw.usage import sinks


def test_every_sink_has_a_block_of_settings_and_the_other_way_round() -> None:
    assert {module.name for module in iter_modules(sinks.__path__)} == set(SINKS)


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_is_opened_with_the_settings_of_its_block(name: str) -> None:
    hints = get_type_hints(import_module(f"mgw.usage.sinks.{name}").open_sink)
    assert set(get_args(HooksSettings.model_fields[name].annotation)) == {hints["settings"], type(None)}
    assert hints["tools"] == sinks.SinkTools
