"""Which rules apply to a request."""

from __future__ import annotations

from typing import Final

import pytest

from mgw.nouns.vocabulary import DialectName, Modality
from mgw.routing import body_rules
from mgw.routing.body_rules import MAX_KNOWN, MAX_KNOWN_CHARS, BodyRules, asked_dialect
from mgw.routing.resolve import Resolver, Target
from mgw.routing.routes import ROUTES
from tests.support.configs import config

CONFIG: Final = """
providers:
  main: {kind: openai, api_key: sk-a, body: [{match: {client: [ali*, "corp:?@x"]}, set: {a: 1}},
                                             {match: {model: "GPT-[45]*"}, set: {b: 1}}]}
  other: {kind: openai, api_key: sk-b}
aliases: {fast: {targets: [main/gpt-6, other/gpt-6], body: [{match: {dialect: chat}, set: {c: 1}}]}}
defaults: {openai_dialect: main}
"""
CHAT: Final = next(route for route in ROUTES if route.name == "chat")
IMAGES: Final = next(route for route in ROUTES if route.modality is Modality.IMAGE_GEN)


def rules() -> BodyRules:
    found = BodyRules.of(config(CONFIG))
    assert found is not None
    return found


def target_of(model: str) -> Target:
    return Resolver(config(CONFIG)).resolve(model, CHAT.family)


def set_by(found: BodyRules, model: str, client: str | None, translated: DialectName | None = None) -> bytes:
    matching = found.find(CHAT, target_of(model), client, translated)
    return b"{}" if matching is None else matching.apply(b"{}")[0]


@pytest.mark.parametrize(
    ("model", "client", "changed"),
    [
        ("gpt-6", None, b"{}"),
        ("gpt-6", "Alice", b'{"a":1}'),
        ("gpt-6", "bob", b"{}"),
        ("gpt-6", "corp:b@x", b'{"a":1}'),
        ("gpt-5-mini", "bob", b'{"b":1}'),
        ("main/gpt-4", "alice", b'{"a":1,"b":1}'),
        ("fast", "bob", b'{"c":1}'),
        ("models/fast", "alice", b'{"c":1,"a":1}'),
        ("other/gpt-5", "alice", b"{}"),
    ],
)
def test_rules_apply_by_alias_model_and_client(model: str, client: str | None, changed: bytes) -> None:
    found = rules()
    for _ in range(2):
        assert set_by(found, model, "alice" if client == "bob" else "bob") is not None  # is remembered apart
        assert set_by(found, model, client) == changed


def test_rules_of_an_alias_follow_it_to_each_target() -> None:
    (second,) = Resolver(config(CONFIG)).fallbacks(target_of("fast"))
    matching = rules().find(CHAT, second, None)
    assert matching is not None
    assert matching.apply(b"{}")[0] == b'{"c":1}'


def test_rules_are_for_the_dialect_that_the_provider_is_asked_in() -> None:
    assert set_by(rules(), "fast", None, DialectName.OPENAI_RESPONSES) == b"{}"


def test_no_rules_are_no_object_and_other_routes_have_none() -> None:
    assert BodyRules.of(config("providers: {main: {kind: openai, api_key: k}}\naliases: {a: main/b}")) is None
    assert rules().find(IMAGES, target_of("gpt-5"), "alice") is None


def test_every_text_route_has_a_dialect_but_moderations() -> None:
    texts = [route for route in ROUTES if route.modality in (Modality.TEXT, Modality.EMBEDDING)]
    assert [route.name for route in texts if asked_dialect(route, None) is None] == ["moderations"]
    found = {route.name: str(asked_dialect(route, None)) for route in texts}
    assert found == {
        "chat": "chat",
        "responses": "responses",
        "responses_input_tokens": "responses",
        "responses_compact": "responses",
        "completions": "completions",
        "beta_completions": "completions",
        "embeddings": "embeddings",
        "moderations": "None",
        "messages": "messages",
        "messages_count_tokens": "messages",
        "generate_content": "generate",
        "stream_generate_content": "generate",
        "count_tokens": "generate",
        "embed_content": "embeddings",
        "batch_embed_contents": "embeddings",
        "complete": "completions",
        "gemini_models_generate_answer": "generate",
    }


def test_so_much_is_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = rules(), [0]
    before = found._find

    def find(*arguments: object) -> object:
        asked[0] += 1
        return before(*arguments)  # type: ignore[arg-type]  # as it is called

    monkeypatch.setattr(found, "_find", find)
    for name in ("m" * MAX_KNOWN_CHARS, "m" * (MAX_KNOWN_CHARS + 1)):
        target = Target(target_of("gpt-6").provider, name, name)
        for _ in range(2):
            found.find(CHAT, target, None)
    assert asked == [3]  # the longer one twice
    targets = [Target(target_of("gpt-6").provider, f"m{number}", "m") for number in range(MAX_KNOWN)]
    for target in targets[:-1]:
        found.find(CHAT, target, None)
    found.find(CHAT, targets[0], None)
    assert asked == [2 + MAX_KNOWN]
    found.find(CHAT, targets[-1], None)
    found.find(CHAT, targets[0], None)
    assert asked == [4 + MAX_KNOWN]
    assert body_rules.MAX_KNOWN == MAX_KNOWN
