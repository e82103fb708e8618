"""Shells that complete: what each offers behind a line, with the completion that mgw has for it."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

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
