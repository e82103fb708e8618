"""The examples that messages show: one for each block and each list, and each of them works."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mgw.config.examples import BLOCKS, LISTS, example_of
from mgw.config.load import parse
from mgw.config.problems import ANY, Path
from mgw.config.settings import Config
from mgw.config.settings_base import block_in, file_settings
from mgw.routing.routes import DENIABLE

ENVIRON: Final = dict.fromkeys(
    (
        *("OPENAI_API_KEY", "MGW_EDGE_KEYS", "MGW_DASHBOARD_KEYS", "ALICE_KEY", "CLIENT_ID", "CLIENT_SECRET"),
        *("WEBHOOK_AUTHORIZATION", "OTLP_AUTHORIZATION"),
    ),
    "a-long-key",
) | {"REDIS_URL": "redis://redis.example"}
NAMES: Final[dict[Path, str]] = {
    ("providers", ANY): "main",
    ("providers", ANY, "headers", "add_tokens", ANY): "anthropic-beta",
    ("providers", ANY, "headers", "remove_tokens", ANY): "anthropic-beta",
    ("aliases", ANY): "fast",
    ("profiles", ANY): "example",
    ("edge_auth", "groups", ANY): "research",
    ("translation", "voices", ANY): "gemini",
    ("prices", "rows", ANY, "service_tiers", ANY): "flex",
}
BESIDE: Final[dict[Path, dict[str, Any]]] = {
    ("providers", ANY, "extra_fields"): {"kind": "openai_compat", "base_url": "https://h.example/v1"},
    ("providers", ANY, "speaks"): {"kind": "openai_compat", "base_url": "https://h.example/v1"},
    ("providers", ANY, "aws"): {"auth": "aws", "kind": "bedrock"},
    ("providers", ANY, "betas"): {"kind": "anthropic"},
    ("providers", ANY, "oauth"): {"auth": "oauth2"},
    ("providers", ANY, "oauth", "extra"): {},
    ("providers", ANY, "pool"): {"auth": "oauth2"},
    **{
        (*above, "limits", ANY, "warn"): {"requests": 5, "per": "day"}
        for above in (("edge_auth",), ("edge_auth", "groups", ANY), ("edge_auth", "keys", ANY))
    },
    ("translation", "models", ANY, "efforts"): {"match": "a", "family": "openai"},
    ("translation", "models", ANY, "responses_efforts"): {"match": "a", "family": "openai"},
    ("hooks", "otlp", "headers"): {"endpoint": "http://127.0.0.1:4318"},
    ("hooks", "webhook", "headers"): {"url": "https://example.com/"},
}
"""What the block around an example needs beside it."""
AROUND: Final[dict[Path, dict[str, Any]]] = {
    ("edge_auth", "keys", ANY): {"name": "alice", "key": "a-long-key"},
    ("edge_auth", "jwt", ANY): {
        "name": "corp",
        "issuer": "https://login.example.com",
        "audience": "mgw",
        "rules": [{}],
    },
    ("prices", "rows", ANY): {"model": "gpt-5", "input": 1.25, "output": 10},
}
"""What the element of a list needs that an example is in."""
WITHIN_OAUTH: Final = {"token_url": "https://h.example/t", "client_id": "a", "client_secret": "b-long-secret"}


def places(block: type[BaseModel], above: Path = ()) -> Iterator[tuple[Path, FieldInfo]]:
    """Every setting, with the place of each."""
    for key, setting in file_settings(block).items():
        path = (*above, key)
        yield path, setting
        inner = block_in(setting.annotation)
        if inner is not None:
            yield from places(inner[1], (*path, ANY) if inner[0] else path)


def holds(annotation: Any, *kinds: type) -> bool:
    """Whether a value of one of these types may stand there, but for a block within it."""
    origin = get_origin(annotation)
    if origin in (Annotated, Union, UnionType):
        return any(holds(part, *kinds) for part in get_args(annotation))
    return origin in kinds


def is_block(annotation: Any) -> bool:
    inner = block_in(annotation)
    return holds(annotation, dict) or (inner is not None and not inner[0])


def add_to_rules(tree: dict[str, Any], path: Path) -> None:
    """Add what an alias with body rules needs, and a rule with something else in it."""
    if path[0] == "aliases" and len(path) > 2:
        tree["aliases"]["fast"]["targets"] = ["main/gpt-5"]
    if path[2:3] == ("body",) and len(path) > 4:
        (rule,) = tree[str(path[0])][NAMES[path[:2]]]["body"]
        rule["remove"] = ["user"]


def file_with(path: Path, value: Any) -> dict[str, Any]:
    """A configuration with a value at this place, and what has to be around it."""
    tree: dict[str, Any] = {
        "providers": {"main": {"kind": "openai", "api_key": "a-long-key"}},
        "profiles": {"example": {"file": "/etc/mgw/example.yaml"}},
        "edge_auth": {"groups": {"research": {}}},
    }
    node: Any = tree
    for depth, step in enumerate(path[:-1], 1):
        here = path[:depth]
        if here[-1] == ANY and isinstance(node, list):
            node.append({})
            node = node[0]
            continue
        key = NAMES.get(here, str(step))
        following = path[depth]
        nothing: Any = [] if following == ANY and (*here, ANY) not in NAMES else {}
        node = node.setdefault(key, nothing)
    if len(path) > 3 and path[:3] in AROUND:
        around = tree[str(path[0])][str(path[1])][0]
        around.update({key: value for key, value in AROUND[path[:3]].items() if key not in around})
    add_to_rules(tree, path)
    if isinstance(node, list):
        node.append(value)
        return tree
    node.update(BESIDE.get(path, {}))
    if path == ("providers", ANY, "aws"):
        tree["providers"]["main"].pop("api_key")
    if path[:3] == ("providers", ANY, "oauth"):
        tree["providers"]["main"].pop("api_key")
        tree["providers"]["main"]["auth"] = "oauth2"
        if len(path) > 3:
            node.update(WITHIN_OAUTH)
    if path == ("providers", ANY, "pool") or path[:3] == ("providers", ANY, "pool"):
        tree["providers"]["main"].pop("api_key", None)
        tree["providers"]["main"]["auth"] = "oauth2"
        if len(path) > 3:
            node["profile"] = "example"
    node[NAMES.get(path, str(path[-1]))] = value
    return tree


EXAMPLES: Final = [*BLOCKS.items(), *LISTS.items()]


@pytest.mark.parametrize(
    ("path", "example"), EXAMPLES, ids=[".".join(map(str, path)) for path, _ in EXAMPLES]
)
def test_an_example_works_where_it_is_shown(path: Path, example: str) -> None:
    value = yaml.safe_load(example)
    text = yaml.safe_dump(file_with(path, value), sort_keys=False)
    assert parse(text, "mgw.yaml", ENVIRON, DENIABLE).providers


@pytest.mark.parametrize(
    "path", [path for path, setting in places(Config) if is_block(setting.annotation)], ids=str
)
def test_every_block_has_an_example(path: Path) -> None:
    assert example_of(path, BLOCKS) is not None


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, setting in places(Config)
        if holds(setting.annotation, tuple, frozenset) and path[-1] not in ("scopes", "budget")
    ],
    ids=str,
)
def test_every_list_has_an_example(path: Path) -> None:
    assert example_of(path, LISTS) is not None
