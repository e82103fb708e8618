"""``mgw budget`` without a gateway: what it says of key files that cannot be used, and when rows reset."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from mgw.cli import budget_actions
from mgw.cli.main import main
from mgw.clients.limit_report import configured_rows
from mgw.clients.limits import LIMITS_BY_NAME, Allowance

CONFIG: Final = """
providers: {{main: {{kind: openai, api_key: sk-canary-0001}}}}
limit_store: {folder}/limits.db
edge_auth:
  enabled: true
  timezone: Asia/Kathmandu
  keys_dir: {folder}/keys.d
  limits: [{{requests: 5, per: day}}]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "keys.d").mkdir()
    file = tmp_path / "mgw.yaml"
    file.write_text(CONFIG.format(folder=tmp_path))
    (tmp_path / "keys.d" / "alice.yaml").write_text(
        f"sha256: {'a' * 64}\nlimits: [{{tokens: 9, per: week}}]\n"
    )
    return file


def test_rows_reset_in_the_zone_of_their_periods(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["budget", "show", "--format", "json", "-c", str(config)]) == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)
    assert [(row["holder"], row["limit"]) for row in rows] == [
        ("gateway", "requests_per_day"),
        ("alice", "tokens_per_week"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT00:00:00\+05:45", row["resets"]) for row in rows)
    assert said.err == ""


@pytest.mark.parametrize("command", [["show"], ["reset", "alice"]])
@pytest.mark.parametrize(
    ("spoilt", "warning"),
    [
        (1, "a key file cannot be used (see mgw check), so limits are missing here"),
        (2, "2 key files cannot be used (see mgw check), so limits are missing here"),
        (None, "edge_auth.keys_dir: directory not found: "),
    ],
)
def test_key_files_that_cannot_be_used_are_missed(
    config: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    spoilt: int | None,
    warning: str,
) -> None:
    """Their limits are not shown, and cannot be reset: nobody should take that for having none."""
    directory = config.parent / "keys.d"
    (directory / "alice.yaml").unlink()
    if spoilt is None:
        directory.rmdir()
    for number in range(spoilt or 0):
        (directory / f"{number}.yaml").write_text("sha256: 12\n")
    assert main(["budget", *command, "-c", str(config)]) == (0 if command == ["show"] else 1)
    said = capsys.readouterr()
    assert said.err.startswith(f"mgw budget {command[0]}: warning: {warning}")
    assert ("gateway" in said.out) is (command == ["show"])


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (
            ["bob"],
            1,
            "longer than a minute, or has not used it yet, did you mean gateway/bob or group:g/bob?",
        ),
        (["group:g"], 1, "or has not used it yet, did you mean group:g/bob or group:g/eve?"),
        (["alice", "--limit", "usd_total"], 1, "or has not used it yet (its limits: tokens_per_week)"),
        (["alicia"], 1, "or has not used it yet, did you mean alice?"),
        (["someone-else"], 1, "or has not used it yet: see `mgw budget show`"),
        (
            ["alice", "--limit", "tokens"],
            2,
            "(expected one of tokens_per_day, tokens_per_week, tokens_per_month, tokens_total)",
        ),
        (
            ["alice", "--limit", "tokens_per_weak"],
            2,
            "is named 'tokens_per_weak', did you mean tokens_per_week?",
        ),
    ],
)
def test_what_may_have_been_meant_is_said(
    config: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
    words: str,
) -> None:
    limit = LIMITS_BY_NAME["requests_per_day"]
    owners = ("gateway/bob", "group:g/eve", "group:g/bob")
    used = [Allowance(limit, 5, owner) for owner in owners]
    monkeypatch.setattr(budget_actions, "configured_rows", lambda *of: [*configured_rows(*of), *used])
    assert main(["budget", "reset", *arguments, "-c", str(config)]) == status
    assert words in capsys.readouterr().err
