"""``mgw prices``: its output, its messages and its exit codes."""

from __future__ import annotations

import io
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from mgw.cli.main import main
from mgw.config.load import parse_prices
from mgw.config.prices import MAX_ROWS
from mgw.usage.price_import.json_document import MAX_LIST_BYTES

Capture = pytest.CaptureFixture[str]
LISTED: Final = """{
  "gpt-x": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1.25e-06,
            "output_cost_per_token": 1e-05, "output_cost_per_token_flex": 5e-06},
  "xai/grok-x": {"litellm_provider": "xai", "mode": "chat", "input_cost_per_token": 3e-06,
                 "odd_cost_per_day": 4}
}"""
OURS: Final = """rows:
  - model: "gpt-x"
    provider: "main"
    input: 1.25
    output: 10
    service_tiers:
      flex: {output: 5}
"""


@pytest.fixture
def listed(tmp_path: Path) -> str:
    file = tmp_path / "list.json"
    file.write_text(LISTED)
    return str(file)


def status_of(*words: str) -> int:
    """Run a command; argparse ends in its own way."""
    try:
        return main(["prices", *words])
    except SystemExit as end:
        return int(end.code or 0)


def send(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Send something to standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_list_becomes_a_file_of_prices(listed: str, capsys: Capture) -> None:
    assert status_of("import", "--from", "litellm", listed, "--provider", "openai=main", "--strict") == 0
    printed = capsys.readouterr()
    first, second, rest = printed.out.split("\n", 2)
    assert first.startswith("# Prices from LiteLLM, imported by mgw prices import on 2")
    assert second == f"# SHA-256 of the list: {sha256(LISTED.encode()).hexdigest()}"
    assert (rest, printed.err) == (OURS, "")
    assert parse_prices(printed.out, "prices.yaml", ["main"])


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    send(monkeypatch, b'{"openai": {"models": {"m": {"cost": {"input": 0.1, "output": 2}}}}}')
    assert status_of("import", "--from", "models.dev", "-") == 0
    assert capsys.readouterr().out.endswith('rows:\n  - {model: "m", input: 0.1, output: 2}\n')


@pytest.mark.parametrize(("words", "status"), [((), 0), (("--strict",), 1)])
def test_strict_fails_where_a_price_has_no_place(
    listed: str, words: tuple[str, ...], status: int, capsys: Capture
) -> None:
    assert status_of("import", "--from", "litellm", listed, *words) == status
    printed = capsys.readouterr()
    assert '  # without a place here: odd_cost_per_day 4\n  - {model: "grok-x", input: 3}\n' in printed.out
    assert printed.err == (
        "mgw prices import: 1 of 2 models have prices without a place here; comments name them\n"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--provider", "opneai"), "the list has no provider 'opneai'; did you mean openai?"),
        (("--model", "claude-*"), "no model of the list with a price fits"),
    ],
)
def test_a_choice_that_leaves_nothing_fails(
    listed: str, words: tuple[str, ...], reason: str, capsys: Capture
) -> None:
    assert status_of("import", "--from", "litellm", listed, *words) == 1
    assert capsys.readouterr() == ("", f"mgw prices import: {listed}: {reason}\n")


@pytest.mark.parametrize(
    "content", [b'{"m": NaN}', b" " * (MAX_LIST_BYTES + 1), b"[]", b'{"m": {"models": {}}}']
)
@pytest.mark.parametrize("is_file", [True, False])
def test_a_list_that_cannot_be_used_fails(
    content: bytes, is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file = tmp_path / "list.json"
    file.write_bytes(content)
    send(monkeypatch, content)
    assert status_of("import", "--from", "models.dev", str(file) if is_file else "-") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"mgw prices import: {file if is_file else 'standard input'}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("more", [0, 1])
def test_exactly_so_many_rows_are_made(more: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    models = ", ".join(f'"m{number}": {{"cost": {{"input": 1}}}}' for number in range(MAX_ROWS + more))
    send(monkeypatch, f'{{"p": {{"models": {{{models}}}}}}}'.encode())
    assert status_of("import", "--from", "models.dev", "-") == more
    assert ("more than 20000 rows" in capsys.readouterr().err) is bool(more)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("import", "list.json"),
        ("import", "--from", "openrouter", "list.json"),
        ("import", "--from", "litellm", "list.json", "--provider", "=main"),
        ("import", "--from", "litellm", "list.json", "--provider", "openai=a/b"),
        ("diff", "old.yaml"),
        ("diff", "-", "-"),
        ("diff", "missing.yaml", "missing.yaml"),
    ],
)
def test_a_wrong_call_is_told_apart(words: tuple[str, ...], capsys: Capture) -> None:
    assert status_of(*words) == 2
    assert capsys.readouterr().err


def test_a_difference_is_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    old, new, wrong = (tmp_path / name for name in ("old.yaml", "new.yaml", "wrong.yaml"))
    old.write_text(OURS)
    new.write_text(OURS.replace("output: 5", "output: 4"))
    wrong.write_text("rows: [{model: m, inptu: 1}]")
    assert status_of("diff", str(old), str(old)) == 0
    assert capsys.readouterr() == ("", "")
    assert status_of("diff", str(old), str(new)) == 1
    assert capsys.readouterr() == ("~ main/gpt-x: flex output 5 -> 4\n", "")
    send(monkeypatch, OURS.encode())
    assert status_of("diff", "-", str(new)) == 1
    assert capsys.readouterr().out
    assert status_of("diff", str(old), str(wrong)) == 2
    assert "inptu" in capsys.readouterr().err
