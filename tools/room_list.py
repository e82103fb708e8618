"""The list of packages and modules in ``docs/architecture.rst``, from the layers and the docstrings.

The layers are those that the import rules in ``pyproject.toml`` hold; what a module is for is the first
sentence of its docstring.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_PART: Final = re.compile(r"^\.\. rooms\n(?:.*\n)*?\.\. end of rooms$", re.MULTILINE)
_ROLE: Final = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
_WIDTH: Final = 120


def render(page: str) -> str:
    """Return the page with its list renewed."""
    lines = [".. rooms", "", *_list(), ".. end of rooms"]
    return _PART.sub(lambda _: "\n".join(lines), page)


def layers() -> list[list[str]]:
    """Return the layers from top to bottom, each with the packages and modules that stand in it."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    found = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [re.split(r" [|:] ", layer) for layer in found]


def _list() -> Iterator[str]:
    for number, layer in enumerate(layers(), start=1):
        for room in layer:
            folder = _ROOT / "mgw" / room
            is_package = folder.is_dir()
            yield f"``{room}/`` ({number})" if is_package else f"``{room}.py`` ({number})"
            purpose = _purpose(folder / "__init__.py" if is_package else folder.with_suffix(".py"))
            yield from textwrap.wrap(purpose, _WIDTH, initial_indent="    ", subsequent_indent="    ")
            yield ""
            if is_package:
                for path in sorted(folder.iterdir()):
                    yield from _module(path)
                yield ""


def _module(path: Path) -> Iterator[str]:
    is_package = (path / "__init__.py").is_file()
    if is_package or (path.suffix == ".py" and path.stem != "__init__"):
        name, file = (f"{path.name}/", path / "__init__.py") if is_package else (path.stem, path)
        text = f"- ``{name}``: {_purpose(file)}"
        yield from textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="      ")


def _purpose(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    paragraph = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
    sentence = re.split(r"(?<=\.)\s", " ".join(paragraph.split()).removesuffix("::"))[0]
    return _ROLE.sub(r"``\1``", sentence)
