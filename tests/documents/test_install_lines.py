"""What readers are to install is this project's distribution: on PyPI, ``mgw`` is somebody else's.

A line with ``pip install`` may name this distribution with extras that ``setup.py`` has, the folder of the
sources, a file that was built of it, or somebody else's package.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from mgw import DISTRIBUTION
from mgw.config.extras import pip_install
from tools.release_trial import EXTRAS as TRIED

ROOT: Final = Path(__file__).resolve().parents[2]
NOT_OURS: Final = "mgw"
_COMMAND: Final = re.compile(r"\bpip3?\s+install\b|\$\(PIP\)")
_BLANKS: Final = re.compile(r"[ \t]+")
_WRAPPED: Final = re.compile(r"[ \t]*\\?\n[ \t]*(?:(?:#|//|\*)[ \t]*)?")
"""The line ends before anything is named: prose that is wrapped, or a backslash."""
_WORD: Final = re.compile(r"""'([^'\n]*)'|"([^"\n]*)"|([^\s`'";()|&<>]+)""")
_TAKES_A_VALUE: Final = frozenset(
    {"-c", "--constraint", "-r", "--requirement", "-i", "--index-url", "-t", "--target", "--python"}
    | {"--config-settings"}
)
_FILE: Final = re.compile(r"(?P<path>[^\[\]]*(?:/|\.whl|\.tar\.gz)[^\[\]]*|\.)(?:\[(?P<extras>[^\]]*)\])?")
_VARIABLE: Final = re.compile(r"[${}@]")
_LITERAL_EXTRAS: Final = re.compile(r"(?<![\w.-])(mgw(?:[-_]gateway)?\[[a-z][a-z,-]*\])")
_BUILT: Final = re.compile(r"(?<![\w-])mgw-(?:\d|VERSION|\{version\}|\*|\$)[^\s`'\"]*(?:\.whl|\.tar\.gz)")


