"""The recipes of docs/clients.rst work as the page has them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agents import recipes
from tests.agents.recipes import KEY, PROGRAMS, SHOWN, SHOWN_TLS, Program, here
from tests.agents.running import Desk, Finished, node, run
from tests.support.certificates import Authority, authority, issue
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess

SNIPPET: Final = Path(__file__).parent / "programs" / "snippet.py"
NOTE: Final = "the tangerine is in drawer 41"

Shell = Callable[[str, str], Finished]


@pytest.fixture(scope="module")
def gateway(installation: Path, shared_simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    """The gateway that the page describes."""
    config = recipes.configuration(shared_simulator.url)
    with start_gateway(config, recipes.environ()) as process:
        yield process


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who issues the certificate of the gateway that has one."""
    return authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls_gateway(
    ca: Authority, installation: Path, shared_simulator: SimulatorProcess
) -> Iterator[GatewayProcess]:
    """The same gateway with a certificate."""
    files = issue(ca, "127.0.0.1")
    tls = f"tls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}\n"
    with start_gateway(recipes.configuration(shared_simulator.url) + tls, recipes.environ()) as process:
        yield process


def addresses(gateway: GatewayProcess) -> Mapping[str, str]:
    """Return what stands for the page's addresses."""
    own = f"127.0.0.1:{gateway.port}"
    return {SHOWN: own, SHOWN_TLS: f"https://{own}"}


def play(
    program: Program, installation: Path, seat: Desk, gateway: GatewayProcess, environ: Mapping[str, str]
) -> Finished:
    """Run a program of the page."""
    replaced = addresses(gateway)
    source = program.source(replaced).replace(SHOWN, replaced[SHOWN])
    if program.interpreter == "node":
        file = seat.work / "recipe.mjs"
        (seat.work / "node_modules").symlink_to(installation / "node_modules")
        command = [node(), str(file)]
    else:
        file = seat.work / "recipe.py"
        python = (
            sys.executable
            if program.interpreter == "own"
            else str(recipes.interpreter(program.interpreter, installation))
        )
        command = [python, str(SNIPPET), str(file)]
    file.write_text(source, encoding="utf-8")
    return run(command, seat, environ)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.place[0]} {program.place[1]}")
def test_a_program_of_the_page_works(
    request: pytest.FixtureRequest, installation: Path, seat: Desk, ca: Authority, program: Program
) -> None:
    needs_tls = SHOWN_TLS in recipes.PAGE[program.place].text
    gateway: GatewayProcess = request.getfixturevalue("tls_gateway" if needs_tls else "gateway")
    environ = {"SSL_CERT_FILE": str(ca.ca_file)} if needs_tls else {}
    finished = play(program, installation, seat, gateway, environ)
    assert finished.status == 0, finished
    assert finished.stdout == program.expected, finished


# Agents, in a shell ---------------------------------------------------------------------------------------

WRAPPERS: Final = {
    "claude": 'exec NODE MODULES/@anthropic-ai/claude-code/cli-wrapper.cjs "$@" '
    '--print "$PROMPT" --output-format json --allowedTools "Read"',
    "codex": 'exec NODE MODULES/@openai/codex/bin/codex.js "$@" '
    'exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --json "$PROMPT"',
    "gemini": 'case "$*" in *--prompt*) ;; '
    '*) set -- "$@" --skip-trust --approval-mode yolo --output-format json --prompt "$PROMPT" ;; esac\n'
    'exec NODE MODULES/@google/gemini-cli/bundle/gemini.js "$@"',
    "llm": 'exec PYTHON/llm "$@"',
}
"""The programs that the page calls. What needs a terminal is asked for one answer instead."""
QUIET: Final = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
"""Without these, Claude Code looks for its maker."""


@pytest.fixture
def shell(installation: Path, seat: Desk, simulator: SimulatorProcess, gateway: GatewayProcess) -> Shell:
    """Type the page's commands into a shell that has its programs; the first argument is what is asked."""
    programs = seat.home / "bin"
    programs.mkdir()
    python = recipes.interpreter("python", installation).parent
    for name, script in WRAPPERS.items():
        there = (
            script.replace("NODE", node())
            .replace("MODULES", str(installation / "node_modules"))
            .replace("PYTHON", str(python))
        )
        (programs / name).write_text(f"#!/bin/sh\n{there}\n", encoding="utf-8")
        (programs / name).chmod(0o755)

    def type_in(prompt: str, commands: str) -> Finished:
        variables = {"KEY": KEY, "PROMPT": prompt, **QUIET}
        return run(["bash", "-e", "-c", f'PATH="{programs}:$PATH"\n{commands}'], seat, variables)

    return type_in


@pytest.fixture
def note(seat: Desk) -> Path:
    """A file that an agent can read."""
    file = seat.work / "note.txt"
    file.write_text(f"{NOTE}\n")
    return file


