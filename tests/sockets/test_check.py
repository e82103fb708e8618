"""``--check``, ``--version`` and the errors of a start, as an operator at a terminal sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgw import __version__
from tests.support.fork_server import start_program
from tests.support.operations import ROOT, cpu_of_children, twistd, write_config

VALID = """
providers:
  main: {kind: openai, base_url: "https://openai.example/v1", api_key_env: MAIN_KEY, models: [gpt-b]}
  claude: {kind: anthropic, base_url: "https://anthropic.example", api_key: sk-canary-2}
  gem: {kind: gemini, base_url: "https://gemini.example/v1beta", api_key: canary-3}
defaults: {openai_dialect: main}
listen: ":8787"
"""
ENVIRON = {"MAIN_KEY": "sk-canary-1"}

INVALID = """
providers:
  main: {kind: openai, api_key: sk-canary-1, base_ulr: "https://openai.example/v1"}
  claude: {kind: antropic, api_key: sk-canary-2}
  gem: {kind: gemini, api_key_env: UNSET_VARIABLE}
defaults: {openai_dialect: nobody}
edge_auth: {enabled: yes, keys: "edge-canary"}
drain_seconds: soon
"""


def test_a_valid_file_exits_with_0_and_prints_warnings_and_final_addresses(tmp_path: Path) -> None:
    file = write_config(tmp_path, VALID)
    done = twistd("mgw", "-c", str(file), "--check", folder=tmp_path, environ=ENVIRON)
    assert (done.status, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert "can be reached from other machines, and edge_auth is off" in warnings[0]
    assert warnings[1].startswith(
        f"warning: {file}:4: providers.claude.base_url: https://anthropic.example has no version"
    )
    assert lines[2:] == [
        "main: POST https://openai.example/v1/chat/completions",
        "claude: POST https://anthropic.example/messages",
        "gem: POST https://gemini.example/v1beta/models/{model}:generateContent",
        "dashboard at http://localhost:8787/ui, for clients on this machine only: dashboard.keys is not set",
        "the configuration is valid",
    ]
    assert "canary" not in done.stdout


def test_an_invalid_file_exits_with_1_and_prints_all_problems(tmp_path: Path) -> None:
    file = write_config(tmp_path, INVALID)
    done = twistd("mgw", "-c", str(file), "--check", folder=tmp_path)
    assert done.status == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    places = [line.removeprefix(f"{file}:").split(": ")[:2] for line in lines]
    assert places == [
        ["3", "providers.main.base_ulr"],
        ["4", "providers.claude.kind"],
        ["5", "providers.gem.api_key_env"],
        ["6", "defaults.openai_dialect"],
        ["7", "edge_auth.keys"],
        ["8", "drain_seconds"],
    ]
    assert "canary" not in done.stderr


def test_a_start_with_an_invalid_file_says_the_same_as_check(tmp_path: Path) -> None:
    file = write_config(tmp_path, INVALID)
    started = twistd("mgw", "-c", str(file), folder=tmp_path)
    checked = twistd("mgw", "-c", str(file), "--check", folder=tmp_path)
    assert (started.status, started.stderr) == (checked.status, checked.stderr)


def test_a_missing_file_is_told_in_one_line(tmp_path: Path) -> None:
    done = twistd("mgw", "-c", f"{tmp_path}/no.yaml", "--check", folder=tmp_path)
    assert done.status == 1
    assert done.stderr == (
        f"mgw: configuration file not found: {tmp_path}/no.yaml; to create one: mgw example > mgw.yaml\n"
    )


@pytest.mark.parametrize("arguments", [("--check",), ()], ids=["check", "start"])
@pytest.mark.parametrize("content", [None, "no certificate"], ids=["missing", "no certificate"])
def test_a_ca_file_that_is_no_use_is_told_in_one_line(
    tmp_path: Path, content: str | None, arguments: tuple[str, ...]
) -> None:
    ca_file = tmp_path / "ca.pem"
    if content is not None:
        ca_file.write_text(content)
    text = f"providers: {{main: {{kind: openai, api_key: sk-canary, ca_file: {ca_file}}}}}\n"
    file = write_config(tmp_path, text)
    done = twistd("mgw", "-c", str(file), *arguments, folder=tmp_path)
    assert done.status == 1
    (line,) = [line for line in done.stderr.splitlines() if "ca_file" in line]
    assert line.startswith(f"{file}:1: providers.main.ca_file: ")
    assert str(ca_file) in line
    assert "Traceback" not in done.stderr
    assert "canary" not in done.stderr


def test_an_output_of_events_that_cannot_be_opened_is_told_in_one_line(tmp_path: Path) -> None:
    text = "providers: {main: {kind: openai, api_key: sk-canary}}\nhooks: {jsonl: {output: /no/such/file}}\n"
    file = write_config(tmp_path, text)
    done = twistd("mgw", "-c", str(file), folder=tmp_path)
    assert done.status == 1
    reason = "/no/such/file cannot be written: folder /no/such does not exist"
    assert f"{file}:2: hooks.jsonl.output: {reason}\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_file_that_cannot_be_opened_is_told_in_one_line(tmp_path: Path) -> None:
    file = write_config(tmp_path, VALID)
    done = twistd("--logfile", "/no/such/log", "mgw", "-c", str(file), folder=tmp_path, environ=ENVIRON)
    assert done.status == 1
    assert "mgw: the log file /no/such/log cannot be written: folder /no/such does not exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_file_is_an_argument_too_and_two_are_an_error(tmp_path: Path) -> None:
    file = write_config(tmp_path, VALID)
    done = twistd("mgw", "--check", str(file), folder=tmp_path, environ=ENVIRON)
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.endswith("the configuration is valid\n")
    both = twistd("mgw", "--check", "-c", "other.yaml", str(file), folder=tmp_path, environ=ENVIRON)
    assert both.status == 1
    assert f"two configuration files, {file} and -c other.yaml: name only one" in both.stdout


def test_the_version_is_printed(tmp_path: Path) -> None:
    done = twistd("mgw", "--version", folder=tmp_path)
    assert (done.status, done.stdout) == (0, f"mgw {__version__}\n")


def test_the_example_configuration_passes_the_check(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "x" * 20, "ANTHROPIC_API_KEY": "x" * 20, "GEMINI_API_KEY": "x" * 20}
    began = cpu_of_children()
    arguments = ("mgw", "-c", str(ROOT / "etc/mgw-demo.yaml"), "--check")
    done = twistd(*arguments, folder=tmp_path, environ=environ, start=start_program)
    assert done.status == 0, done.stderr
    assert cpu_of_children() - began < 3  # seconds; measured: 0.6


def test_check_looks_at_every_file_that_a_configuration_names(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    text = """
providers:
  one: {kind: openai, api_key: k, ca_file: /nowhere/ca.pem}
  two: {kind: openai, api_key: k, ca_file: empty.pem}
  three: {kind: gemini, token_file: /nowhere/token}
