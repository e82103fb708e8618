"""Blocks of commands in the pages are run, or say why not, and all that they call is there."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.commands import run_mgw
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import start_simulator
from tests.support.waiting import WAIT_SECONDS, wait_until
from tools.pages.commands import CommandBlock, command_blocks, is_commands, is_run, mistake_in

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [*sorted(ROOT.glob("*.rst")), *sorted((ROOT / "docs").rglob("*.rst"))]
KEY: Final = "a-key-of-the-gateway"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@cache
def blocks_of(page: Path) -> list[CommandBlock]:
    """The blocks of a page; found where a test asks, not by all who collect."""
    return command_blocks(page.read_text(encoding="utf-8"), page.name)


@each_page
def test_a_block_that_is_not_run_says_why(page: Path) -> None:
    for block in blocks_of(page):
        left_out = [words for words in block.commands if not is_run(words)]
        assert bool(left_out) == bool(block.reason), (
            f"begin its commands with $, or put behind it: .. not run: REASON\n{block.text}\n{left_out}"
        )


@each_page
def test_all_that_a_block_calls_is_there(page: Path) -> None:
    for block in blocks_of(page):
        assert block.commands, block.text
        assert [wrong for words in block.commands if (wrong := mistake_in(words)) is not None] == []


def test_a_command_goes_on_behind_a_backslash_and_within_quotes() -> None:
    text = "a 'x\n  y' z\nb # the vendors' own\nc \\\n  d"
    assert CommandBlock("page", text, "").commands == [["a", "x\n  y", "z"], ["b"], ["c", "d"]]


def test_the_pages_have_a_good_many_blocks() -> None:
    assert sum(len(blocks_of(page)) for page in PAGES) > 30


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


def has_table(database: Path) -> bool:
    """Whether the gateway's thread has made it."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM usage_events").fetchone() is not None
    except sqlite3.Error:
        return False


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    database = tmp_path_factory.mktemp("usage") / "usage.db"
    with start_simulator() as simulator:
        config = f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: any}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: any}}
  gem: {{kind: gemini, base_url: "{simulator.url}/v1beta", api_key: any}}
aliases: {{claude: claude/claude-sonnet-5}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
hooks: {{sqlite: {{path: {database}}}}}
"""
        with start_gateway(config) as gateway:
            wait_until(lambda: has_table(database), "the table in the file")
            yield Place(gateway, database)


def run(command: list[str], place: Place, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a command of a page, its names replaced."""
    if command[0] == "mgw":
        if command[1] in ("check", "models", "usage", "requests") and not {"-c", "--database"} & set(command):
            command = [*command, "-c", str(place.gateway.config_file)]
        return run_mgw(command[1:], folder=folder)
    return subprocess.run(
        [*command, *(["--fail-with-body", "--silent"] if command[0] == "curl" else [])],
        cwd=folder,
        capture_output=True,
        timeout=WAIT_SECONDS,
        check=False,
        env={**os.environ, "no_proxy": "*"},
    )


@each_page
def test_the_commands_of_blocks_succeed(
    request: pytest.FixtureRequest, page: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    commands = [words for block in blocks_of(page) for words in block.commands if is_run(words)]
    missing = {words[0] for words in commands if words[0] != "mgw" and shutil.which(words[0]) is None}
    for words in commands:
        if words[0] in missing:
            continue
        place: Place = request.getfixturevalue("place")
        done = run([place.of(word) for word in words], place, tmp_path_factory.mktemp("folder"))
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        if words[0] == "curl":
            assert b"You said: Hello" in done.stdout, words
    if missing:
        pytest.skip(f"{missing} are not there")


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
