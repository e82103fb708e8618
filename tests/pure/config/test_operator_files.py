"""The shipped files and the documents say what the code does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from docutils.core import publish_doctree
from docutils.nodes import literal_block

from mgw.app.check import warnings
from mgw.config.checks import CREDENTIAL_HEADERS
from mgw.config.load import parse, parse_prices
from mgw.config.provider import CapabilitiesSettings
from mgw.config.schema import schema_text
from mgw.config.settings import Config
from mgw.config.settings_base import (
    FROM_FILE,
    Settings,
    defaults_of,
    file_settings,
    known_keys,
    required_keys,
)
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Capability, Family
from mgw.routing.routes import DENIABLE
from mgw.usage.prices import PriceTable

TABLES = ("timeouts.", "translation.models.")
"""Blocks whose keys stand in a table of their own."""
ROOT = Path(__file__).parents[3]
ETC = ROOT / "etc"
ONE = "providers: {main: {kind: openai}}\n"
VARIABLES = (
    "MGW_DASHBOARD_KEYS",
    "MGW_EDGE_KEYS",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "GROQ_API_KEY",
    "OAUTH_CLIENT_ID",
    "OAUTH_CLIENT_SECRET",
    "OAUTH_REFRESH_TOKEN",
    "LLM_AWS_ACCESS_KEY_ID",
    "LLM_AWS_SECRET_ACCESS_KEY",
    "LLM_AWS_SESSION_TOKEN",
    "WEBHOOK_AUTHORIZATION",
    "OTLP_AUTHORIZATION",
    "WEBHOOK_SECRET",
)
ENVIRON = {name: f"a-long-key-{number}" for number, name in enumerate(VARIABLES)} | {
    "ALICE_KEY": "a-longer-key",
    "PROXY_ADDRESS": "http://u:p@proxy.example:3128",
    "REDIS_URL": "rediss://u:p@redis.example/1",
}
"""What the shipped configuration needs when all of it is on."""


BESIDE: Final = frozenset({"hooks.webhook.secret", "fleet.redis.url"})
"""Settings that cannot be combined with another one, which is shown instead."""


def settings_of_the_schema() -> Iterator[str]:
    """Every setting's path as the schema knows it, names of providers and the like left out."""
    schema = json.loads(schema_text())

    def walk(node: dict[str, Any], path: str) -> Iterator[str]:  # Any: JSON
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        several = (node.get("additionalProperties"), node.get("items"))
        for inner in (*node.get("anyOf", ()), *filter(None, several)):
            yield from walk(inner, path)
        for key, inner in node.get("properties", {}).items():
            here = f"{path}.{key}" if path else key
            below = list(walk(inner, here))
            yield from below or [here]

    return walk(schema, "")


TIERS: Final = re.compile(r"(prices\.rows\.(?:tiers|service_tiers))\..*")
"""Tiers have the prices of a row, so they are one setting here."""
SETTINGS = sorted(
    {
        re.sub(
            r"^aliases\.body\b",
            "providers.body",
            TIERS.sub(r"\1", re.sub(r"^edge_auth\.(?:keys|groups)\.limits\b", "edge_auth.limits", setting)),
        )  # same rows
        for setting in settings_of_the_schema()
        if not re.search(r"alpha|beta|gamma|google", setting)
    }
)


def uncommented() -> str:
    return re.sub(r"(?m)^(\s*)#(?! \S|\s*$)", r"\1", (ETC / "mgw.yaml").read_text(encoding="utf-8"))


def test_the_schema_for_editors_is_that_of_the_code() -> None:
    assert (ETC / "mgw.schema.json").read_text(encoding="utf-8") == schema_text()


def test_the_shipped_configuration_starts_without_any_environment() -> None:
    config = parse((ETC / "mgw.yaml").read_text(encoding="utf-8"), "mgw.yaml", {})
    assert set(config.defaults) == set(Family)
    assert warnings(config) == []


def test_every_commented_setting_of_the_shipped_configuration_works() -> None:
    config = parse(uncommented(), "mgw.yaml", ENVIRON, DENIABLE)
    (said,) = warnings(config)
    assert "Redis must be persistent" in said


@pytest.mark.parametrize(("page", "least"), [("configuration", 6), ("models", 1), ("cost", 2)])
def test_every_example_of_a_document_works(page: str, least: int) -> None:
    document = publish_doctree((ROOT / "docs" / f"{page}.rst").read_text(encoding="utf-8"))
    blocks = [block.astext() for block in document.findall(literal_block)]
    examples = [block for block in blocks if block.partition(":")[0] in file_settings(Config)]
    assert len(examples) >= least
    for example in examples:
        assert warnings(parse(f"{ONE}{example}\n", "mgw.yaml", {}, DENIABLE)) == []


