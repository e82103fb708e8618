"""The rows of the table of models: the gateway's own, and those of an operator made from the same columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from msgspec import UNSET, Struct, UnsetType, defstruct

from mgw.model_row import ModelRow
from mgw.vocabulary import ChatTools, Family, ForcedTools

__all__ = ["ChatTools", "ForcedTools", "ModelRow", "OverrideRow"]

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