hooks: {jsonl: {output: /nowhere/events.jsonl}}
tls: {cert_file: /nowhere/cert.pem, key_file: /nowhere/key.pem}
"""
    file = write_config(tmp_path, text)
    done = twistd("mgw", "-c", str(file), "--check", folder=tmp_path)
    assert done.status == 1
    told = [line.split(": ")[:2] for line in done.stderr.splitlines()]
    assert told == [
        [f"{file}:6", "hooks.jsonl.output"],
        [f"{file}:3", "providers.one.ca_file"],
        [f"{file}:4", "providers.two.ca_file"],
        [f"{file}:7", "tls.cert_file"],
        [f"{file}:7", "tls.key_file"],
    ]


def test_check_warns_of_a_token_file_that_somebody_may_yet_write(tmp_path: Path) -> None:
    text = "providers: {gem: {kind: gemini, token_file: /nowhere/token}}\n"
    file = write_config(tmp_path, text)
    done = twistd("mgw", "-c", str(file), "--check", folder=tmp_path)
    assert done.status == 0
    assert f"warning: {file}:1: providers.gem.token_file: file not found" in done.stdout


def test_check_warns_of_a_spool_that_cannot_be_written(tmp_path: Path) -> None:
    spool = tmp_path / "file" / "spool"
    spool.parent.write_text("")
    file = write_config(tmp_path, f"{VALID}spool: {{dir: {spool}}}\n")
    done = twistd("mgw", "-c", str(file), "--check", folder=tmp_path, environ=ENVIRON)
    assert done.status == 0
    assert (
        f": spool.dir: {spool} cannot be written to: {spool.parent} is not a folder; requests" in done.stdout
    )
