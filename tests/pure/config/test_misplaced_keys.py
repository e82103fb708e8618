"""Law: wherever in a file a key stands by mistake, no error, warning or advice repeats it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mgw.app.check import final_addresses, warnings
from mgw.config import dashboard, yaml_document
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.quoting import looks_like_a_key
from mgw.routing.routes import DENIABLE
from tests.pure.config.test_operator_files import ENVIRON, uncommented

KEYS: Final = [
    "sk-canary-7f3a91",
    "sk-proj-Canary0abcdefghijklmnop",
    "sk-ant-api03-canary_AAAA-bbbb",
    "AIzaSyCanary-abcdefgh_ijklm012345",
    "gsk_canary7Yt2Rk0aPqLm93",
    "ya29.canary0AbCdEf",
    "eyJcanary0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9",
    "canary0123456789abcdef0123456789",
    "hunter7canary42x9",
    "7f3canary91b2",
]
WORD: Final = "CorrectCanaryStaple"
"""Looks like no key; it must not show where keys stand."""
MARKER: Final = "mmmmarkerrrr"

FORMS: Final[dict[str, Callable[[str], str]]] = {
    "value": lambda key: key,
    "quoted": lambda key: f'"{key}"',
    "with a blank": lambda key: f"'{key} x'",
    "anchor": lambda key: f"&{key} x",
    "alias": lambda key: f"*{key}",
    "tag": lambda key: f"!{key} x",
    "list": lambda key: f"[{key}]",
    "list in a list": lambda key: f"[[{key}]]",
    "mapping": lambda key: f"{{a: {key}}}",
    "name of a mapping": lambda key: f"{{{key}: a}}",
    "names of mappings": lambda key: f"{{{key}: {{{key}: 1}}}}",
    "set": lambda key: f"{{{key}, {key}}}",
    "unclosed": lambda key: f'"{key}',
    "unclosed list": lambda key: f"[{key}",
    "behind a colon": lambda key: f"a: {key}",
    "address": lambda key: f"https://host/{key}",
    "path": lambda key: f"/{key}",
    "port": lambda key: f"host:{key}",
    "host": lambda key: f'"{key}:80"',
    "target": lambda key: f"{key}/{key}",
}
BROKEN: Final = ("alias", "unclosed", "unclosed list")
"""Forms that YAML's parser refuses, before anything asks at which place they stand."""
Tree = Any  # JSON


def places(tree: Tree, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Tree]]:
    """Every position of the tree and the tree with the marker there: as the value, or as one more key."""
    if path:
        yield path, MARKER
    if isinstance(tree, dict):
        yield (*path, "+"), {**tree, MARKER: 1}
        for key, value in tree.items():
            yield (*path, MARKER, "="), {MARKER if other == key else other: tree[other] for other in tree}
            for inner, changed in places(value, (*path, key)):
                yield inner, {**tree, key: changed}
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            for inner, changed in places(value, (*path, index)):
                yield inner, [*tree[:index], changed, *tree[index + 1 :]]


WHOLE: Final = yaml.safe_load(uncommented().replace(" off:", ' "off":'))  # or YAML takes the name for a false
PROVIDER: Final = {"main": {"kind": "openai"}}


def dumped(tree: Tree) -> str:
    """A tree as YAML, by libyaml: PyYAML in Python takes seven times as long."""
    return str(yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False))


def alone(path: tuple[str | int, ...], tree: Tree) -> str:
    """The block with the marker as a file of its own, which is read faster than the whole."""
    if path[0] not in tree:
        return dumped({"providers": PROVIDER, MARKER: tree.get(MARKER, tree)})
    block = {path[0]: tree[path[0]]}
    if path[0] in ("providers", "hooks", "translation") and len(path) > 1 and path[1] in tree[path[0]]:
        block = {path[0]: {path[1]: only_row(path[2:], tree[path[0]][path[1]])}}
    if path[0] != "providers":
        block["providers"] = PROVIDER
    return dumped(block)


def only_row(path: tuple[str | int, ...], value: Tree) -> Tree:
    """Of a list of mappings the one that the path leads into; of all else, all."""
    if path and isinstance(path[0], int) and isinstance(value[path[0]], dict):
        return [value[path[0]]]
    return value


@cache
def files() -> list[tuple[tuple[str | int, ...], str]]:
    """Every position and the file with the marker there; made where a test asks, not by all who collect."""
    return [(path, alone(path, tree)) for path, tree in places(WHOLE)]


def alike(path: tuple[str | int, ...]) -> tuple[str, ...]:
    """What a place is, whichever provider or element of a list it belongs to, and whatever key is renamed."""
    steps = ["a number" if isinstance(step, int) else step for step in path]
    if path[0] == "providers" and len(path) > 1:
        steps[1] = "a provider"
    return tuple(steps)


