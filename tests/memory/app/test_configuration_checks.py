"""What ``mgw check`` says of mistakes, as an operator sees it: one line for each, which says what to change.

The table is ``tests/golden/configuration-checks.txt``.  The one beside it has what the loader alone says,
with the verdict of the schema; here the environment, the warnings and the files that are named belong to it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct, field

from mgw.app.check import check, reader_of
from tests.support.known_keys import fill_in_keys

FILE: Final = Path(__file__).parents[2] / "golden" / "configuration-checks.txt"
LEAST: Final = 88
"""Mistakes that the table has to have."""
PLACE: Final = re.compile(
    r"(?:warning: )?(?:(?:mgw|prices)\.yaml:\d+: (?:[a-z_]\S*: |not YAML: |expected |the character )"
    r"|environment: [A-Z_]+: )"
)
"""File, line and setting; of a text that is not YAML, file and line."""


class Mistake(Struct):
    """One entry of the table."""

    name: str
    text: str
    said: str = ""
    encoding: str = "utf-8"
    environ: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write the configuration, and what is beside it."""
        for name in self.folders:
            (folder / name).mkdir()
        for name, content in self.files.items():
            (folder / name).write_text(content, encoding="utf-8")
        text = self.text.replace("FOLDER", str(folder))
        if self.encoding == "crlf":
            text = text.replace("\n", "\r\n")
        encoding = "utf-8" if self.encoding == "crlf" else self.encoding
        (folder / "mgw.yaml").write_bytes(text.encode(encoding))


def mistakes() -> list[Mistake]:
    """Read the table."""
    found = []
    for entry in fill_in_keys(FILE.read_text(encoding="utf-8")).split("\n=== ")[1:]:
        head, *parts = entry.split("\n--- ")
        name, _, text = head.partition("\n")
        mistake = Mistake(name, text + "\n")
        for part in parts:
            first, _, rest = part.partition("\n")
            word, _, about = first.partition(" ")
            match word:
                case "encoding":
                    mistake.encoding = about
                case "env":
                    variable, _, value = about.partition("=")
                    mistake.environ[variable] = value.encode().decode("unicode_escape")
                case "file":
                    mistake.files[about] = rest + "\n"
                case "folder":
                    mistake.folders.append(about)
                case _:
                    mistake.said = rest.rstrip("\n")
        found.append(mistake)
    return found


MISTAKES: Final = mistakes()


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_a_mistake_is_one_line_that_says_what_to_change(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mistake.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    for variable, value in {"K": "a-long-key-1", **mistake.environ}.items():
        monkeypatch.setenv(variable, value)
    check(reader_of("mgw.yaml"))
    printed = capsys.readouterr()
    warnings = [line for line in printed.out.splitlines() if line.startswith("warning: ")]
    said = "\n".join([*printed.err.splitlines(), *warnings])
    assert said.replace(str(tmp_path), "FOLDER") == mistake.said
    assert len(said.splitlines()) == 1
    assert PLACE.match(said)


def test_the_table_has_enough_of_them_and_none_twice() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= LEAST
    texts = {f"{mistake.text}{mistake.environ}{mistake.files}{mistake.encoding}" for mistake in MISTAKES}
    assert len(texts) == len(MISTAKES)
