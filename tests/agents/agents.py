"""The coding agents: how each one is pointed at a gateway, asked without a terminal, and understood.

The settings are those of docs/clients.rst.  Where an agent may ask for permission it has it beforehand: the
only tools that the simulator makes it call read a file of the test's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.agents.running import SECONDS, Desk, Finished, node, run


@dataclass(frozen=True, slots=True)
class Access:
    """A gateway, and the key that opens it."""

    url: str
    key: str


@dataclass(frozen=True, slots=True)
class Agent:
    """One coding agent.

    ``prepare`` writes its settings and returns its variables; ``arguments`` asks it for one answer;
    ``answer`` finds the answer in what it wrote; ``reading`` are its tools that read a file, with arguments.
    """

    name: str
    program: str
    prepare: Callable[[Desk, Access], Mapping[str, str]]
    arguments: Callable[[str | None, str], Sequence[str]]
    answer: Callable[[str], str]
    reading: Callable[[Path], Sequence[tuple[str, Mapping[str, str]]]]

    def ask(
        self,
        installation: Path,
        at: Desk,
        access: Access,
        model: str | None,
        prompt: str,
        seconds: float = SECONDS,
    ) -> Finished:
        """Run it for one answer; without a model it takes its own default.

        Raises: AssertionError when it takes longer than ``seconds``.
        """
        program = installation / "node_modules" / self.program
        command = [node(), str(program), *self.arguments(model, prompt)]
        return run(command, at, self.prepare(at, access), seconds)

    def please_read(self, note: Path, tools: int = 1) -> str:
        """Return the words that make the simulator call so many of the agent's tools, all at once."""
        calls = list(self.reading(note))[:tools]
        return " and ".join(f"use tool {name} with {json.dumps(arguments)}" for name, arguments in calls)


def _prepare_claude_code(at: Desk, access: Access) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": access.url,
        "ANTHROPIC_AUTH_TOKEN": access.key,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "DISABLE_AUTOUPDATER": "1",
    }


def _ask_claude_code(model: str | None, prompt: str) -> Sequence[str]:
    named = [] if model is None else ["--model", model]
    # root may not skip permissions, so they are given one by one
    return [*named, "--print", prompt, "--output-format", "json", "--allowedTools", "Read,Bash(cat:*)"]


def _ask_claude_code_again(model: str | None, prompt: str) -> Sequence[str]:
    return [*_ask_claude_code(model, prompt), "--continue"]


def _answer_of_claude_code(stdout: str) -> str:
    result: dict[str, Any] = json.loads(stdout)
    assert result["is_error"] is False, result
    return str(result["result"])


_NO_RETRIES: Final = "request_max_retries = 0\nstream_max_retries = 0"


def _prepare_codex(
    at: Desk, access: Access, settings: str = "", tables: str = "", retries: str = _NO_RETRIES
) -> Mapping[str, str]:
    folder = at.home / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(f"""
model_provider = "mgw"
check_for_update_on_startup = false
{settings}

[analytics]
enabled = false

[model_providers.mgw]
name = "mgw"
base_url = "{access.url}/v1"
env_key = "MGW_KEY"
wire_api = "responses"
{retries}
{tables}
""")
    return {"MGW_KEY": access.key}


def _ask_codex(model: str | None, prompt: str) -> Sequence[str]:
    named = [] if model is None else ["--model", model]
    unasked = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return ["exec", *named, *unasked, "--json", prompt]


def _ask_codex_again(model: str | None, prompt: str) -> Sequence[str]:
    execute, *asked = _ask_codex(model, prompt)
    return [execute, "resume", "--last", *asked]


def _answer_of_codex(stdout: str) -> str:
    """Return the last message; Codex writes one event per line."""
    events = [json.loads(line) for line in stdout.splitlines()]
    assert events[-1]["type"] == "turn.completed", events[-1]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return str([item["text"] for item in items if item["type"] == "agent_message"][-1])


def _prepare_gemini_cli(at: Desk, access: Access) -> Mapping[str, str]:
    folder = at.home / ".gemini"
    folder.mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    return {
        "GOOGLE_GEMINI_BASE_URL": access.url,
        "GEMINI_API_KEY": access.key,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _ask_gemini_cli(model: str | None, prompt: str) -> Sequence[str]:
    named = [] if model is None else ["--model", model]
    return [*named, "--prompt", prompt, "--approval-mode", "yolo", "--output-format", "json"]


def _answer_of_gemini_cli(stdout: str) -> str:
    result: dict[str, Any] = json.loads(stdout)
    assert "error" not in result, result
    return str(result["response"])


CLAUDE_CODE = Agent(
    "Claude Code",
    "@anthropic-ai/claude-code/cli-wrapper.cjs",
    _prepare_claude_code,
    _ask_claude_code,
    _answer_of_claude_code,
    lambda note: [
        ("Read", {"file_path": str(note)}),
        ("Bash", {"command": f"cat {note}", "description": "Show the note"}),
    ],
)
CLAUDE_CODE_RETRYING = replace(
    CLAUDE_CODE,
    prepare=lambda at, access: {**_prepare_claude_code(at, access), "CLAUDE_CODE_MAX_RETRIES": ""},
)
"""Claude Code, with its own default of retries."""
CLAUDE_CODE_AGAIN = replace(CLAUDE_CODE, arguments=_ask_claude_code_again)
"""Claude Code, going on with the last conversation of its desk."""
CODEX = Agent(
    "Codex",
    "@openai/codex/bin/codex.js",
    _prepare_codex,
    _ask_codex,
    _answer_of_codex,
    lambda note: [("exec_command", {"cmd": f"cat {note}"}), ("exec_command", {"cmd": f"cat < {note}"})],
)
CODEX_RETRYING = replace(CODEX, prepare=partial(_prepare_codex, retries=""))
"""Codex, with its own default of retries."""
CODEX_AGAIN = replace(CODEX, arguments=_ask_codex_again)
"""Codex, going on with the last conversation of its desk."""


def codex_with(settings: str = "", tables: str = "") -> Agent:
    """Return Codex with more in its configuration: ``settings`` before its tables, ``tables`` behind them."""
    return replace(CODEX, prepare=partial(_prepare_codex, settings=settings, tables=tables))


CODEX_OVER_WEBSOCKETS = codex_with(tables="supports_websockets = true")
"""Codex, with the setting that has it ask for a WebSocket first: it stands in the table of its provider."""
GEMINI_CLI = Agent(
    "Gemini CLI",
    "@google/gemini-cli/bundle/gemini.js",
    _prepare_gemini_cli,
    _ask_gemini_cli,
    _answer_of_gemini_cli,
    lambda note: [
        ("read_file", {"file_path": str(note)}),
        ("run_shell_command", {"command": f"cat {note}", "description": "Show the note"}),
    ],
)