def asked(simulator: SimulatorProcess) -> set[Any]:
    """Return the models that the provider was asked for, in order of their names."""
    found = set()
    for request in simulator.requests():
        if request.body:
            found.add(request.json().get("model") or request.target.rpartition("/")[2].partition(":")[0])
    return found


def call(tool: str, **arguments: object) -> str:
    """Return the words that make the simulator call a tool."""
    return f"use tool {tool} with {json.dumps(arguments)}"


def test_claude_code_is_set_up_by_variables(
    shell: Shell, gateway: GatewayProcess, note: Path, simulator: SimulatorProcess
) -> None:
    finished = shell(call("Read", file_path=str(note)), here(("Claude Code", 1), addresses(gateway)))
    assert finished.status == 0, finished
    assert NOTE in json.loads(finished.stdout)["result"]
    assert asked(simulator) == {"claude-sonnet-5"}


@pytest.mark.parametrize(
    ("name", "model"), [("opus", "gpt-5"), ("sonnet", "gpt-5"), ("haiku", "gemini-2.5-flash"), ("", "gpt-5")]
)
def test_claude_code_works_without_an_anthropic_provider(
    shell: Shell, gateway: GatewayProcess, note: Path, simulator: SimulatorProcess, name: str, model: str
) -> None:
    address = here(("Claude Code", 1), addresses(gateway)).splitlines()[:2]
    chosen = here(("Claude Code", 2), addresses(gateway))
    started = f"claude --model {name}" if name else "claude"
    commands = "\n".join([*address, chosen, started])
    finished = shell(call("Read", file_path=str(note)), commands)
    assert finished.status == 0, finished
    assert NOTE in json.loads(finished.stdout)["result"]
    assert asked(simulator) == {model}


def configure_codex(
    seat: Desk, gateway: GatewayProcess, *tables: tuple[str, int], settings: str = ""
) -> None:
    """Write the page's configuration of Codex, with more of the page's tables behind it."""
    folder = seat.home / ".codex"
    folder.mkdir()
    blocks = [here(place, addresses(gateway)) for place in (("Codex", 1), *tables)]
    (folder / "config.toml").write_text("\n\n".join([settings, *blocks]), encoding="utf-8")


def answer_of_codex(finished: Finished) -> str:
    """Return its last message."""
    assert finished.status == 0, finished
    events = [json.loads(line) for line in finished.stdout.splitlines()]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return str([item["text"] for item in items if item["type"] == "agent_message"][-1])


@pytest.mark.parametrize("model", ["", "claude/claude-sonnet-5", "local/deep"])
def test_codex_is_set_up_by_its_table(
    shell: Shell, seat: Desk, gateway: GatewayProcess, note: Path, simulator: SimulatorProcess, model: str
) -> None:
    configure_codex(seat, gateway)
    commands = here(("Codex", 2), addresses(gateway)) + (f" --model {model}" if model else "")
    finished = shell(call("exec_command", cmd=f"cat {note}"), commands)
    assert NOTE in answer_of_codex(finished), finished
    assert asked(simulator) == {model.partition("/")[2] or "gpt-5.5"}
    assert {request.method for request in simulator.requests()} == {"POST"}


def test_codex_takes_the_catalog(
    shell: Shell, seat: Desk, gateway: GatewayProcess, note: Path, simulator: SimulatorProcess
) -> None:
    """With it, Codex does not warn that it does not know the model, and offers its tool for patches."""
    configure_codex(seat, gateway, settings=here(("Codex", 4), {"/home/you": str(seat.home)}))
    (seat.home / ".codex" / "models.json").write_text(recipes.PAGE["Codex", 5].text, encoding="utf-8")
    commands = here(("Codex", 2), addresses(gateway)) + " --model claude/claude-sonnet-5"
    finished = shell(call("exec_command", cmd=f"cat {note}"), commands)
    assert NOTE in answer_of_codex(finished), finished
    assert "metadata" not in finished.stdout
    tools = {tool["name"] for tool in simulator.requests()[0].json()["tools"]}
    assert "apply_patch" in tools


def test_codex_uses_a_websocket_for_openais_models(
    shell: Shell, seat: Desk, gateway: GatewayProcess, note: Path, simulator: SimulatorProcess
) -> None:
    configure_codex(seat, gateway, ("WebSockets", 1))
    commands = "export MGW_KEY=$KEY\n" + here(("WebSockets", 2), addresses(gateway))
    finished = shell(call("exec_command", cmd=f"cat {note}"), commands)
    assert NOTE in answer_of_codex(finished), finished
    assert [request.status for request in simulator.requests()] == [101]