def files_for(form: str) -> list[tuple[tuple[str | int, ...], str]]:
    """Some of the files: each form stands in every kind of place, and in each place stand several forms."""
    groups: dict[tuple[str, ...], list[tuple[tuple[str | int, ...], str]]] = {}
    for path, text in files():
        groups.setdefault(alike(path), []).append((path, text))
    number = list(FORMS).index(form) % 6
    return [one for group in groups.values() for one in group[number % len(group) :: 6]]


def said_of(text: str, environ: dict[str, str] = ENVIRON) -> str:
    try:
        config = parse(text, "mgw.yaml", environ, DENIABLE)
    except ConfigError as error:
        return str(error)
    return "\n".join([*warnings(config), *final_addresses(config)])


def composed_by_libyaml(text: str, names: Callable[[], Collection[str]]) -> yaml.Node | None:
    """The nodes of a text that is YAML, as PyYAML in Python finds them in three times the time."""
    try:
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return COMPOSED_BY_US(text, names)  # it is our words for what is no YAML that are looked through


COMPOSED_BY_US: Final = yaml_document._compose
WHAT_IS_MISSING: Final = cache(dashboard.what_is_missing)
"""Asked once: it looks for a package in all directories that may have it."""


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_key_in_the_wrong_place_is_never_repeated(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = files()[::7] if form in BROKEN else files_for(form)
    assert len(found) > 100
    monkeypatch.setattr(yaml_document, "_compose", composed_by_libyaml)
    monkeypatch.setattr(dashboard, "what_is_missing", WHAT_IS_MISSING)
    for (path, text), key in zip(found, cycle(KEYS), strict=False):
        said = said_of(text.replace(MARKER, FORMS[form](key)))
        assert "canary" not in said.lower(), (path, key)


@pytest.mark.parametrize("form", FORMS)
def test_whoever_composes_a_file_the_same_is_said_of_it(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above looks through what we say."""
    texts = [text.replace(MARKER, FORMS[form](KEYS[0])) for _, text in files()[::29]]
    said = [said_of(text) for text in texts]
    monkeypatch.setattr(yaml_document, "_compose", composed_by_libyaml)
    assert [said_of(text) for text in texts] == said


SECRET: Final = (
    "auth",
    "kind",
    "api_key",
    "api_key_env",
    "base_url",
    "proxy",
    "proxy_env",
    "token_file",
    "keys",
    "keys_env",
    "listen",
)


@pytest.mark.parametrize("form", FORMS)
def test_a_word_where_keys_stand_is_never_repeated(form: str) -> None:
    found = [(path, text) for path, text in files() if path[-1] in SECRET or path[-2:-1] == ("keys",)]
    assert len(found) > 12
    for path, text in found:
        if form in ("address", "host", "port", "path") and path[-1] in ("base_url", "listen", "token_file"):
            continue  # there it is part of what has to be shown
        assert "canary" not in said_of(text.replace(MARKER, FORMS[form](WORD))).lower(), path


@pytest.mark.parametrize("block", ["providers: {main: {kind: openai, %s: 1}}", "edge_auth: {%s: 1}"])
@pytest.mark.parametrize("key", [WORD, "CANARY", "canary 1", *KEYS])
def test_an_unknown_key_that_is_the_secret_is_not_repeated(block: str, key: str) -> None:
    said = said_of(block % key)
    assert ".…: unknown key" in said
    assert "canary" not in said.lower()


@pytest.mark.parametrize("key", KEYS)
def test_a_variable_that_is_the_key_itself_is_not_repeated(key: str) -> None:
    name = key.replace("-", "_").replace(".", "_")
    for text in (
        f"providers: {{main: {{kind: openai, api_key_env: {name}}}}}",
        f"providers: {{main: {{kind: openai}}}}\nedge_auth: {{enabled: true, keys_env: {name}}}",
    ):
        for environ in ({}, {name: ""}, {name: " "}, {name: "a b"}):
            assert "canary" not in said_of(text, environ).lower()


NAMES: Final = """
    gpt-4o-mini-2024-07-18 claude-sonnet-4-5-20250929 o3 gemini-2.5-flash-lite qwen3-235b-a22b
    mixtral-8x22b-instruct-v0.1 anthropic.claude-3-5-sonnet-20241022-v2:0 llama-3.3-70b-versatile
    text-embedding-3-small deepseek-r1-distill-llama-70b gpt-oss-120b my_provider eu-west-1
    api_key OPENAI_API_KEY OpenAI main2 sk-main localhost:8787 base_ulr backend
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_names_are_no_keys(name: str) -> None:
    assert not looks_like_a_key(name)


@pytest.mark.parametrize("key", KEYS)
def test_keys_are(key: str) -> None:
    assert looks_like_a_key(key)


def test_the_shipped_file_has_every_place() -> None:
    assert {"providers", "edge_auth", "listen", "aliases"} <= set(WHOLE)
    assert Path(parse(uncommented(), "mgw.yaml", ENVIRON).spool.dir).is_absolute()
