"""The commands in the pages: which are run as sessions, which are not and why, and what each line calls.

A literal block that begins with ``$`` is a session, which :mod:`tools.pages.consoles` runs.  Of other
blocks the commands that need nothing but a gateway are run one by one.  A block with a command that is not
has a comment behind it, ``.. not run: REASON``.  All lines are looked at: programs and options that are ours
have to exist, as do the targets of ``make``, the units of systemd, and what ``curl`` asks for.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from docutils import nodes
from docutils.core import publish_doctree

from mgw.app.daemon import Options as GatewayOptions
from mgw.cli.parser import build_parser
from mgw.nouns.errors import GatewayError
from mgw.routing.match import RouteTable
from mgw.routing.routes import ROUTES
from mgw_sim.daemon import Options as SimulatorOptions

ROOT: Final = Path(__file__).resolve().parents[2]
SHELLS: Final = {"shell", "sh", "bash", "console"}
_PREFIXES: Final = ("sudo", "systemd-run", "env", "exec", "export")
FOREIGN: Final = frozenset(
    """
    aider apt apt-get az cat certbot chmod chown claude codex cp docker echo editor gcloud gemini git grep
    haproxy helm install journalctl jq kill kubectl llm mkdir nginx npm openssl pip printf podman promtool
    psql redis-cli redis-server sha256sum skopeo sqlite3 tail
    """.split()  # noqa: SIM905
)
"""Programs of others that pages name; a test can say nothing of their options."""
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_CALLED: Final = re.compile(r"[A-Za-z_]\w*=\S*\$\(|\.{1,2}/\S+$")
_SHIPPED: Final = re.compile(r"(bench|docs|etc|tests|tools)/[^*]+$")
_PIPES: Final = re.compile(r"[|&;<>]+")


@dataclass(frozen=True)
class CommandBlock:
    """A block of commands that is no session."""

    page: str
    text: str
    reason: str
    """Why it is not run; empty where the page does not say."""

    @property
    def commands(self) -> list[list[str]]:
        """Return the words of each command, without prompts, comments, variables and redirections."""
        found = (list(_parts(line)) for line in _lines(self.text))
        return [words for parts in found for words in parts if words]


def command_blocks(text: str, page: str) -> list[CommandBlock]:
    """Return the blocks of commands of a page that are not part of its session."""
    document = publish_doctree(text, settings_overrides={"report_level": 5})
    return [
        CommandBlock(page, block.astext(), _reason_behind(block))
        for block in document.findall(nodes.literal_block)
        if is_commands(block.astext(), set(block["classes"])) and not block.astext().startswith("$ ")
    ]


def is_commands(text: str, classes: set[str]) -> bool:
    """Say whether a literal block is something to type into a shell."""
    if "code" in classes:
        return bool(classes & SHELLS)
    first = (text.split() or [""])[0]
    return (
        first in {*FOREIGN, *_OURS, *_PREFIXES, "$"}
        or re.match(r"[A-Za-z_]\w*=\S*\$\(|\.{1,2}/\S+$", first) is not None
    )


def _reason_behind(block: nodes.literal_block) -> str:
    behind = block.next_node(descend=False, siblings=True)
    if not isinstance(behind, nodes.comment):
        return ""
    found = re.match(r"not run: (.+)", behind.astext(), re.DOTALL)
    return found[1].strip() if found else ""


def _lines(text: str) -> Iterator[str]:
    """Yield commands, each with the lines that it goes on in: after a backslash, or within quotes."""
    held: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        held.append(line)
        if re.sub(r"(?m)(?<!\S)#.*", "", "\n".join(held)).count("'") % 2 == 0:  # not those of comments
            yield "\n".join(held)
            held = []
    yield from held


def _parts(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    after_redirection = False
    for word in lexer:
        if _PIPES.fullmatch(word):
            after_redirection = word[0] in "<>"
            if not after_redirection:
                yield words
                words = []
        elif after_redirection:
            after_redirection = False
        else:
            words.append(word)
    yield words


# What is wrong with a command -----------------------------------------------------------------------------


def mistake_in(words: list[str]) -> str | None:
    """Return what is wrong with a command, or None."""
    gone = [word for word in words if _SHIPPED.match(word) and not (ROOT / word).exists()]
    if gone:
        return f"there is no {gone}"
    while words and (_ASSIGNED.match(words[0]) or words[0] == "export"):
        words = words[1:]
    if not words:
        return None
    if words[0] in ("sudo", "systemd-run"):
        names = [at for at, word in enumerate(words) if at and word in _OURS and words[at - 1] != "-u"]
        return mistake_in(words[names[0] :]) if names else None
    check = _OURS.get(words[0])
    if check is not None:
        return check(words[1:])
    return None if words[0] in FOREIGN else f"no program is named {words[0]}"


def _mgw(words: list[str]) -> str | None:
    parser = build_parser(words[0] if words else "")
    return _refused(parser, words)


def _refused(parser: argparse.ArgumentParser, words: list[str]) -> str | None:
    try:
        parser.parse_args(words)
    except SystemExit as end:
        return f"mgw refuses {' '.join(words)}" if end.code else None
    return None


def _make(words: list[str]) -> str | None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    wrong = [word for word in words if not _ASSIGNED.match(word) and word not in targets]
    return f"the Makefile has no {wrong}" if wrong else None


def _python(words: list[str]) -> str | None:
    if words[:1] != ["-m"]:
        return f"python {words}: only modules are known"
    spec = find_spec(words[1])
    if spec is None or spec.origin is None:
        return f"there is no module {words[1]}"
    if not words[1].startswith(("bench", "mgw", "tests", "tools")):
        return None
    origin = Path(spec.origin)
    files = origin.parent.glob("*.py") if origin.name == "__init__.py" else [origin]
    source = "".join(file.read_text(encoding="utf-8") for file in files)
    options = [word for word in words[2:] if word.startswith("--")]
    wrong = [word for word in options if not re.search(f'"(--)?{word[2:]}"', source)]
    return f"{words[1]} has no {wrong}" if wrong else None


def _twistd(words: list[str]) -> str | None:
    plugins: dict[str, Any] = {"mgw": GatewayOptions, "mgw-sim": SimulatorOptions}
    own = list(takewhile(lambda word: word not in plugins, words))
    if len(own) == len(words):
        return "twistd runs nothing of ours"
    options = plugins[words[len(own)]]()
    try:
        options.parseOptions(words[len(own) + 1 :])
    except Exception as error:
        return str(error)
    return None


def _systemctl(words: list[str]) -> str | None:
    verbs = {"daemon-reload", "disable", "edit", "enable", "reload", "restart", "start", "status", "stop"}
    named = [word for word in words if not word.startswith("-")]
    if named[0] not in verbs:
        return f"systemctl has no {named[0]}"
    units = [word if "." in word else f"{word}.service" for word in named[1:] if word.startswith("mgw")]
    wrong = [unit for unit in units if not (ROOT / "debian" / unit).is_file()]
    return f"the package has no {wrong}" if wrong else None


def _curl(words: list[str]) -> str | None:
    paths = [urlsplit(word).path for word in words if word.startswith("http")]
    if not paths:
        return "curl has no address"
    wrong = [path for path in paths if path.startswith("/v1") and not _is_served(path)]
    return f"nothing serves {wrong}" if wrong else None


def _is_served(path: str) -> bool:
    try:
        RouteTable(ROUTES).match("POST", path, None, [])
    except GatewayError:
        return False
    return True


_OURS: Final[dict[str, Callable[[list[str]], str | None]]] = {
    "mgw": _mgw,
    "make": _make,
    "python": _python,
    "twistd": _twistd,
    "systemctl": _systemctl,
    "curl": _curl,
}


# What is run ----------------------------------------------------------------------------------------------

_THAT_END: Final = {"--version", "check", "example", "models", "routes", "schema", "usage", "requests"}


def is_run(words: list[str]) -> bool:
    """Say whether a command outside of sessions is run: it ends, and needs no more than a gateway."""
    return words[0] in ("curl", "sqlite3") or (words[0] == "mgw" and set(words[1:2]) <= _THAT_END)
