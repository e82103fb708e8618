"""Nobody reaches into another object's private names; those of Twisted stand in one package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
WITH_PRIVATE_NAMES: Final = frozenset(
    {ROOT / "mgw/reactor/twisted_fast", ROOT / "mgw/realtime/autobahn_fast.py"}
)
"""The package for Twisted's and the module for Autobahn's: they say what happens where a name is another."""
FILES: Final = sorted(
    path
    for room in ("mgw", "mgw_sim", "twisted")
    for path in (ROOT / room).rglob("*.py")
    if WITH_PRIVATE_NAMES.isdisjoint({path, *path.parents})
)
DOCUMENTED: Final = frozenset({"os._exit", "parts._replace"})
"""Public in spite of their names: see the library reference (``os``, ``collections.namedtuple``)."""
OF_THE_LIBRARY: Final = frozenset(
    {
        "action._choices_actions",
        "argparse._SubParsersAction",
        "parser._actions",
        "parser._option_string_actions",
        "zlib._Decompress",
    }
)
"""Of Python's own modules, which offer no other way."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.Module) -> set[str]:
    """Return the names that a module itself gives to something."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls"):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(ast.unparse(node.target))
    return found


def strange_names(text: str) -> Iterator[str]:
    """Yield the private names of others that a module uses."""
    tree = ast.parse(text)
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if ast.unparse(node.value) not in ("self", "cls", "super()") and node.attr not in own:
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            words = [*node.module.split("."), *(alias.name for alias in node.names)]
            if any(map(is_private, words)):
                yield f"from {node.module} import {words[-1]}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr"):
            name = node.args[1]
            if isinstance(name, ast.Constant) and is_private(str(name.value)):
                yield ast.unparse(node)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_uses_the_private_names_of_nobody_else(path: Path) -> None:
    found = set(strange_names(path.read_text(encoding="utf-8")))
    assert found - DOCUMENTED - OF_THE_LIBRARY == set()


@pytest.mark.parametrize(
    "line",
    [
        "from twisted.scripts._twistd_unix import ServerOptions",
        "from twisted.internet.tcp import _AbortingMixin",
        "reactor._poller.poll()",
        "self.server._realPortNumber",
        "self.transport._tempDataBuffer",
        "getattr(transport, '_tempDataLen', 0)",
    ],
)
def test_a_private_name_of_twisted_is_found(line: str) -> None:
    assert list(strange_names(line))
