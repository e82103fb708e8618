"""Find every public method of an SDK's client, in its resources and theirs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

from google.genai._api_module import BaseModule
from google.genai._gaos.basesdk import BaseSDK
from google.genai.chats import Chats

Method = Callable[..., Any]

PLUMBING: Final = {
    "with_raw_response": "the same methods with another answer type",
    "with_streaming_response": "the same methods with another answer type",
    "aio": "the asynchronous twins of the same methods",
    "do_request": "what Google's generated resources send every request with",
    "parent_ref": "a resource's way back to its client",
    "sdk_configuration": "settings",
}
"""Public names that are no methods of a resource, each with the reason."""

_RESOURCE_MODULES: Final = ("openai.resources.", "anthropic.resources.")


def methods(client: Any) -> dict[str, Method]:
    """Return all methods of a client's resources by dotted name; those of the client itself are transport."""
    found: dict[str, Method] = {}
    with warnings.catch_warnings(action="ignore"):  # Google's SDK warns of what it calls experimental
        for name, resource in _resources(client):
            found |= {f"{name}.{key}": value for key, value in _members(resource) if inspect.isroutine(value)}
    return dict(sorted(found.items()))


def _resources(owner: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in _members(owner):
        if _is_resource(value):
            yield prefix + key, value
            yield from _resources(value, f"{prefix}{key}.")


def _members(owner: Any) -> Iterator[tuple[str, Any]]:
    for key in sorted(dir(owner)):
        if not key.startswith("_") and key not in PLUMBING:
            yield key, getattr(owner, key)


def _is_resource(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.startswith(_RESOURCE_MODULES) or isinstance(value, BaseModule | BaseSDK | Chats)