def test_codex_soon_leaves_a_websocket_that_cannot_have_the_model(
    shell: Shell, seat: Desk, gateway: GatewayProcess, note: Path, simulator: SimulatorProcess
) -> None:
    """The page says two or three tries; without ``stream_max_retries`` they are seven."""
    before = gateway.stdout.data.count(b"\n")
    configure_codex(seat, gateway, ("WebSockets", 1))
    chosen = here(("WebSockets", 2), addresses(gateway))
    commands = f"export MGW_KEY=$KEY\n{chosen} --model claude/claude-sonnet-5"
    finished = shell(call("exec_command", cmd=f"cat {note}"), commands)
    assert NOTE in answer_of_codex(finished), finished
    events = gateway.events(before + 3)[before:]
    tries = [event for event in events if event["transport"] == "websocket"]
    assert 2 <= len(tries) <= 3, tries
    assert [request.status for request in simulator.requests()] == [200, 200]


def set_up_gemini_cli(seat: Desk) -> None:
    """Write its settings, as the page has them."""
    folder = seat.home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(recipes.PAGE["Gemini CLI", 1].text, encoding="utf-8")


def test_the_gemini_cli_is_set_up_by_a_file_and_variables(
    shell: Shell, seat: Desk, gateway: GatewayProcess, note: Path, simulator: SimulatorProcess
) -> None:
    set_up_gemini_cli(seat)
    finished = shell(call("read_file", file_path=str(note)), here(("Gemini CLI", 2), addresses(gateway)))
    assert finished.status == 0, finished
    assert NOTE in json.loads(finished.stdout)["response"]
    assert asked(simulator) == {"gemini-2.5-flash"}


def test_the_gemini_cli_works_in_a_ci_job(
    shell: Shell, gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    commands = here(("Gemini CLI", 3), addresses(gateway))
    finished = shell("", commands)
    assert finished.status == 0, finished
    assert "Summarize README.md" in finished.stdout
    [request] = simulator.requests()
    offered = {tool["name"] for tools in request.json()["tools"] for tool in tools["functionDeclarations"]}
    assert "run_shell_command" in offered


@pytest.mark.parametrize(
    ("left_out", "status", "said"),
    [
        ("settings.json", 41, "Invalid auth method selected"),
        ("GEMINI_CLI_TRUST_WORKSPACE", 55, "not running in a trusted directory"),
    ],
)
def test_the_gemini_cli_misses_each_line_as_the_page_says(
    shell: Shell, gateway: GatewayProcess, simulator: SimulatorProcess, left_out: str, status: int, said: str
) -> None:
    lines = here(("Gemini CLI", 3), addresses(gateway)).splitlines()
    finished = shell("", "\n".join(line for line in lines if left_out not in line))
    assert (finished.status, said in finished.stderr) == (status, True), finished
    assert simulator.requests() == []


def test_the_gemini_cli_offers_no_shell_commands_unless_it_may_run_them(
    shell: Shell, gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    commands = here(("Gemini CLI", 3), addresses(gateway)).replace("--approval-mode yolo", "")
    finished = shell("", commands)
    assert finished.status == 0, finished
    [request] = simulator.requests()
    offered = {tool["name"] for tools in request.json()["tools"] for tool in tools["functionDeclarations"]}
    assert "run_shell_command" not in offered


def test_llm_is_set_up_by_a_file_and_its_keys(shell: Shell, seat: Desk, gateway: GatewayProcess) -> None:
    folder = Path(shell("", 'dirname "$(llm logs path)"').stdout.strip())
    assert folder.is_relative_to(seat.home)
    settings = here(("llm", 1), addresses(gateway))
    (folder / "extra-openai-models.yaml").write_text(settings, encoding="utf-8")
    finished = shell("", here(("llm", 2), addresses(gateway)))
    assert finished.status == 0, finished
    assert finished.stdout == "You said: Hello\n"


# SDKs without a line of code ------------------------------------------------------------------------------


def test_variables_lead_each_sdk_to_the_gateway(
    seat: Desk, simulator: SimulatorProcess, gateway: GatewayProcess
) -> None:
    """The variables are those of the page's table."""
    page = recipes.FILE.read_text(encoding="utf-8")
    variables = {
        "OPENAI_BASE_URL": f"{gateway.url}/v1",
        "ANTHROPIC_BASE_URL": gateway.url,
        "GOOGLE_GEMINI_BASE_URL": gateway.url,
    }
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)
    assert all(f"``{name}``" in page for name in (*variables, *keys))
    source = """
from anthropic import Anthropic
from google import genai
from openai import OpenAI
openai, anthropic, google = OpenAI(), Anthropic(), genai.Client()
"""
    [program] = [program for program in PROGRAMS if program.place == ("Python SDKs", 1)]
    finished = run([sys.executable, "-c", source + program.after], seat, {**variables, **keys})
    assert finished.status == 0, finished
    assert finished.stdout == program.expected
