r"""The shell sessions of a page: what it says to type, and what it says comes back.

A literal block with a line that begins with ``$`` is part of the page's session.  What follows such a line is
what it prints, with ``...`` for whatever comes there.  A command may go on in the next line behind ``\``.  A
block behind a paragraph that names a file is that file: "into ``mgw.yaml``" makes it, "to ``mgw.yaml``" adds
to its end.  To see what a page's session prints: ``python -m tools.pages.consoles docs/tutorial.rst``.
"""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from docutils import nodes
from docutils.core import publish_doctree

_WAIT_SECONDS: Final = 60.0
"""Long, since a busy machine is not a defect."""
ROOT: Final = Path(__file__).resolve().parents[2]
GATEWAY: Final = "8787"
SIMULATOR: Final = "8788"
_FILE: Final = re.compile(r"\b(into|to)\s([\w.-]+\.\w+)[^:]*:$", re.DOTALL)
_STARTS: Final = {"mgw run": GATEWAY, "mgw sim": SIMULATOR}
_READERS: Final = (
    "tail ",
    "grep ",
    "cat ",
    "mgw usage ",
    "curl -s 'http://127.0.0.1:8787/v1/dashboard/usage",
    "curl -s http://127.0.0.1:8787/v1/dashboard/usage",
    "curl -s http://127.0.0.1:8787/metrics",
)
"""Commands that look at what others write, which may take a moment: they are tried until it is there."""
_OVER: Final = "-- over --"


@dataclass(frozen=True)
class Written:
    """A file that the page shows, or what is to be added to it."""

    name: str
    text: str
    mode: str


@dataclass(frozen=True)
class Typed:
    """A command, and what the page says that it prints."""

    command: str
    output: str

    def fits(self, output: str) -> bool:
        """Say whether this is what the page says."""
        pieces = (re.escape(piece) for piece in self.output.strip().split("..."))
        return re.fullmatch(".*?".join(pieces), output.strip(), re.DOTALL) is not None


Step = Written | Typed


def session_of(text: str) -> list[Step]:
    """Return the steps of a page; none if it has no session."""
    steps = list(_steps(text))
    return steps if any(isinstance(step, Typed) for step in steps) else []


def _steps(text: str) -> Iterator[Step]:
    document = publish_doctree(text, settings_overrides={"report_level": 5})
    for block in document.findall(nodes.literal_block):
        before = block.previous_sibling()
        file = _FILE.search(before.astext()) if isinstance(before, nodes.paragraph) else None
        if re.match(r"\$ ", block.astext()):
            yield from _typed(block.astext())
        elif file is not None:
            yield Written(file[2], block.astext() + "\n", "w" if file[1] == "into" else "a")


def _typed(block: str) -> Iterator[Typed]:
    for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        found = re.match(r"((?:.*\\\n)*.*)\n?", piece)
        assert found is not None
        yield Typed(found[1], piece[found.end() :])


@dataclass
class Shell:
    """A shell in a folder, in which the ports of the pages stand for free ones."""

    process: subprocess.Popen[str]
    folder: Path
    ports: Mapping[str, str]

    def write(self, file: Written) -> None:
        """Write what the page shows."""
        with (self.folder / file.name).open(file.mode, encoding="utf-8") as stream:
            stream.write(self._moved(file.text))

    def type(self, command: str) -> str:
        """Run a command, and return all that it has printed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{self._moved(command)}\nprintf '\\n{_OVER}\\n'\n")
        self.process.stdin.flush()
        lines = list(iter(self.process.stdout.readline, f"{_OVER}\n"))
        assert self.process.poll() is None, lines
        self._wait_for_start(command)
        output = "".join(lines)
        for shown, port in self.ports.items():
            output = output.replace(port, shown)
        return output.strip()

    def run(self, step: Typed) -> str:
        """Run a step; one that reads, until it prints what it should."""
        last = time.monotonic() + _WAIT_SECONDS
        output = self.type(step.command)
        while step.command.startswith(_READERS) and not step.fits(output) and time.monotonic() < last:
            output = self.type(step.command)
        return output

    def _moved(self, text: str) -> str:
        for shown, port in self.ports.items():
            text = text.replace(shown, port)
        return text

    def _wait_for_start(self, command: str) -> None:
        for start, port in _STARTS.items():
            if command.startswith(start) and command.endswith("&"):
                _wait_until(partial(_answers, int(self.ports[port])), f"{start} to listen")


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    last = time.monotonic() + _WAIT_SECONDS
    while not condition():
        if time.monotonic() > last:
            raise TimeoutError(f"{what} took longer than {_WAIT_SECONDS:.0f} s")
        time.sleep(0.005)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports() -> dict[str, str]:
    """Choose ports that no test gets which asks for any."""
    chosen = iter(random.sample(range(20000, 30000), 100))
    free = (str(port) for port in chosen if not _answers(port))
    return {GATEWAY: next(free), SIMULATOR: next(free)}


@contextmanager
def open_shell() -> Iterator[Shell]:
    """Open a shell in a new folder; at the end, all that runs in it is stopped."""
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with TemporaryDirectory(prefix="mgw-console-") as name:
        process = subprocess.Popen(
            ["bash"],  # noqa: S607  # the one that a reader has
            cwd=name,
            env={**environ, "HOME": name, "XDG_STATE_HOME": name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        shell = Shell(process, Path(name), _free_ports())
        try:
            shell.type("set -m")
            yield shell
        finally:
            process.communicate("jobs -p | xargs -r kill 2>/dev/null; wait", timeout=_WAIT_SECONDS)


def start_demo(shell: Shell) -> None:
    """Start what ``make run`` starts."""
    demo = (ROOT / "etc/mgw-demo.yaml").read_text(encoding="utf-8")
    shell.write(Written("mgw-demo.yaml", demo, "w"))
    shell.type("mgw run -c mgw-demo.yaml --demo > demo.txt 2>&1 &")
    said = shell.folder / "demo.txt"
    _wait_until(lambda: "The gateway is running" in said.read_text(encoding="utf-8"), "the demo")


def play(steps: list[Step]) -> Iterator[tuple[Typed, str]]:
    """Go through a session; yield each command with what it has printed."""
    commands = [step.command for step in steps if isinstance(step, Typed)]
    with open_shell() as shell:
        if any(GATEWAY in command for command in commands) and not any(map(_starts_gateway, commands)):
            start_demo(shell)
        for step in steps:
            if isinstance(step, Written):
                shell.write(step)
            else:
                yield step, shell.run(step)


def _starts_gateway(command: str) -> bool:
    return command.startswith("mgw run")


if __name__ == "__main__":
    for typed, printed in play(session_of(Path(sys.argv[1]).read_text(encoding="utf-8"))):
        mark = "" if typed.fits(printed) else "   <-- not what the page says"
        sys.stdout.write(f"$ {typed.command}{mark}\n{printed}\n")
