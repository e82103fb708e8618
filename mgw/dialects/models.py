"""Find the row that describes a model.

The operator's rows (``translation.models``) come first, then the shipped ones, the more specific before the
general, then the fallback of the family, which is a safe guess for a model that is newer than the table.
Vendors and clouds write one model's id in several ways; what they put before its name does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from msgspec import UNSET, Struct, UnsetType, defstruct, structs

from mgw.config.translation import ModelRowSettings
from mgw.dialects.model_rows import FALLBACKS, ROWS
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family

OPERATOR: Final = "translation.models"
"""The ``source`` of a row that the operator changed."""

_CACHED: Final = 1024  # model names come from clients, so what is remembered is bounded
_BEFORE_THE_NAME: Final = re.compile(r"(?:[a-z]{2,6}(?:-gov)?\.)?(?:anthropic|openai|google)\.|ft:")
_MATCH_ONLY: Final = frozenset({"match", "family"})


def bare_model(model: str) -> str:
    """Return the model's name alone, in lower case.

    Cut off are paths (``models/``, ``publishers/google/models/``, ``anthropic/``, the resource of a Bedrock
    address), Bedrock's vendor and region (``us.anthropic.``), and the ``ft:`` of OpenAI's fine-tuned models,
    which take what the model takes that they were made from.  ``claude-opus-4.6`` becomes
    ``claude-opus-4-6``, as Anthropic spells it.
    """
    name = model.lower().rpartition("/")[2]
    before = _BEFORE_THE_NAME.match(name)
    if before is not None:
        name = name[before.end() :]
    return name.replace(".", "-") if name.startswith("claude-") else name


T = TypeVar("T", bound=Struct)


def _with_columns(row: type[T]) -> type[T]:
    """Add each column of the table of models, which need not be stated."""
    hints = get_type_hints(ModelRow)
    columns = [
        (name, hints[name] | UnsetType, UNSET)
        for name in ModelRow.__struct_fields__
        if name not in {"match", "family", "source"}
    ]
    made: type[T] = defstruct(row.__name__, columns, bases=(row,), frozen=True, module=__name__)  # type: ignore[assignment]  # a subclass
    made.__doc__ = row.__doc__
    return made


@_with_columns
class OverrideRow(Struct, frozen=True):
    """A row of the operator's: what it states goes before the shipped row, the rest is inherited."""

    match: str
    """A glob for the bare model id, or for the id as it is sent upstream."""
    family: Family | None = None
    """``None``: of any family."""

    if TYPE_CHECKING:

        def __init__(self, match: str, family: Family | None = None, **columns: Any) -> None: ...


class Models:
    """The rows of one configuration; immutable but for what it remembers of earlier questions."""

    def __init__(self, extra: Iterable[OverrideRow] = ()) -> None:
        self._extra = tuple(extra)
        self._found = lru_cache(maxsize=_CACHED)(self._find)

    def row(self, model: str, family: Family) -> ModelRow:
        """Return what is known of ``model`` at a provider of ``family``; there is always a row."""
        return self._found(model, family)

    def _find(self, model: str, family: Family) -> ModelRow:
        name = bare_model(model)
        shipped = _shipped(name, family)
        for override in self._extra:
            if override.family in {None, family} and _matches(override.match, name, model):
                return _merged(shipped, override)
        return shipped


def _shipped(name: str, family: Family) -> ModelRow:
    for row in ROWS:
        if row.family is family and fnmatchcase(name, row.match):
            return row
    return FALLBACKS[family]


def _matches(pattern: str, name: str, model: str) -> bool:
    lowered = pattern.lower()
    return fnmatchcase(name, lowered) or fnmatchcase(model.lower(), lowered)


def _merged(shipped: ModelRow, override: OverrideRow) -> ModelRow:
    stated = {
        name: value
        for name, value in structs.asdict(override).items()
        if value is not UNSET and name not in _MATCH_ONLY
    }
    return structs.replace(shipped, match=override.match, source=OPERATOR, **stated)


def override_of(row: ModelRowSettings) -> OverrideRow:
    """Say an operator's row to the table of models, where what is not stated is inherited."""
    stated = {name: value for name, value in row if value is not None}
    for name in ("budget", "default", "max_output"):  # false there says that it takes none, or is unknown
        if stated.get(name) is False:
            stated[name] = None
    return OverrideRow(**stated)
