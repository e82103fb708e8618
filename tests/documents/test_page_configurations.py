"""Every configuration that a page shows is one that the loader takes, and so is every part of one.

A part, such as a block ``prices``, is loaded with a few providers and an alias, by the names that pages use.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mgw.config.load import parse
from mgw.config.settings import Config
from mgw.routing.routes import DENIABLE
from tools.pages.blocks import ROOT, blocks_of

PAGES: Final = [*sorted(ROOT.glob("*.rst")), *sorted((ROOT / "docs").glob("*.rst"))]
SETTINGS: Final = {field.alias or name for name, field in Config.model_fields.items()}
AZURE: Final = "https://resource.openai.azure.com/openai/v1"
AROUND: Final[dict[str, Any]] = {
    "providers": {
        **{name: {"kind": "openai"} for name in ("main", "openai")},
        **{name: {"kind": "anthropic"} for name in ("claude", "anthropic")},
        "gem": {"kind": "gemini"},
        "azure": {"kind": "azure_openai", "base_url": AZURE},
    },
    "aliases": {"fast": "main/gpt-5"},
}


def configurations(page: Path) -> list[dict[str, Any]]:
    """Return what stands in blocks of a page and has settings at its top."""
    found = []
    for block in blocks_of(page).values():
        try:
            read = yaml.safe_load(block.text)
        except yaml.YAMLError:
            continue
        if isinstance(read, dict) and set(read) <= SETTINGS:
            found.append(read)
    return found


def completed(shown: dict[str, Any]) -> str:
    """Return a configuration with what a page leaves out."""
    whole = dict(AROUND)
    for name, value in shown.items():
        around = whole.get(name)
        whole[name] = {**around, **value} if around is not None and isinstance(value, dict) else value
    return yaml.safe_dump(whole)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_configuration_of_a_page_loads(page: Path) -> None:
    for shown in configurations(page):
        text = completed(shown)
        named = set(re.findall(r"(?:_env|env): (\w+)", text))
        environ = {
            name: "redis://host:6379/0" if "REDIS" in name else f"canary-{name}-" + "x" * 24 for name in named
        }
        parse(text, f"{page.name}: {', '.join(shown)}", environ, DENIABLE)


def test_the_pages_have_a_good_many_configurations() -> None:
    pages = [ROOT / "docs" / name for name in ("providers.rst", "configuration.rst", "tutorial.rst")]
    assert all(len(configurations(page)) > 3 for page in pages)
