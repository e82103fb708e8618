"""Blocks of commands in the pages are run, or say why not, and all that they call is there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.command_blocks import CommandBlock, command_blocks, is_commands, is_run, mistake_in
from tests.support.commands import run_mgw
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import start_simulator
from tests.support.waiting import WAIT_SECONDS

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [*sorted(ROOT.glob("*.rst")), *sorted((ROOT / "docs").rglob("*.rst"))]
BLOCKS: Final = [
    block for page in PAGES for block in command_blocks(page.read_text(encoding="utf-8"), page.name)
]
KEY: Final = "a-key-of-the-gateway"


def name_of(block: CommandBlock) -> str:
    return f"{block.page}: {block.text.splitlines()[0][:40]}"


@pytest.mark.parametrize("block", BLOCKS, ids=name_of)
def test_a_block_that_is_not_run_says_why(block: CommandBlock) -> None:
    left_out = [words for words in block.commands if not is_run(words)]
    assert bool(left_out) == bool(block.reason), (
        f"begin its commands with $, or put behind the block of {block.page}: .. not run: REASON\n{left_out}"
    )


@pytest.mark.parametrize("block", BLOCKS, ids=name_of)
def test_all_that_a_block_calls_is_there(block: CommandBlock) -> None:
    assert block.commands
    assert [wrong for words in block.commands if (wrong := mistake_in(words)) is not None] == []


@dataclass(frozen=True)
class Place:
    """A gateway of the pages' names, and its files."""

    gateway: GatewayProcess
    database: Path

    def of(self, word: str) -> str:
        """Return what stands for a word of a page here."""
        for shown, here in (
            ("/etc/mgw.yaml", str(self.gateway.config_file)),
            ("/var/lib/mgw/usage.db", str(self.database)),
            ("http://127.0.0.1:8787", self.gateway.url),
            ("$KEY", KEY),
        ):
            word = word.replace(shown, here)
        return {"mgw.yaml": str(self.gateway.config_file), "usage.db": str(self.database)}.get(word, word)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    database = tmp_path_factory.mktemp("usage") / "usage.db"
    with start_simulator() as simulator:
        config = f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: any}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: any}}
  gem: {{kind: gemini, base_url: "{simulator.url}/v1beta", api_key: any}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
hooks: {{sqlite: {{path: {database}}}}}
"""
        with start_gateway(config) as gateway:
            yield Place(gateway, database)


@pytest.mark.parametrize(
    ("page", "words"),
    [
        pytest.param(block.page, words, id=f"{block.page}: {' '.join(words)[:60]}")
        for block in BLOCKS
        for words in block.commands
        if is_run(words)
    ],
)
def test_a_command_of_a_block_succeeds(place: Place, page: str, words: list[str], tmp_path: Path) -> None:
    if shutil.which(words[0]) is None and words[0] != "mgw":
        pytest.skip(f"{words[0]} is not there")
    command = [place.of(word) for word in words]
    if command[0] == "mgw":
        if command[1] in ("check", "models", "usage") and not {"-c", "--database"} & set(command):
            command += ["-c", str(place.gateway.config_file)]
        done = run_mgw(command[1:], folder=tmp_path)
    else:
        done = subprocess.run(
            [*command, *(["--fail-with-body", "--silent"] if command[0] == "curl" else [])],
            cwd=tmp_path,
            capture_output=True,
            timeout=WAIT_SECONDS,
            check=False,
            env={**os.environ, "no_proxy": "*"},
        )
    assert done.returncode == 0, (page, done.stdout, done.stderr)
    if command[0] == "curl":
        assert b"You said: Hello" in done.stdout


@pytest.mark.parametrize(
    "line",
    [
        "mgw rum",
        "mgw usage --buy client",
        "sudo -u mgw mgw auth logn work",
        "make bench-nothing",
        "python -m bench.nothing",
        "python -m bench.transfers --quickly",
        "twistd -n mgw --chekc",
        "twistd -n",
        "systemctl restart mgw.sockets",
        "systemctl relaod mgw",
        "curl http://127.0.0.1:8787/v1/chat/completion",
        "systemd-run -P mgw chek",
        "mgwd --version",
        "docker build -f etc/deployment/Dockerfiles .",
    ],
)
def test_what_is_not_there_is_found(line: str) -> None:
    [words] = CommandBlock("", line, "").commands
    assert mistake_in(words) is not None


def test_a_block_has_its_commands_and_its_reason() -> None:
    page = (
        "One::\n\n    export A=1\n    mgw check -c a.yaml > b && mgw \\\n        schema | cat   # this\n\n"
        ".. not run: for a reason\n\nTwo::\n\n    $ mgw schema\n\nThree::\n\n    a: 1\n\n"
        ".. code:: shell\n\n    anything\n"
    )
    [one, three] = command_blocks(page, "a.rst")
    assert one.reason == "for a reason"
    assert one.commands == [["export", "A=1"], ["mgw", "check", "-c", "a.yaml"], ["mgw", "schema"], ["cat"]]
    assert (three.text, three.reason) == ("anything", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KEY=gw-$(openssl rand -hex 24)", True),
        ("./configure", True),
        ("providers:\n  a: 1", False),
        ("/var/log/mgw/*.log {\n}", False),
        ("[Service]\nUser=mgw", False),
    ],
)
def test_commands_are_told_from_other_literal_blocks(text: str, *, expected: bool) -> None:
    assert is_commands(text, set()) is expected
