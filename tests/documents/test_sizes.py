"""Sizes of the code: a function fits on a screen, a module has one idea, parameters are few."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

MAX_FUNCTION_LINES: Final = 40
MAX_MODULE_LINES: Final = 450
MAX_PARAMETERS: Final = 6
ROOT: Final = Path(__file__).parents[2]
FILES: Final = sorted(path for room in ("mgw", "mgw_sim") for path in (ROOT / room).rglob("*.py"))


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, name: str = "") -> Iterator[tuple[str, _Function]]:
    """Yield each function below a node, and its dotted name."""
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, _Function | ast.ClassDef):
            inner = f"{name}.{child.name}".lstrip(".")
        if isinstance(child, _Function):
            yield inner, child
        yield from functions(child, inner)


def all_functions() -> Iterator[tuple[str, _Function]]:
    for path in FILES:
        for name, function in functions(ast.parse(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(ROOT)}: {name}", function


def lines_of(function: _Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def parameters_of(function: _Function) -> int:
    said = function.args
    places = [*said.posonlyargs, *said.args]
    is_method = places[:1] != [] and places[0].arg in ("self", "cls")
    return len(places) + len(said.kwonlyargs) - is_method


def larger_than(limit: int, sizes: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size > limit}


def test_a_function_fits_on_a_screen() -> None:
    found = larger_than(MAX_FUNCTION_LINES, {name: lines_of(function) for name, function in all_functions()})
    assert found == {}


def test_a_module_can_be_read_at_once() -> None:
    sizes = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in FILES}
    found = larger_than(MAX_MODULE_LINES, sizes)
    assert found == {}


def test_no_function_takes_a_row_of_parameters() -> None:
    found = {name: parameters_of(function) for name, function in all_functions()}
    assert larger_than(MAX_PARAMETERS, found) == {}
