"""File and line of what is found to be wrong after a configuration was read."""

from __future__ import annotations

import pickle

import pytest

from mgw.config.load import parse
from mgw.config.places import Places
from mgw.config.settings import Config

TEXT = """\
providers:
  main:
    kind: openai
    models: [a, b]
  host.example:
    kind: openai_compat
    base_url: http://h/v1
edge_auth:
  enabled: true
  keys:
    - {name: alice, key: a-long-key-1}
    - name: bob
      key: a-long-key-2
      models: [a]
aliases:
  "a:b": main/a
"""
CONFIG = parse(TEXT, "mgw.yaml", {"GATEWAY_TLS_CERT": "/cert", "GATEWAY_TLS_KEY": "/key"})


@pytest.mark.parametrize(
    ("text", "located"),
    [
        ("providers.main.kind: x", "mgw.yaml:3: providers.main.kind: x"),
        ("providers.main.ca_file: a: b", "mgw.yaml:2: providers.main.ca_file: a: b"),
        ("providers.host.example.base_url: x", "mgw.yaml:7: providers.host.example.base_url: x"),
        ("providers.main.models.1: x", "mgw.yaml:4: providers.main.models.1: x"),
        ("edge_auth.keys.1.models: x", "mgw.yaml:14: edge_auth.keys.1.models: x"),
        ("edge_auth.keys.7.models: x", "mgw.yaml:10: edge_auth.keys.7.models: x"),
        ("aliases.'a:b': x", "mgw.yaml:16: aliases.'a:b': x"),
        ("providers.…: x", "mgw.yaml:1: providers.…: x"),
        ("listen: x", "mgw.yaml: listen: x"),
        ("tls.cert_file: x", "environment: GATEWAY_TLS_CERT: x"),
    ],
)
def test_a_sentence_about_a_setting_gets_its_file_and_line(text: str, located: str) -> None:
    assert CONFIG.places.locate(text) == located
    assert CONFIG.places.locate(text, "mgw: ") == located


@pytest.mark.parametrize("text", ["profile.yaml:3: token.url: x", "no setting: x", "a sentence", ""])
def test_any_other_sentence_stays_as_it_is(text: str) -> None:
    assert CONFIG.places.locate(text) == text


def test_what_has_no_place_may_be_told_whose_it_is() -> None:
    assert CONFIG.places.locate("a sentence", "mgw: ") == "mgw: a sentence"
    assert CONFIG.places.locate("other.yaml:3: a: x", "mgw: ") == "other.yaml:3: a: x"
    assert Config().places.locate("listen: x", "mgw: ") == "mgw: listen: x"


def test_each_line_gets_its_own_place() -> None:
    with pytest.raises(ValueError, match="x") as error, CONFIG.places.locating():
        raise ValueError("providers.main.kind: x\nlisten: y")
    assert str(error.value) == "mgw.yaml:3: providers.main.kind: x\nmgw.yaml: listen: y"


def test_lines_are_no_part_of_what_a_configuration_says() -> None:
    assert (
        parse(f"\n\n{TEXT}", "other.yaml", {"GATEWAY_TLS_CERT": "/cert", "GATEWAY_TLS_KEY": "/key"}) == CONFIG
    )


def test_a_place_shows_no_key_and_takes_no_lines_to_the_workers() -> None:
    places = parse("providers: {sk-canary-7f3a91: {kind: openai}}", "mgw.yaml", {}).places
    assert "canary" not in repr(places)
    copied = pickle.loads(pickle.dumps(places))
    assert isinstance(copied, Places)
    assert (copied.lines, copied.locate("listen: x")) == ({}, "listen: x")


def test_elements_of_lists_have_no_places_of_their_own() -> None:
    models = ", ".join(f"m{number}" for number in range(1000))
    config = parse(f"providers: {{main: {{kind: openai, models: [{models}]}}}}", "mgw.yaml", {})
    assert len(config.places.lines) < 10
