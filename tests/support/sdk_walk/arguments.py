"""Arguments for a method of an SDK, made from its signature and type hints: the same ones at every run.

OpenAI's and Anthropic's SDKs describe what they send by typed dictionaries, literals and plain types, and
send what they are given without a look at it.  So a value of the right shape is enough: the first member of
a union, the first of the literals, one item in each list, and of a dictionary the keys that it must have.
"""

from __future__ import annotations

import builtins
import datetime
import inspect
import types as builtin_types
import typing
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, NotRequired, Required, Union, get_args, get_origin

import anthropic
import openai
from typing_extensions import get_type_hints, is_typeddict

Annotation = Any  # what a type hint is has no type of its own
Value = Any  # a value of whatever type a parameter has

MODEL: Final = "walk-model-1"
"""The model that every call names, wherever a model stands."""

FILE: Final = ("name.txt", b"bytes of a file\r\n\x00\xff", "text/plain")
QUERY: Final = {"walk": "a b/+&ü%", "twice": ["1", "2"]}
"""Query parameters that no route knows, with what an encoding may get wrong."""

OTHER_MODELS: Final = {
    "fallbacks": "the models that Anthropic itself goes over to",
    "moderation": "the model that OpenAI moderates the answer with",
    "settings": "the model that Slack's users of an organization get",
    "svg": "the model that OpenAI draws with",
}
"""Keys whose own ``model`` is a name for the upstream alone, and stays as it is (contract 5.3)."""

ODD_TEXT: Final = "odd é:1+%41"
"""What an id may be as well: what a path escapes, and what must not be escaped or read once more."""

_NOT_SENT: Final = frozenset({"extra_headers", "extra_query", "extra_body", "timeout", "self"})
_NOTHING: Final = (type(None), openai.Omit, openai.NotGiven, anthropic.Omit, anthropic.NotGiven)
_PLAIN: Final[dict[Any, Value]] = {
    int: 7,
    float: 0.5,
    bool: True,
    bytes: FILE[1],
    object: {"key": "value"},
    Any: {"key": "value"},
    dict: {"key": "value"},
    datetime.datetime: datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    datetime.date: datetime.date(2026, 1, 2),
}
_HOLDERS: Final = (Union, builtin_types.UnionType, abc.Mapping)
_DEEPEST: Final = 12


def required(method: Callable[..., Any], model: str = MODEL) -> dict[str, Value]:
    """Return the arguments that a method must have, and the model where it may have one."""
    return dict(_arguments(method, model, optional=False))


def everything(method: Callable[..., Any], model: str = MODEL) -> dict[str, Value]:
    """Return all arguments that a method may have, and query parameters beyond them."""
    found = dict(_arguments(method, model, optional=True))
    return {**found, "extra_query": QUERY} if "extra_query" in _parameters(method) else found


def _arguments(method: Callable[..., Any], model: str, *, optional: bool) -> Iterator[tuple[str, Value]]:
    hints = _hints(inspect.unwrap(getattr(method, "__func__", method)))
    for name, parameter in _parameters(method).items():
        wanted = optional or name == "model" or parameter.default is parameter.empty
        sent = name not in _NOT_SENT and parameter.kind is not parameter.VAR_KEYWORD
        if wanted and sent and not _is_not_sent(hints[name]):
            odd = optional and parameter.default is parameter.empty and hints[name] is str
            yield name, ODD_TEXT if odd else value(hints[name], name, model)


def _is_not_sent(hint: Annotation) -> bool:
    """Tell whether a parameter takes a class to read the answer into, or a function of the caller's."""
    origin: Annotation = get_origin(hint)
    if hint is type or isinstance(hint, typing.TypeVar) or origin in {type, abc.Callable}:
        return True
    return origin in _HOLDERS and any(_is_not_sent(one) for one in get_args(hint))


def _parameters(method: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(method).parameters


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Annotation]:
    return get_type_hints(function, include_extras=True)


def value(hint: Annotation, name: str, model: str = MODEL, depth: int = 0) -> Value:
    """Return a value of a type for a parameter or key of a name."""
    model = MODEL if name in OTHER_MODELS else model
    if depth > _DEEPEST:
        raise TypeError(f"{name}: {hint} has no end")
    origin: Annotation = get_origin(hint)
    args = get_args(hint)
    if hint is str:
        return model if name == "model" else f"{name}_1"
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin in {Annotated, Required, NotRequired}:
        return value(args[0], name, model, depth)
    if origin in {Union, builtin_types.UnionType}:
        return _of_union([arg for arg in args if arg not in _NOTHING], name, model, depth)
    if origin is Literal:
        return args[0]
    if is_typeddict(hint):
        return _dictionary(hint, model, depth)
    return _generic(hint, name, model, depth)


def _of_union(members: list[Annotation], name: str, model: str, depth: int) -> Value:
    if any(member is builtins.bytes for member in members):  # what a file may be
        return FILE
    if str in members:
        return value(str, name, model, depth)
    return value(members[0], name, model, depth + 1)


def _dictionary(hint: Annotation, model: str, depth: int) -> Value:
    found = {}
    for key, inner in _hints(hint).items():
        if key in hint.__required_keys__ or key == "model":
            found[key] = value(inner, key, model, depth + 1)
    return found


def _generic(hint: Annotation, name: str, model: str, depth: int) -> Value:
    origin: Annotation = get_origin(hint)
    args = get_args(hint)
    if origin in {dict, Mapping}:
        return {"key": value(args[1], name, model, depth + 1)}
    if origin is not None and len(args) == 1:  # a list of whatever name
        return [value(args[0], name, model, depth + 1)]
    raise TypeError(f"{name}: no value is known for {hint}")
