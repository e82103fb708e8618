"""No two modules import one another, be it for their types alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("mgw", "mgw_sim")
REMAINING: Final[frozenset[frozenset[str]]] = frozenset()
"""Circles that are not cut yet: this only shrinks."""

Imports = Mapping[str, set[str]]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield what a module imports, in functions and under ``TYPE_CHECKING`` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + is_package]
                source = ".".join([*above, source] if source else above)
            yield from (f"{source}.{alias.name}" for alias in node.names)
            yield source


def all_imports(files: Mapping[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """Return for each module those among ``files`` that it imports.

    :param files: the text of each module, and whether it is a package's.
    """
    return {
        module: files.keys() & set(imported_by(ast.parse(text), module, is_package=is_package)) - {module}
        for module, (text, is_package) in files.items()
    }


def circles(imports: Imports) -> set[frozenset[str]]:
    """Return the sets of modules, each of which leads to all others of its set (Tarjan's components)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(module: str) -> None:
        index[module] = lowest[module] = len(index)
        stack.append(module)
        for other in imports[module]:
            if other not in index:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], index[other])
        if lowest[module] == index[module]:
            at = stack.index(module)
            component = frozenset(stack[at:])
            del stack[at:]
            if len(component) > 1:
                found.add(component)

    for module in imports:
        if module not in index:
            visit(module)
    return found


def test_no_modules_import_one_another() -> None:
    files = {
        module_of(path): (path.read_text(encoding="utf-8"), path.name == "__init__.py")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert len(files) > 100
    found = circles(all_imports(files))
    assert found == REMAINING, [sorted(circle) for circle in found ^ REMAINING]


def test_a_circle_is_found_however_it_is_closed() -> None:
    files = {
        "p": ("", True),
        "p.a": ("from p.b import x", False),
        "p.b": ("def f():\n    from p import c", False),
        "p.c": ("if TYPE_CHECKING:\n    from .a import y", False),
        "p.d": ("import p.a", False),
        "p.e": ("from p import e", False),
    }
    assert circles(all_imports(files)) == {frozenset({"p.a", "p.b", "p.c"})}
