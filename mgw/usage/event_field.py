"""The type of a row in the table of event fields (:mod:`mgw.usage.event`).

All fields are in the line of JSON, in the row of an SQLite file and in the dashboard's API.  Each other place
has a column here, and so has whatever those places have to know of a field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields as fields_of

FIRST_VERSION: Final = "0.4.0"
_LABELS: Final = "labels."
_SESSION: Final = "session."

Json = Mapping[str, Any]  # Any: JSON


class FieldType(StrEnum):
    """How the values of a field are written; the words are those of the documents."""

    TEXT = "text"
    TIME = "time"
    """Unix seconds; RFC 3339 in UTC where they are written."""
    WORD = "word"
    """One of a closed set."""
    COUNT = "integer"
    NUMBER = "number"
    """Written with at most three decimals."""
    MONEY = "amount"
    """Nanodollars in an exchange; dollars, exactly, where they are written."""
    FLAG = "boolean"
    NAMES = "list of texts"
    TAGS = "object of texts"

    @property
    def sql(self) -> str:
        """The type of a column in SQLite."""
        return _SQL.get(self, "TEXT")


_SQL: Final = MappingProxyType(
    {
        FieldType.COUNT: "INTEGER",
        FieldType.FLAG: "INTEGER",
        FieldType.NUMBER: "REAL",
        FieldType.MONEY: "REAL",
    }
)
_TYPES: Final = MappingProxyType(
    {
        str: FieldType.TEXT,
        int: FieldType.COUNT,
        float: FieldType.NUMBER,
        bool: FieldType.FLAG,
        tuple: FieldType.NAMES,
        dict: FieldType.TAGS,
        Literal: FieldType.WORD,
    }
)
"""The type of a field by what it is in Python, unless its row says something else."""


class About(Struct, frozen=True):
    """A row of the table, but for what the declaration of the field says itself."""

    source: str = ""
    """Where a :class:`~mgw.usage.event.SettledExchange` has the value, if not under the field's name."""
    type: FieldType | None = None
    """``None``: the type that goes with the Python type."""
    unit: str = ""
    since: str = FIRST_VERSION
    """The version that introduced the field.  Fields are only added, so older and newer files go together."""
    is_ours: bool = False
    """Whether the text is the gateway's own.  Any other is redacted before the log shows it."""
    log: str | None = ""
    """The name in the plain lines of the log, if it is another one; ``None``: they do not have the field."""
    span: str | None = ""
    """The attribute of spans, if it is not ``mgw.`` and the name; ``None``: they say it in another way."""
    has_few_values: bool = False
    """Whether many events have the same value, as with all labels, so that spans share its encoding."""
    metric: str = ""
    """The metric that counts it, or ``label`` and the label of metrics that has it; empty: there is none."""
    page: str = ""
    """The name on the dashboard's page, if it is not the same in words."""


class EventField(Struct, frozen=True):
    """One field of an event: a row of the table, with its name and type."""

    name: str
    type: FieldType
    words: tuple[str, ...]
    """The values of a field that has only some."""
    is_required: bool
    about: About

    @property
    def source(self) -> str:
        """Where an exchange has the value: the names of attributes, with dots between them."""
        return self.about.source or self.name

    @property
    def attribute(self) -> str:
        """The name of the attribute that has the value, of an exchange or of a part of it."""
        return self.source.rpartition(".")[2]

    @property
    def is_label(self) -> bool:
        """Whether exchanges share it."""
        return self.source.startswith(_LABELS)

    @property
    def is_of_session(self) -> bool:
        """Whether only realtime sessions have it."""
        return self.source.startswith(_SESSION)

    @property
    def log_name(self) -> str | None:
        """The name in the plain lines of the log; ``None``: they do not have the field."""
        return self.about.log if self.about.log is None else self.about.log or self.name

    @property
    def span_name(self) -> str | None:
        """The attribute of spans; ``None``: they do not have the field as an attribute."""
        return self.about.span if self.about.span is None else self.about.span or f"mgw.{self.name}"

    @property
    def page_name(self) -> str:
        """The name on the dashboard's page."""
        return self.about.page or self.name.replace("_", " ").capitalize()

    @property
    def json_schema(self) -> Json:
        """The values as JSON has them."""
        if self.words:
            return {"type": "string", "enum": list(self.words)}
        return _SCHEMAS[self.type]

    def reader(self) -> Callable[[Any], Any]:  # Any: a SettledExchange; the field decides what it returns
        """Return what reads the value in an exchange."""
        read = attrgetter(self.source)
        if not self.is_of_session:
            return read
        return lambda settled: None if settled.session is None else read(settled)


_NUMBER: Final[Json] = {"type": "number"}
_SCHEMAS: Final[Mapping[FieldType, Json]] = MappingProxyType(
    {
        FieldType.TEXT: {"type": "string"},
        FieldType.TIME: {"type": "string", "format": "date-time"},
        FieldType.COUNT: {"type": "integer", "minimum": 0},
        FieldType.NUMBER: _NUMBER,
        FieldType.MONEY: _NUMBER,
        FieldType.FLAG: {"type": "boolean"},
        FieldType.NAMES: {"type": "array", "items": {"type": "string"}},
        FieldType.TAGS: {"type": "object", "additionalProperties": {"type": "string"}},
    }
)


def table_of(event_type: type[Struct]) -> tuple[EventField, ...]:
    """Return the rows of a table: the fields of a structure, each with an :class:`About`."""
    hints = get_type_hints(event_type, include_extras=True)
    return tuple(
        _field_of(field.name, hints[field.name], field.default is NODEFAULT)
        for field in fields_of(event_type)
    )


def _field_of(name: str, hint: Any, is_required: bool) -> EventField:  # noqa: FBT001  Any: an annotation
    assert get_origin(hint) is Annotated, f"{name} has no row"
    value, about = get_args(hint)
    options = get_args(value) if get_origin(value) in (Union, UnionType) else (value,)
    (option,) = (option for option in options if option is not NoneType)
    if isinstance(option, type) and issubclass(option, StrEnum):
        return EventField(name, FieldType.WORD, tuple(option), is_required, about)
    origin = get_origin(option) or option
    words = get_args(option) if origin is Literal else ()
    return EventField(name, about.type or _TYPES[origin], words, is_required, about)
