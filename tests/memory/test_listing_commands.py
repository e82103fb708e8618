"""``mgw routes`` and ``mgw models`` list what the gateway serves."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from mgw.cli.main import main
from mgw.routing.routes import ROUTES

FILE = """
edge_auth:
  enabled: true
  keys:
    - {name: team, key: a-key-of-the-team, models: ["quick", "local/*"]}
    - {name: all, key: another-long-key}
    - {name: grouped, key: a-key-in-two-groups, groups: [quick, big], models: ["*i*"]}
  groups: {quick: {models: [quick]}, big: {models: ["*big"]}}
providers:
  main: {kind: openai, api_key: a-key-of-openai, models: [gpt-big]}
  local: {kind: openai_compat, base_url: 'http://127.0.0.1:1/v1', auth: none, models: [llama]}
  cloud: {kind: anthropic, api_key: a-key-of-anthropic}
aliases:
  fast: [main/gpt-small, cloud/claude]
  quick: main/gpt-small
routes: {deny: [gemini, completions]}
dashboard: {enabled: false}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "mgw.yaml"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_row_is_listed_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "routes")
    assert [row["name"] for row in rows] == [route.name for route in ROUTES]


def test_a_route_says_what_becomes_of_a_request(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in listed(capsys, "routes")}
    assert rows["chat"] == {
        "method": "POST",
        "path": "/v1/chat/completions",
        "family": "openai",
        "modality": "text",
        "treatment": "relayed or translated",
        "translated_for": "anthropic gemini",
        "name": "chat",
    }
    assert rows["files_list"]["treatment"] == "relayed"
    assert rows["files_list"]["translated_for"] is None
    assert (rows["healthz"]["family"], rows["healthz"]["treatment"]) == (None, "answered by the gateway")
    assert rows["anthropic_models"]["family"] == "anthropic"
    assert rows["dashboard_api"]["method"] == "any"


def test_routes_are_picked_by_text_and_family(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "routes", "Batches", "--family", "anthropic")
    assert rows
    assert {row["family"] for row in rows} == {"anthropic"}
    assert all("batches" in row["path"] for row in rows)
    assert listed(capsys, "routes", "no such word") == []


def test_routes_that_a_configuration_denies_are_left_out(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = listed(capsys, "routes", "-c", config)
    names = {row["name"] for row in rows}
    assert "chat" in names
    assert not names & {"completions", "generate_content", "dashboard_api"}
    assert {row["name"] for row in rows if row["family"] == "gemini"} <= {"gemini_models", "gemini_model"}


def test_models_are_those_of_the_catalog_with_their_targets(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = listed(capsys, "models", "-c", config)
    assert [(row["id"], row["provider"], row["upstream_model"], row["targets"]) for row in rows] == [
        ("fast", "main", "gpt-small", "main/gpt-small cloud/claude"),
        ("quick", "main", "gpt-small", "main/gpt-small"),
        ("main/gpt-small", "main", "gpt-small", None),
        ("cloud/claude", "cloud", "claude", None),
        ("main/gpt-big", "main", "gpt-big", None),
        ("local/llama", "local", "llama", None),
    ]
    assert rows[3]["capabilities"] == "chat"


def test_a_named_key_sees_its_models_alone(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["id"] for row in listed(capsys, "models", "-c", config, "--key", "team")] == [
        "quick",
        "local/llama",
    ]
    assert len(listed(capsys, "models", "-c", config, "--key", "all")) == 6


def test_a_key_in_groups_sees_what_one_of_them_and_its_own_patterns_allow(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = listed(capsys, "models", "-c", config, "--key", "grouped")
    assert [row["id"] for row in found] == ["quick", "main/gpt-big"]


def test_a_key_that_is_not_there_is_an_error_that_names_those_that_are(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "-c", config, "--key", "nobody"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    names = "team, all, grouped"
    assert captured.err == f"mgw models: --key: expected the name of a key ({names}), found 'nobody'\n"


@pytest.mark.parametrize("command", ["routes", "models"])
def test_a_file_that_is_not_there_is_an_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "-c", str(tmp_path / "none.yaml")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"configuration file not found: {tmp_path}/none.yaml" in captured.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("routes", "nothing-like-it"), "no routes match 'nothing-like-it'"),
        (("routes", "xyz", "--family", "gemini"), "no routes for gemini clients match 'xyz'"),
        (("routes", "a.yaml"), "no routes match 'a.yaml'; did you mean: mgw routes -c a.yaml"),
        (("models", "FILE", "--key", "small"), "no models for the gateway key small"),
        (("auth", "list", "-c", "FILE"), "no accounts yet in {store}; to add one: mgw auth login NAME"),
        (("auth", "status", "-c", "FILE"), "no accounts yet in {store}; to add one: mgw auth login NAME"),
    ],
)
def test_where_a_table_would_be_empty_a_sentence_says_so(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, store = tmp_path / "mgw.yaml", tmp_path / "store.json"
    file.write_text(
        "edge_auth: {enabled: true, keys: [{name: small, key: a-key-of-a-team, models: [none]}]}\n"
        f"providers: {{main: {{kind: openai, models: [gpt-5]}}}}\ncredential_store: {store}\n"
    )
    assert main([word.replace("FILE", str(file)) for word in words]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said.format(store=store) + "\n")


def test_a_configuration_without_models_says_how_to_ask_for_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mgw.yaml"
    file.write_text("providers: {main: {kind: openai}}\n")
    assert main(["models", str(file)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"no models: {file} lists none under aliases or providers.NAME.models; ")


def test_an_empty_list_stays_clean_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, "routes", "nothing-like-it") == []
    assert main(["routes", "nothing-like-it", "--format", "csv"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "method,path,family,modality,treatment,translated_for,name\n"
    assert captured.err == ""


def test_tables_and_csv_have_the_same_cells(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "models", "-c", config)
    assert main(["models", "-c", config, "--format", "csv"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert found == [{name: value or "" for name, value in row.items()} for row in rows]
    assert main(["models", "-c", config]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 1 + len(rows)
    assert table[0].split() == list(rows[0])


CANARY = "sk-canary-7f3a91b2c4d5"
KEYS_FOR_NAMES = f"""
edge_auth: {{enabled: true, keys: [{{name: "{CANARY}", key: a-key-of-the-team}}]}}
providers:
  "{CANARY}": {{kind: openai, api_key: a-key-of-openai, models: ["{CANARY}", "ft:gpt-4o:acme::BQx7Hk2L"]}}
aliases: {{"{CANARY}": "{CANARY}/{CANARY}", fast: ["{CANARY}/{CANARY}", "{CANARY}/m"]}}
"""


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_no_list_of_models_repeats_a_key_in_the_place_of_a_name(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mgw.yaml"
    path.write_text(KEYS_FOR_NAMES, encoding="utf-8")
    assert main(["models", "-c", str(path), "--format", form]) == 0
    found = capsys.readouterr().out
    assert "fast" in found
    assert "ft:gpt-4o:acme::BQx7Hk2L" in found, "such an id of a model is no key"
    assert "canary" not in found
    assert main(["models", "-c", str(path), "--key", f"{CANARY}-2"]) == 1
    assert "canary" not in capsys.readouterr().err
