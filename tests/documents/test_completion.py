"""The completions work in the shells that they are for, and say what the command line takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mgw.cli.completion import FILES
from mgw.cli.main import main
from mgw.cli.parser import COMMANDS
from tests.support.shells import COMPLETIONS, OFFERED, ROOT, Terminal, is_installed
from tests.support.waiting import WAIT_SECONDS

NAMES: Final = {command.name for command in COMMANDS}
HERE: Final = {"mgw.yaml", "notes.txt"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two files."""
    folder = tmp_path_factory.mktemp("folder")
    for name in HERE:
        (folder / name).touch()
    return folder


each_shell = pytest.mark.parametrize(
    "shell",
    [
        pytest.param(name, marks=pytest.mark.skipif(not is_installed(name), reason=f"no {name} here"))
        for name in FILES
    ],
)


@each_shell
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("mgw ", NAMES),
        ("mgw che", {"check"}),
        ("mgw auth ", {"login", "import", "list", "status", "logout"}),
        ("mgw auth lo", {"login", "logout"}),
        ("mgw run ", HERE),
        ("mgw run --l", {"--log-file"}),
        ("mgw run -c m", {"mgw.yaml"}),
        ("mgw run --log-file n", {"notes.txt"}),
        ("mgw reload --t", {"--timeout"}),
        ("mgw auth login work --pa", {"--paste"}),
        ("mgw auth import work m", {"mgw.yaml"}),
        ("mgw usage --format ", {"table", "csv", "json"}),
        ("mgw usage --format=j", {"json"}),
        ("mgw usage --by cl", {"client"}),
        ("mgw routes --family g", {"gemini"}),
        ("mgw tail --kinds h", {"health"}),
        ("mgw help ta", {"tail"}),
        ("mgw completion f", {"fish"}),
        ("mgw example prom", {"prometheus-alerts.yaml"}),
        ("mgw models --key ", set()),
        ("mgw chekc ", set()),
    ],
)
def test_what_can_stand_there_is_offered(shell: str, line: str, offered: set[str], folder: Path) -> None:
    assert OFFERED[shell](line, folder) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_key_completes_the_line(shell: str, folder: Path) -> None:
    if not is_installed(shell):
        pytest.skip(f"no {shell} here")
    plain = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    begin = {"bash": "bind 'set bell-style none'", "zsh": "autoload -Uz compinit && compinit -u -D"}[shell]
    with Terminal(plain, folder, {}) as terminal:
        file = COMPLETIONS / FILES[shell]
        terminal.type(f"{begin}; . {file}; mgw() {{ printf '<%s>' \"$@\"; }}; echo rea''dy\n")
        terminal.wait_for(lambda output: "ready" in output)
        terminal.type("mgw che\tmg\t\n")
        terminal.wait_for(lambda output: "<check><mgw.yaml>" in output)


@pytest.mark.parametrize("shell", FILES)
def test_the_command_prints_what_packages_install(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == (COMPLETIONS / FILES[shell]).read_text(encoding="utf-8")


def test_the_wheel_installs_them_where_shells_look(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "install_data", f"--install-dir={tmp_path}"]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=3 * WAIT_SECONDS, check=True)
    for place in (
        "share/bash-completion/completions/mgw",
        "share/zsh/site-functions/_mgw",
        "share/fish/vendor_completions.d/mgw.fish",
    ):
        (shipped,) = COMPLETIONS.rglob(Path(place).name)
        assert (tmp_path / place).read_bytes() == shipped.read_bytes()


def test_the_debian_package_installs_them_where_shells_look() -> None:
    installed = (ROOT / "debian/mgw.install").read_text(encoding="utf-8").splitlines()
    assert "etc/completion/bash/mgw usr/share/bash-completion/completions/" in installed
    assert "etc/completion/zsh/_mgw usr/share/zsh/vendor-completions/" in installed
    assert "etc/completion/fish/mgw.fish usr/share/fish/vendor_completions.d/" in installed
