"""Small changes to a module's source, each of which its tests should notice; :mod:`tools.mutate` tries them.

A comparison is turned, a number moved by one, a condition negated, an operand or a statement dropped, two
neighbouring arguments swapped.  Annotations, docstrings, assertions and f-strings stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

_TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OTHER: Final[dict[type[ast.operator], type[ast.operator]]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_DROPPED: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Raise, ast.Continue, ast.Break)
_LEFT_ALONE: Final = (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom, ast.arg)

_Change = Callable[[], None]


class Mutation(Struct, frozen=True):
    """One change of a module."""

    line: int
    """Where it stands in the module as it is."""
    before: str
    after: str
    source: str
    """The whole module with the change made."""


def count_mutations(source: str) -> int:
    """Return how many changes there are of a module; some of them change nothing."""
    return sum(1 for _ in _changes(ast.parse(source)))


def mutate(source: str, number: int) -> Mutation | None:
    """Make one of those changes; ``None`` where it changes nothing, as swapping two equal arguments."""
    tree = ast.parse(source)
    node, change = next(islice(_changes(tree), number, None))
    line, before = node.lineno, _shown(node)
    change()
    after = _shown(node)
    return None if after == before else Mutation(line, before, after, ast.unparse(tree))


def _shown(node: ast.stmt | ast.expr) -> str:
    """Return the first line of a piece of source: an ``if`` without what it leads to."""
    return ast.unparse(node).partition("\n")[0]


def _changes(tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, _Change]]:
    """Yield each change, and the statement or expression in which it shows."""
    for node, in_function in _walk(tree, in_function=False):
        if isinstance(node, ast.stmt):
            yield from ((node, change) for change in _of_statement(node, in_function=in_function))
        elif isinstance(node, ast.expr):
            yield from ((node, change) for change in _of_expression(node))


def _walk(node: ast.AST, *, in_function: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Walk over all that may be changed."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, _LEFT_ALONE) or _is_text(child):
                continue
            yield child, in_function
            inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _walk(child, in_function=inside)


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _of_statement(node: ast.stmt, *, in_function: bool) -> Iterator[_Change]:
    if in_function and isinstance(node, _DROPPED):
        yield lambda: _become(node, ast.Pass())
    if isinstance(node, ast.If | ast.While):
        yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))


def _of_expression(node: ast.expr) -> Iterator[_Change]:
    match node:
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                yield _setter(ops, at, _TURNED[type(op)]())
        case ast.BoolOp(values=values):
            for at in range(len(values)):
                yield _dropper(values, at)
        case ast.IfExp(body=body, orelse=orelse):
            yield lambda: node.__dict__.update(body=orelse, orelse=body)
        case ast.Constant():
            yield from _of_constant(node)
        case ast.BinOp(op=op) if type(op) in _OTHER:
            yield lambda: setattr(node, "op", _OTHER[type(op)]())
        case ast.Call():
            yield from _of_call(node)
        case _:
            pass


def _of_constant(node: ast.Constant) -> Iterator[_Change]:
    match node.value:
        case bool() as value:
            yield lambda: setattr(node, "value", not value)
        case int() | float() as number:
            yield lambda: setattr(node, "value", number + 1)
            yield lambda: setattr(node, "value", number - 1)
        case _:
            pass


def _of_call(node: ast.Call) -> Iterator[_Change]:
    if isinstance(node.func, ast.Name) and node.func.id in {"min", "max"}:
        return  # whose order changes nothing
    for at in range(len(node.args) - 1):
        yield _swapper(node.args, at)


def _setter(ops: list[ast.cmpop], at: int, new: ast.cmpop) -> _Change:
    return lambda: ops.__setitem__(at, new)


def _dropper(values: list[ast.expr], at: int) -> _Change:
    return lambda: values.__delitem__(at)


def _swapper(args: list[ast.expr], at: int) -> _Change:
    def swap() -> None:
        args[at], args[at + 1] = args[at + 1], args[at]

    return swap


def _become(node: ast.stmt, new: ast.stmt) -> None:
    """Let a node of a tree be another, at its place."""
    node.__class__ = new.__class__
    node.__dict__ = {**new.__dict__, "lineno": node.lineno, "col_offset": node.col_offset}
