"""The completions work in the shells that they are for, and say what the command line takes."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from mgw.cli.completion import FILES
from mgw.cli.main import main
from mgw.cli.parser import COMMANDS
from tests.support.waiting import WAIT_SECONDS

ROOT: Final = Path(__file__).resolve().parents[2]
COMPLETIONS: Final = ROOT / "etc/completion"
_OVER: Final = "-- over --"

_BASH: Final = r"""
source "$1"
# As readline hands a line over: cut at blanks and at the signs that COMP_WORDBREAKS has.
COMP_WORDS=() word=
for ((at = 0; at < ${#2}; at++)); do
    sign=${2:at:1}
    case $sign in
        ' ') COMP_WORDS+=("$word") word= ;;
        '=') [[ -n $word ]] && COMP_WORDS+=("$word"); COMP_WORDS+=(=) word= ;;
        *) word+=$sign ;;
    esac
done
[[ -z $word && ${2: -1} == = ]] || COMP_WORDS+=("$word")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_mgw
printf '%s\n' "${COMPREPLY[@]}"
"""
_ZSH: Final = r"""
PROMPT= RPROMPT=
autoload -Uz compinit && compinit -u -D
source "$COMPLETION"
compadd() {
    local -a found
    builtin compadd -O found "$@"
    print -rl -- $found >> $OUTPUT
    builtin compadd "$@"
}
finish() { print -r -- "-- over --" >> $OUTPUT; BUFFER= }
zle -N finish
bindkey '^O' finish
zle-line-init() { print -r -- ready >> $OUTPUT }
zle -N zle-line-init
"""


def _bash(line: str, folder: Path) -> set[str]:
    command = ["bash", "--norc", "--noprofile", "-c", _BASH, "bash", str(COMPLETIONS / "bash/mgw"), line]
    return _lines(_run(command, folder))


def _fish(line: str, folder: Path) -> set[str]:
    file = COMPLETIONS / "fish/mgw.fish"
    script = f"source {shlex.quote(str(file))}; complete -C {shlex.quote(line)}"
    option, _, _ = line.rpartition("=")
    option = option.rpartition(" ")[2]
    found = {each.partition("\t")[0] for each in _lines(_run(["fish", "--no-config", "-c", script], folder))}
    return {each.removeprefix(f"{option}=") for each in found}


def _zsh(line: str, folder: Path) -> set[str]:
    settings = folder.parent / f"{folder.name}-zsh"
    settings.mkdir(exist_ok=True)
    (settings / ".zshrc").write_text(_ZSH, encoding="utf-8")
    output = settings / "output"
    output.unlink(missing_ok=True)
    environ = {"ZDOTDIR": str(settings), "OUTPUT": str(output), "COMPLETION": str(COMPLETIONS / "zsh/_mgw")}

    def has(text: str) -> Callable[[str], bool]:
        return lambda _: output.exists() and text in output.read_text(encoding="utf-8")

    with Terminal(["zsh", "-i"], folder, environ) as terminal:
        terminal.wait_for(has("ready"))
        terminal.type(line + "\t\x0f")
        terminal.wait_for(has(_OVER))
    return _lines(output.read_text(encoding="utf-8")) - {"ready", _OVER}


OFFERED: Final[Mapping[str, Callable[[str, Path], set[str]]]] = MappingProxyType(
    {"bash": _bash, "fish": _fish, "zsh": _zsh}
)
"""By shell: what it offers behind a line."""


def is_installed(shell: str) -> bool:
    """Say whether there is such a shell."""
    return shutil.which(shell) is not None


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.stderr == ""
    return done.stdout


def _lines(text: str) -> set[str]:
    return {line.rstrip() for line in text.splitlines() if line.strip()}


class Terminal:
    """A program in a terminal."""

    def __init__(self, command: list[str], folder: Path, environ: Mapping[str, str]) -> None:
        self.output = ""
        pid, self._terminal = pty.fork()
        if not pid:
            os.chdir(folder)
            os.execvpe(command[0], command, {**os.environ, "TERM": "dumb", "HOME": str(folder), **environ})
        self._pid = pid

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._terminal, keys.encode())

    def wait_for(self, condition: Callable[[str], bool]) -> None:
        """Wait until a condition on all that it has shown is true."""
        end = time.monotonic() + WAIT_SECONDS
        while not condition(self.output):
            assert time.monotonic() < end, self.output
            if select.select([self._terminal], [], [], 0.05)[0]:
                self.output += os.read(self._terminal, 65536).decode(errors="replace")


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
