"""One call of a method: with what, and what to do with what it returns so that its requests are sent."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.sdk_walk.arguments import everything, required
from tests.support.sdk_walk.methods import Method

Arguments = Mapping[str, Any]


def finish(result: Any) -> None:
    """Send what a returned object has only promised to send, and give its connection back."""
    if isinstance(result, contextlib.AbstractContextManager):
        with result:
            return
    if inspect.isgenerator(result):
        next(result, None)
    if callable(close := getattr(result, "close", None)):
        close()


@dataclass(frozen=True)
class Case:
    """Arguments for one call; they are made anew for each, since a file can be read once only."""

    name: str
    arguments: Callable[[str], Arguments]
    """Takes the model's name."""
    then: Callable[[Any], object] = finish


def plain_cases(method: Method) -> Iterator[Case]:
    """Yield the cases of a method that its signature tells all about."""
    yield Case("required", lambda model: required(method, model))
    yield Case("everything", lambda model: everything(method, model))
    if "stream" in inspect.signature(method).parameters:
        yield Case("stream", lambda model: required(method, model) | {"stream": True})
