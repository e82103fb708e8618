"""Every configuration in the pages for newcomers is one that the loader takes, as it stands."""

from __future__ import annotations

import json
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


TABLE_ROW: Final = re.compile(r"   \* - (.+)\n     - (.+)\n     - (.+)\n     - (.+)\n")
TITLE: Final = re.compile(r"^(\S.*)\n-{3,}\n", re.MULTILINE)
LINK: Final = re.compile(r"`([^`<]+)`_")
WORD: Final = re.compile(r"``(\w+)``(?: for (?:an express key|(\w+)(?: and (\w+))?))?")
_TOKEN: Final = {"token_url": "https://login.example.com/token", "client_id": "a", "client_secret": "b" * 24}
SETTINGS: Final[dict[str, dict[str, object]]] = {
    "aws": {"auth": "aws"},
    "api_key": {"api_key": "x" * 24},
    "bearer": {"auth": "bearer", "api_key": "x" * 24},
    "token_file": {"auth": "token_file", "token_file": "/run/token"},
    "oauth2": {"auth": "oauth2", "oauth": _TOKEN},
    "adc": {"auth": "adc"},
    "service_account": {"auth": "service_account", "service_account_file": "/run/key.json"},
}
"""What each ``auth`` of the table needs."""
KEPT: Final = ("base_url", "api_version", "headers", "models", "aws")
"""What a configuration has beside it."""
RECIPES: Final = {
    "Azure OpenAI": "my-resource.openai.azure.com/openai/v1",
    "Claude in Microsoft Foundry": "my-resource.services.ai.azure.com/anthropic/v1",
    "Databricks": "/serving-endpoints",
    "Snowflake": ".snowflakecomputing.com/api/v2/cortex/v1",
    "Oracle Cloud": ".oci.oraclecloud.com/openai/v1",
    "IBM watsonx": ".ml.cloud.ibm.com/ml/gateway/v1",
}
"""A place without code of its own, and how the address of its configuration ends."""


def sections() -> dict[str, list[dict[str, object]]]:
    """Return the providers that each section of the page shows."""
    text = (ROOT / "docs/providers.rst").read_text(encoding="utf-8")
    found: dict[str, list[dict[str, object]]] = {}
    _, *parts = TITLE.split(text)
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        shown = [yaml.safe_load(dedent(block[2])) for block in BLOCK.finditer(body)]
        found[title] = [provider for each in shown for provider in each["providers"].values()]
    return found


def table() -> Iterator[tuple[str, str, str]]:
    """Yield the section, the kind and the ``auth`` of each row, one by one."""
    text = (ROOT / "docs/providers.rst").read_text(encoding="utf-8")
    rows = TABLE_ROW.findall(text.partition(".. list-table::")[2].partition("`Credentials <")[0])
    for _, place, kind, auths in rows[1:]:
        for section in LINK.findall(place):
            for auth, *only in WORD.findall(auths):
                if not any(only) or section.split()[0] in only:
                    yield section, kind.strip("`"), auth


ROWS: Final = list(table())


def test_the_table_of_clouds_is_read() -> None:
    """Else nothing below is tested."""
    assert len({row[:2] for row in ROWS}) == 17
    assert {section for section, _, _ in ROWS} >= RECIPES.keys()
    assert {auth for _, _, auth in ROWS} == SETTINGS.keys()


@pytest.mark.parametrize(("section", "kind", "auth"), ROWS)
def test_each_row_of_the_table_of_clouds_has_a_configuration_that_loads(
    section: str, kind: str, auth: str
) -> None:
    shown = [provider for provider in sections()[section] if provider["kind"] == kind]
    assert shown, "the section has no provider of this kind"
    for provider in shown:
        kept = {name: provider[name] for name in KEPT if name in provider}
        if auth != "aws":
            region = kept.pop("aws", {}).get("region")  # type: ignore[attr-defined]  # a block of settings
            kept.setdefault("base_url", f"https://bedrock-runtime.{region}.amazonaws.com")
        text = json.dumps({"providers": {"p": {"kind": kind, **kept, **SETTINGS[auth]}}}, default=str)
        config = parse(text, "mgw.yaml", {"HOME": "/nowhere"}, DENIABLE)
        found = config.providers["p"]
        assert (found.kind, auth) == (kind, "api_key" if found.auth is None else found.auth.value)
        assert not [warning for warning in warnings(config) if "base_url" in warning]


@pytest.mark.parametrize("section", RECIPES)
def test_each_place_without_code_of_its_own_has_a_configuration(section: str) -> None:
    """These are loaded as they stand by the first test."""
    addresses = [str(provider["base_url"]) for provider in sections()[section]]
    assert any(RECIPES[section] in address for address in addresses)


@pytest.mark.parametrize(
    ("section", "address"),
    [
        ("Databricks", "/serving-endpoints"),
        ("Snowflake", "/cortex/v1"),
        ("Other models on Vertex AI", "/endpoints/openapi"),
        ("IBM watsonx", "/gateway/v1"),
    ],
)
def test_hosts_without_responses_are_asked_in_chat(section: str, address: str) -> None:
    shown = [provider for provider in sections()[section] if str(provider["base_url"]).endswith(address)]
    said = [provider.get("speaks") for provider in shown if provider["kind"] == "openai_compat"]
    assert said == [["chat"]]


@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("*.rst")), ids=lambda path: path.name)
def test_every_document_is_named_in_the_index(document: Path) -> None:
    index = (ROOT / "docs/index.rst").read_text(encoding="utf-8")
    assert document.name == "index.rst" or f"<{document.name}>" in index