def paths_in(value: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:  # Any: YAML
    """Every setting's path in a file, names of providers included, without positions in lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*above, str(key))
            yield from paths_in(inner, (*above, str(key)))
    for inner in value if isinstance(value, list) else ():
        yield from paths_in(inner, above)


SHOWN: Final = set(paths_in(yaml.load(uncommented(), yaml.BaseLoader)))  # to it, "off" is a word
ELSEWHERE: Final = frozenset(
    {
        *("providers.timeouts.connect", "providers.timeouts.idle", "providers.retries.statuses"),
        *("providers.oauth.credentials", "providers.oauth.profile", "prices.file"),
    }
)
"""Settings that are shown at the top level, in the block of a pool, or as an alternative in a comment."""


def is_shown(setting: str) -> bool:
    """Whether the shipped configuration has a setting, whatever names its path has between its own words."""
    words = setting.split(".")
    for path in SHOWN:
        rest = iter(path)
        if path[-1] == words[-1] and all(word in rest for word in words):
            return True
    return False


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name not in ELSEWHERE])
def test_the_shipped_configuration_shows_every_setting(setting: str) -> None:
    assert is_shown(f"{setting}_env" if setting in BESIDE else setting), f"{setting} belongs in etc/mgw.yaml"


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_document_describes_every_setting(setting: str) -> None:
    text = (ROOT / "docs" / "configuration.rst").read_text(encoding="utf-8")
    inner = setting.removeprefix("providers.")
    names = [inner] + [inner.removeprefix(table) for table in TABLES if inner.startswith(table)]
    assert any(f"``{name}``" in text for name in names), setting


def test_the_demo_reaches_the_simulator_in_three_dialects() -> None:
    config = parse((ETC / "mgw-demo.yaml").read_text(encoding="utf-8"), "mgw-demo.yaml", {})
    assert {name: provider.base_url for name, provider in config.providers.items()} == {
        "main-openai": "http://127.0.0.1:8788/v1",
        "main-anthropic": "http://127.0.0.1:8788/v1",
        "main-gemini": "http://127.0.0.1:8788/v1beta",
    }
    assert {provider.api_key for provider in config.providers.values()} == {Secret("demo-key")}
    assert set(config.aliases) == {"fast", "smart"}
    assert set(config.defaults) == set(Family)
    assert config.hooks.jsonl is None, "its events would hide what make run prints"
    assert warnings(config) == []


def test_every_capability_can_be_written() -> None:
    assert set(CapabilitiesSettings.model_fields) == set(Capability)


def test_keys_are_known_at_every_depth() -> None:
    assert "kind" in known_keys(Config, ("providers", "main"))
    assert known_keys(Config, ("hooks", "jsonl")) == ("output", "rotate_bytes", "keep")
    assert "idle" in known_keys(Config, ("providers", "main", "timeouts"))
    assert known_keys(Config, ("aliases", "a"))[:2] == ("targets", "body")
    assert known_keys(Config, ("defaults", "a")) == ()
    assert "budget" in known_keys(Config, ("translation", "models", 0))


def test_credential_headers_are_compared_in_lower_case() -> None:
    assert all(name == name.lower() for name in CREDENTIAL_HEADERS)


def test_the_room_loads_neither_twisted_nor_the_schema() -> None:
    code = (
        "import sys, mgw.config.load, mgw.app.check\n"
        "print({'twisted', 'zope', 'treq', 'mgw.config.schema'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"


def test_importing_the_settings_builds_no_validator() -> None:
    code = (
        "from mgw.config.settings import Config\n"
        "from mgw.config.settings_base import Settings\n"
        "def built(block):\n"
        "    return [block] * block.__pydantic_complete__ + sum(map(built, block.__subclasses__()), [])\n"
        "assert len(Settings.__subclasses__()) > 40 and Config in Settings.__subclasses__()\n"
        "print(built(Settings))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_block_that_a_file_leaves_out_is_like_one_without_settings() -> None:
    blocks = [kind for kind in _blocks_in(Settings) if not required_keys(kind)]
    assert len(blocks) > 30
    for kind in blocks:
        assert defaults_of(kind) == kind.model_validate({}, context=FROM_FILE)


def _blocks_in(kind: type[Settings]) -> list[type[Settings]]:
    return [block for inner in kind.__subclasses__() for block in (inner, *_blocks_in(inner))]


def test_the_shipped_prices_work_and_every_row_can_be_reached() -> None:
    rows = parse_prices((ETC / "prices.example.yaml").read_text(encoding="utf-8"), "prices.yaml", ())
    table = PriceTable(rows)
    assert len(rows) >= 10
    for row in rows:
        found = table.row("main", row.model.replace("[5-8]", "6").replace("*", ""), 0.0)
        assert found is not None
        assert found.match == row.model
