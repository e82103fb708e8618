"""Every configuration in the pages for newcomers is one that the loader takes, as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest
import yaml

from mgw.app.check import final_addresses, warnings
from mgw.app.credential_check import token_sources
from mgw.config.load import parse
from mgw.routing.routes import DENIABLE

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^( *)\.\. code:: yaml\n\n((?:(?:\1    .*)?\n)+)", re.MULTILINE)
PAGES = (
    "README.rst",
    "docs/providers.rst",
    "docs/credentials.rst",
    "docs/keys.rst",
    "docs/coming-from-litellm.rst",
)


def blocks() -> Iterator[tuple[str, str]]:
    """Yield each configuration, and what tests call it."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for number, found in enumerate(BLOCK.finditer(text), 1):
            yield f"{Path(page).stem} {number}", dedent(found[2])


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in blocks()])
def test_a_configuration_that_is_shown_loads_and_needs_no_warning(text: str) -> None:
    environ = dict.fromkeys(re.findall(r"(?:_env|\{env): (\w+)", text), "x" * 24)
    config = parse(text, "mgw.yaml", environ, DENIABLE)
    assert set(config.providers) == set(yaml.safe_load(text)["providers"])
    assert len(final_addresses(config)) == len(config.providers)
    assert not [warning for warning in warnings(config) if "base_url" in warning]


KEYS: Final = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "canary-7f3a91-secret"}


def test_what_mgw_check_prints_of_bedrock_is_what_the_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs/providers.rst").read_text(encoding="utf-8")
    before, shown = re.split(r"\n\.\. code:: text\n\n", page)
    text = [found[2] for found in BLOCK.finditer(before)][-1]
    (tmp_path / ".aws").mkdir()
    keys = "".join(f"{name} = {value}\n" for name, value in KEYS.items())
    (tmp_path / ".aws" / "credentials").write_text(f"[llm]\n{keys}")
    environ = {name.upper(): value for name, value in KEYS.items()} | {"HOME": str(tmp_path)}
    config = parse(dedent(text), "mgw.yaml", environ, DENIABLE)
    printed = [*final_addresses(config), *token_sources(config)]
    assert printed == dedent(shown.partition("\n\n")[0]).splitlines()
    assert warnings(config) == []


def test_every_provider_of_the_page_is_shown() -> None:
    """Else the pattern above has missed some."""
    text = (ROOT / "docs/providers.rst").read_text(encoding="utf-8")
    assert len(re.findall(r"^\.\. code:: yaml$", text, re.MULTILINE)) == len(
        [name for name, _ in blocks() if name.startswith("providers")]
    )


@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("*.rst")), ids=lambda path: path.name)
def test_every_document_is_named_in_the_index(document: Path) -> None:
    index = (ROOT / "docs/index.rst").read_text(encoding="utf-8")
    assert document.name == "index.rst" or f"<{document.name}>" in index
