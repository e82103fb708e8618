"""Mistakes in a configuration as an operator meets them: ``mgw check``, ``mgw run``, a reload, a request."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Final

import pytest

from tests.memory.app.test_configuration_checks import MISTAKES, Mistake
from tests.support.commands import run_mgw
from tests.support.gateway import start_gateway
from tests.support.operations import ask
from tests.support.simulator import SimulatorProcess

SAMPLE: Final = (
    "a typo in a gateway key",
    "azure as a kind",
    "a file in place of tls",
    "no space after the colon of the first setting",
    "a variable that is not set",
    "a CA file in a folder that does not exist",
    "a typo in the file of prices",
)
ONE: Final = "providers:\n  main: {kind: openai, api_key: sk-canary-1}\n"


@pytest.mark.parametrize(
    "mistake", [mistake for mistake in MISTAKES if mistake.name in SAMPLE], ids=lambda mistake: mistake.name
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_check_and_run_say_what_to_change(mistake: Mistake, command: str, tmp_path: Path) -> None:
    mistake.write(tmp_path)
    environ = {"K": "a-long-key-1", **mistake.environ}
    done = run_mgw([command, "-c", "mgw.yaml"], folder=tmp_path, environ=environ)
    assert done.returncode == 1
    assert done.stderr.decode().replace(str(tmp_path), "FOLDER") == f"{mistake.said}\n"


def test_the_sample_is_of_the_table() -> None:
    assert len([mistake for mistake in MISTAKES if mistake.name in SAMPLE]) == len(SAMPLE)


def said_at_start(folder: Path, listen: str) -> str:
    (folder / "mgw.yaml").write_text(f"{ONE}listen: {listen}\n")
    done = run_mgw(["run", "-c", "mgw.yaml"], folder=folder)
    assert done.returncode == 1
    return done.stderr.decode().splitlines()[-1]


def test_a_port_in_use_is_told_with_its_line_and_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        said = said_at_start(tmp_path, listen)
    what = "Address already in use (another process listens there; ss -ltnp shows which)"
    assert said.endswith(f" mgw.yaml:3: listen: cannot listen on {listen}: {what}")


def test_an_address_of_another_machine_is_told_with_its_line_and_what_to_do(tmp_path: Path) -> None:
    said = said_at_start(tmp_path, "192.0.2.1:0")
    what = "Cannot assign requested address (no network interface of this machine has this address)"
    assert said.endswith(f" mgw.yaml:3: listen: cannot listen on 192.0.2.1:0: {what}")


def test_a_reload_that_finds_a_file_missing_names_its_line() -> None:
    with start_gateway(ONE) as gateway:
        gateway.rewrite("listen: 127.0.0.1:0\n" + ONE.replace("api_key:", "ca_file: /no/ca.pem, api_key:"))
        gateway.signal(signal.SIGHUP)
        log = gateway.log(b"ca.pem")
        reason = "providers.main.ca_file: file not found: /no/ca.pem (folder /no does not exist)"
        assert f"{gateway.config_file}:3: {reason}".encode() in log


WARNING: Final = b"a request names the model 'mian/"
CHAT: Final = b'{"model": "%b", "messages": [{"role": "user", "content": "hello"}], "stream": %b}'
MESSAGES: Final = b'{"model": "%b", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}'
GENERATE: Final = b'{"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}'


@pytest.mark.parametrize("workers", ["", "workers: 1\n"], ids=["one process", "workers"])
def test_a_slip_in_a_prefix_is_warned_of_once_and_goes_to_the_default(
    simulator: SimulatorProcess, workers: str
) -> None:
    text = f"""
providers:
  main: {{kind: openai_compat, base_url: "{simulator.url}/v1", api_key: sk-canary-1}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-canary-2}}
defaults: {{openai_dialect: main, anthropic_dialect: main, gemini_dialect: main}}
{workers}"""
    with start_gateway(text) as gateway:
        for path, body in (
            ("/v1/chat/completions", CHAT % (b"meta-llama/llama-4", b"false")),
            ("/v1/chat/completions", CHAT % (b"mian/gpt-5", b"false")),
            ("/v1/chat/completions", CHAT % (b"mian/gpt-5", b"true")),
            ("/v1/chat/completions", CHAT % (b"mian/gpt-5-mini", b"false")),
            ("/v1/messages", MESSAGES % b"mian/gpt-5"),
            ("/v1beta/models/mian/gpt-5:generateContent", GENERATE),
            ("/v1/chat/completions", CHAT % (b"cluade/opus", b"false")),
        ):
            assert ask(gateway.port, path, body=body).status == 200, path
        models = [event["upstream_model"] for event in gateway.events(7)]
        log = gateway.log(b"did you mean 'claude/")
    assert models[1:3] == ["mian/gpt-5", "mian/gpt-5"]
    assert log.count(WARNING) == 1
    assert "did you mean 'main/…'? It was sent to the default provider main".encode() in log
    assert b"a request names the model 'meta-llama" not in log
