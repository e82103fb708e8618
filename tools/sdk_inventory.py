"""What an installed SDK offers, read from its source: methods, paths, models, and kinds of events and items.

Nothing is imported, so that versions of two environments can be compared, and a version that breaks something
can still be read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

_SENDING: Final = ("_get", "_post", "_put", "_patch", "_delete", "_get_api_list")
_GENERATED_PATH: Final = re.compile(r'method="([A-Z]+)",\s+path="([^"]+)"')
_FORMATTED_PATH: Final = re.compile(r"(?:path|_PATH) = '([^']*[a-zA-Z][^']*)'")
_TAGS: Final = frozenset({"type", "event_type"})
_TWINS: Final = ("Async", "WithRawResponse", "WithStreamingResponse")
"""What a class has in its name that has the methods of another one in another form."""


class Inventory(Struct, frozen=True):
    """What one SDK offers; each is what a client can send or receive."""

    methods: frozenset[str]
    paths: frozenset[str]
    """``POST /v1/files/{}``; without the method where the SDK names it elsewhere."""
    models: frozenset[str]
    kinds: frozenset[str]
    """Values of ``type`` and ``event_type``: of events, blocks, items and tools."""


def inventory(package: Path) -> Inventory:
    """Return what the SDK in a folder offers."""
    methods: set[str] = set()
    paths: set[str] = set()
    models: set[str] = set()
    kinds: set[str] = set()
    for file in sorted(package.rglob("*.py")):
        if "tests" in file.relative_to(package).parts:
            continue
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        methods.update(_methods(tree, _place(file, package)))
        paths.update((*sent_paths(tree), *_written_paths(text)))
        kinds.update(_kinds(tree))
        if "model" in file.stem:
            models.update(_aliases(tree))
    return Inventory(frozenset(methods), frozenset(paths), frozenset(models), frozenset(kinds))


def shape(path: str) -> str:
    """Return a path with ``{}`` for whatever a client fills in, and without its query."""
    return re.sub(r"\{[^}]*\}", "{}", path).partition("?")[0]


def sent_paths(tree: ast.AST) -> Iterator[str]:
    """Yield the method and the path of each call that sends a request, as OpenAI and Anthropic write them."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        first = node.args[0]
        said = first.args[0] if isinstance(first, ast.Call) and first.args else first
        if node.func.attr in _SENDING and isinstance(said, ast.Constant) and isinstance(said.value, str):
            yield f"{_http_method(node)} {shape(said.value)}"


def _http_method(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    for keyword in call.keywords:
        if keyword.arg == "method" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value).upper()
    return call.func.attr[1:].upper().replace("GET_API_LIST", "GET")


def _written_paths(text: str) -> Iterator[str]:
    """Yield the paths of Google's SDK: the generated half names the method, too."""
    for method, path in _GENERATED_PATH.findall(text):
        yield f"{method} {shape(path.removeprefix('/{api_version}'))}"
    for path in _FORMATTED_PATH.findall(text):
        yield f"/{shape(path).lstrip('/')}"


def _place(file: Path, package: Path) -> str | None:
    """Return the resource that a module is about, by its place: ``beta.files``; ``None``: about none."""
    *folders, last = file.relative_to(package).with_suffix("").parts
    parts = folders if last == "__init__" else [*folders, last]
    if (package / "resources").is_dir():
        return ".".join(parts[1:]) if parts[:1] == ["resources"] else None
    if parts[:1] == ["_gaos"] and len(parts) > 1:
        parts = parts[1:]
    return parts[0] if len(parts) == 1 and not parts[0].startswith("_") else None


def _methods(tree: ast.Module, place: str | None) -> Iterator[str]:
    if place is None:
        return
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not any(word in node.name for word in _TWINS):
            yield from (f"{place}.{one}" for one in _public(node.body))


def _public(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
            if not is_property:
                yield node.name


def _kinds(tree: ast.AST) -> Iterator[str]:
    """Yield the literals of fields that say what kind of object this is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in _TAGS:
            yield from _literals(node.annotation)


def _aliases(tree: ast.Module) -> Iterator[str]:
    """Yield the literals of a module's type aliases."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            yield from _literals(node.value)


def _literals(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
            for one in ast.walk(node.slice):
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.value