def tracked_texts() -> dict[str, str]:
    """Return the text of every file in the repository that is no image or font; skips without Git."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a clone, or git is not installed")
    texts = {}
    for name in filter(None, done.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if b"\0" not in content:
                texts[name] = content.decode("utf-8", "replace")
    return texts


def named_in(text: str) -> Iterator[str]:
    """Yield each word that a ``pip install`` in this text would install."""
    for command in _COMMAND.finditer(text):
        yield from _named(text, command.end())


def mistakes_in(text: str, distribution: str, extras: set[str]) -> list[str]:
    """Return what is wrong with the names in this text."""
    words = [*named_in(text), *_LITERAL_EXTRAS.findall(text)]
    found = [wrong for word in words if (wrong := _mistake(word, distribution, extras)) is not None]
    return [*found, *(f"{name} is not the name of a file that is built" for name in _BUILT.findall(text))]


def _named(text: str, at: int) -> Iterator[str]:
    is_value = has_named = False
    while True:
        if blanks := _BLANKS.match(text, at):
            at = blanks.end()
        if not has_named and (wrapped := _WRAPPED.match(text, at)):
            at = wrapped.end()
        word = _WORD.match(text, at)
        if word is None:
            return
        at, value = word.end(), next(filter(None, word.groups()), "").rstrip(".,:") or "."
        if not is_value and not value.startswith("-"):
            has_named = True
            yield value
        is_value = value in _TAKES_A_VALUE and not is_value
        if text[at : at + 1] not in (" ", "\t", "\n", "\\"):
            return


def _mistake(word: str, distribution: str, extras: set[str]) -> str | None:
    if local := _FILE.fullmatch(word):
        name = local["path"].rpartition("/")[2]
        if name.startswith("mgw") and not name.startswith(distribution.replace("-", "_")):
            return f"{word}: files of {distribution} have another name"
        return _unknown(word, set(filter(None, (local["extras"] or "").split(","))), extras)
    if _VARIABLE.search(word):
        return None
    try:
        wanted = Requirement(word)
    except InvalidRequirement:
        return f"{word}: cannot be read" if NOT_OURS in word else None
    name = canonicalize_name(wanted.name)
    if name == distribution:
        return _unknown(word, wanted.extras, extras)
    return f"{word}: the distribution is {distribution}" if name.startswith(NOT_OURS) else None


def _unknown(word: str, asked: set[str], extras: set[str]) -> str | None:
    return f"{word}: setup.py has no such extra" if asked - extras - {"..."} else None


HERE: Final = str(Path(__file__).resolve().relative_to(ROOT))
NAME: Final = "mgw-gateway"
SOME: Final = {"redis", "otlp"}


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:  # Any: what setup() is given
    """What ``setup.py`` says of the distribution."""
    said: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("setuptools.setup", lambda **given: said.update(given))
        path = ROOT / "setup.py"
        exec(compile(path.read_text(encoding="utf-8"), path, "exec"), {"__file__": str(path)})
    return said


def test_the_distribution_has_the_name_that_the_code_tells(declared: dict[str, Any]) -> None:
    assert declared["name"] == DISTRIBUTION == NAME


def test_no_text_tells_anybody_to_install_something_else(declared: dict[str, Any]) -> None:
    extras, found, lines = set(declared["extras_require"]), [], 0
    for name, text in tracked_texts().items():
        if name != HERE:
            lines += sum(1 for _ in named_in(text))
            found += [f"{name}: {wrong}" for wrong in mistakes_in(text, NAME, extras)]
    assert found == []
    assert lines > 15


def test_every_extra_that_is_packaged_or_tried_is_there(declared: dict[str, Any]) -> None:
    rules = (ROOT / "debian/rules").read_text(encoding="utf-8")
    packaged = set(re.findall(r"--extras (\w+)", rules))
    assert packaged
    assert packaged == set(TRIED.split(","))
    assert packaged <= set(declared["extras_require"])


def test_the_command_that_messages_show_is_one_for_a_shell() -> None:
    """Unquoted, zsh takes the brackets for a pattern."""
    assert pip_install("redis") == "pip install 'mgw-gateway[redis]'"


@pytest.mark.parametrize(
    "text",
    [
        "pip install mgw",
        "pip install 'mgw[redis]'",
        "``pip install -U\n    mgw[redis]``",
        "# needs pip install\n# mgw[redis], and more",
        "pip install \\\n    --constraint constraints.txt mgw",
        "python -m pip install mgw==0.4.0",
        "pip install MGW_gatewy",
        "pip install 'mgw-gateway[rediss]'",
        "pip install 'mgw-gateway[redis,dashbord]'",
        "pip install '.[dashbord]'",
        "$(PIP) -c constraints.txt '.[benches]'",
        "pip install dist/mgw-0.4.0-py3-none-any.whl",
        "pip install hiredis mgw",
        "default true if mgw[redis] is installed",
        "dist/mgw-VERSION.tar.gz",
        "<code>pip install mgw</code>",
    ],
)
def test_what_would_bring_a_stranger_is_found(text: str) -> None:
    assert mistakes_in(text, NAME, SOME)


@pytest.mark.parametrize(
    "text",
    [
        "pip install mgw-gateway",
        "pip install 'mgw-gateway[redis]'",
        "``pip install\n    'mgw-gateway[redis,otlp]'``",
        "pip install .",
        "pip install '.[redis]'",
        "$(PIP) -c constraints.txt '.[otlp]'",
        "pip install dist/mgw_gateway-0.4.0-py3-none-any.whl",
        "pip install bpe-openai\nmgw run",
        "pip install -r mgw-0.4.0.requirements.txt mgw_gateway",
        "pip install {TOKENIZER}",
        "pip uninstall mgw",
    ],
)
def test_what_is_ours_or_plainly_somebody_elses_is_fine(text: str) -> None:
    assert mistakes_in(text, NAME, SOME) == []
