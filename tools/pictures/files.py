"""The one table of the drawings: what ``docs/images`` has, and what draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tools.pictures import overview

PICTURES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType({"overview": overview.render})
"""A function for each file, by its name without ``.svg``; it returns the file's text."""
