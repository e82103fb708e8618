"""What ``mgw check`` says of key files and of keys that end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from mgw.app.check import check, reader_of
from mgw.app.key_check import MOST_NAMED, SOON_SECONDS, key_warnings, read_key_files
from mgw.cli.main import main
from mgw.config.load import parse
from mgw.config.settings import Config

TEXT = """providers: {{main: {{kind: openai, api_key: sk-canary-0001, models: [gpt-a, gpt-b]}}}}
edge_auth:
  enabled: true
  keys_dir: {directory}
  keys:
    - {{name: fixed, key: edge-canary-0001, expires: "{expires}"}}
dashboard: {{enabled: false}}
"""
FAR = "2090-01-01"


def digest(name: str) -> str:
    return sha256(f"canary-{name}".encode()).hexdigest()


def configured(folder: Path, expires: str = FAR) -> Path:
    (folder / "keys.d").mkdir(exist_ok=True)
    file = folder / "mgw.yaml"
    file.write_text(TEXT.format(directory=folder / "keys.d", expires=expires))
    return file


def config_of(folder: Path, expires: str = FAR) -> Config:
    return parse(configured(folder, expires).read_text(), "mgw.yaml", {})


def test_a_key_file_that_cannot_be_used_makes_it_exit_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = configured(tmp_path)
    (tmp_path / "keys.d" / "good.yaml").write_text(f"sha256: {digest('good')}\n")
    assert check(reader_of(str(file), {})) == 0
    capsys.readouterr()
    (tmp_path / "keys.d" / "alice.yaml").write_text(f"sha256: {digest('a')}\ngroups: [nobody]\n")
    (tmp_path / "keys.d" / "bob.yaml").write_text(f"sha256: {digest('good')}\n")
    assert check(reader_of(str(file), {})) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{tmp_path}/keys.d/alice.yaml:2: groups.0: no group has this name (known: none)",
        f"{tmp_path}/keys.d/good.yaml:1: sha256: the same key as in bob.yaml: keep only one",
    ]


def test_a_directory_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = configured(tmp_path)
    (tmp_path / "keys.d").rmdir()
    assert check(reader_of(str(file), {})) == 1
    expected = f"{file}:4: edge_auth.keys_dir: directory not found: {tmp_path}/keys.d\n"
    assert capsys.readouterr().err == expected


def in_days(days: float) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(("days", "is_soon"), [(-1, False), (13.9, True), (14.1, False)])
def test_keys_that_end_within_14_days_are_named(tmp_path: Path, days: float, is_soon: bool) -> None:
    config = config_of(tmp_path, in_days(days))
    (tmp_path / "keys.d" / "alice.yaml").write_text(f"sha256: {digest('a')}\nexpires: {in_days(days)}\n")
    disabled = f"sha256: {digest('b')}\nexpires: {in_days(days)}\ndisabled: true\n"
    (tmp_path / "keys.d" / "bob.yaml").write_text(disabled)
    found = key_warnings(config, read_key_files(config), datetime.now(UTC).timestamp())
    assert [line.rpartition(" at ")[0] for line in found] == (
        ["edge_auth.keys.0.expires: the key fixed expires", "edge_auth.keys_dir: the key alice expires"]
        if is_soon
        else []
    )


def test_only_a_few_of_many_are_named(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    for number in range(MOST_NAMED + 2):
        text = f"sha256: {digest(str(number))}\nexpires: {in_days(1)}\n"
        (tmp_path / "keys.d" / f"k{number}.yaml").write_text(text)
    found = key_warnings(config, read_key_files(config), datetime.now(UTC).timestamp())
    assert len(found) == MOST_NAMED + 1
    assert found[-1] == "edge_auth: 2 more keys expire within 14 days"
    assert SOON_SECONDS == 14 * 24 * 3600


@pytest.mark.parametrize(("mode", "warns"), [(0o755, False), (0o777, True), (0o1777, False), (0o775, False)])
def test_a_directory_that_others_may_write_to_is_warned_of(tmp_path: Path, mode: int, warns: bool) -> None:
    config = config_of(tmp_path)
    (tmp_path / "keys.d").chmod(mode)
    found = key_warnings(config, None, 0.0)
    assert found == (
        ["edge_auth.keys_dir: every user of this machine may write to it, and so add keys"] if warns else []
    )


def test_files_that_only_look_like_key_files_are_named(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    for name in ("alice.yml", "bob.YAML", "carol.yaml", ".dave.yml", "README.txt", "yml"):
        (tmp_path / "keys.d" / name).write_text(f"sha256: {digest(name)}\n")
    assert key_warnings(config, read_key_files(config), 0.0) == [
        "edge_auth.keys_dir: alice.yml is ignored: key files end with .yaml",
        "edge_auth.keys_dir: bob.YAML is ignored: key files end with .yaml",
    ]


NO_PROVIDER = "'mian/*' matches no model: no provider is named 'mian', did you mean main?"


def test_patterns_of_key_files_that_match_no_model_are_named(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    (tmp_path / "keys.d" / "alice.yaml").write_text(f"sha256: {digest('a')}\nmodels: [mian/*, main/*]\n")
    found = key_warnings(config, read_key_files(config), 0.0)
    assert found == [f"edge_auth.keys_dir: models of the key alice: {NO_PROVIDER}"]


def test_only_a_few_of_many_unmatched_patterns_are_named(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    for number in range(MOST_NAMED + 2):
        text = f"sha256: {digest(str(number))}\nmodels: [mian/*]\n"
        (tmp_path / "keys.d" / f"k{number}.yaml").write_text(text)
    found = key_warnings(config, read_key_files(config), 0.0)
    assert len(found) == MOST_NAMED + 1
    assert found[-1] == "edge_auth.keys_dir: 2 more patterns of key files match no model"


def test_models_of_a_key_in_a_file_can_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = configured(tmp_path)
    (tmp_path / "keys.d" / "alice.yaml").write_text(f'sha256: {digest("a")}\nmodels: ["*gpt-a"]\n')
    assert main(["models", "--key", "alice", "-c", str(file), "--format", "csv"]) == 0
    out = capsys.readouterr().out
    assert "gpt-a" in out
    assert "gpt-b" not in out


def test_limits_of_key_files_need_a_redis_that_is_persistent(tmp_path: Path) -> None:
    config = parse(
        configured(tmp_path).read_text() + "fleet: {redis: {url: 'redis://127.0.0.1'}}\n", "mgw.yaml", {}
    )

    def told() -> int:
        return sum("must be persistent" in one for one in key_warnings(config, read_key_files(config), 0.0))

    file = tmp_path / "keys.d" / "alice.yaml"
    for row, count in (("requests: 5, per: minute", 0), ("in_flight: 5", 0), ("requests: 5, per: day", 1)):
        file.write_text(f"sha256: {digest('a')}\nlimits: [{{{row}}}]\n")
        assert told() == count
    config = config.model_copy(update={"fleet": type(config.fleet)()})
    assert told() == 0
