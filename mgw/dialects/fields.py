"""A JSON object that tracks which of its keys were not read.

A parser takes what it understands out of :class:`Fields`; what is left over in any object of the request is
what the translation does not carry, and :meth:`Ledger.unread` names it.  A key that stands for a
:class:`Feature` is taken together with that feature, so that the renderer's losses find their way back to the
client's own spelling.  An object that is taken whole counts as read.

Paths are written as in contract 8.3: ``messages[].name``.  A ``null`` carries nothing and is not
reported.  Errors name the position, too: ``messages[3].name``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from msgspec import DecodeError
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.features import Feature
from mgw.nouns.errors import GatewayError, Reason

_DECODER: Final = Decoder()
_ENCODER: Final = Encoder()
_KINDS: Final = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
}
_LARGEST_INTEGER: Final = 2**63


class Ledger:
    """What became of the fields of one request."""

    __slots__ = ("_unread", "objects", "said", "snake_too")

    def __init__(self, *, snake_too: bool = False) -> None:
        """Keep account of a request; with ``snake_too``, keys may be in snake case (proto3 JSON)."""
        self.said: defaultdict[Feature, set[str]] = defaultdict(set)
        """Each feature that the client asked for, and its paths of it."""
        self.snake_too = snake_too
        self.objects: list[Fields] = []
        """What was opened, to be looked at when all have read."""
        self._unread: set[str] = set()

    def note(self, feature: Feature, path: str) -> None:
        """Remember that the client said ``feature`` at ``path``."""
        self.said[feature].add(path)

    def leave(self, path: str) -> None:
        """Report ``path`` as not carried."""
        self._unread.add(path)

    def unread(self) -> frozenset[str]:
        """Return the paths of all that nobody has read."""
        for fields in self.objects:
            if fields.unread:
                self._unread.update(fields.left_over())
        self.objects.clear()  # they know the account: no circle is left for the garbage collector
        return frozenset(self._unread)


class Fields:
    """One object of a request.  Each accessor takes a key away, and refuses a value of another type.

    What most objects look like may be read without opening them: a parser that knows all keys of a
    ``dict`` has nothing to forget.  Hence :meth:`elements`, and :meth:`open_element` for the others.
    """

    __slots__ = ("_index", "_key", "_ledger", "_parent", "has_snake", "unread")

    def __init__(
        self,
        values: JsonObject,
        ledger: Ledger,
        parent: Fields | None = None,
        key: str = "",
        index: int | None = None,
    ) -> None:
        self.unread = values
        """What nobody has read yet; where it is empty, a parser need not ask for each rare key."""
        self._ledger = ledger
        self._parent = parent
        self._key = key
        self._index = index
        self.has_snake = ledger.snake_too and "_" in "".join(values)
        """A key may be in snake case."""
        ledger.objects.append(self)

    @property
    def ledger(self) -> Ledger:
        """The request's account."""
        return self._ledger

    def __contains__(self, key: str) -> bool:
        """Whether ``key`` is still to be read and not null."""
        return self.unread.get(self._spelled(key) if self.has_snake else key) is not None

    def __iter__(self) -> Iterator[str]:
        """The keys that nobody has read, as spelled."""
        return iter(tuple(self.unread))

    def path(self, key: str = "") -> str:
        """Return the path of ``key`` without positions, or of this object."""
        if self._parent is None:
            return key
        own = self._parent.path(self._key if self._index is None else f"{self._key}[]")
        return f"{own}.{key}" if own and key else own + key

    def place(self, key: str = "") -> str:
        """Return the path of ``key`` with positions, or of this object: what an error names."""
        own = self._key if self._index is None else f"{self._key}[{self._index}]"
        if self._parent is not None:
            own = self._parent.place(own)
        return f"{own}.{key}" if own and key else own + key

    def left_over(self) -> Iterator[str]:
        """Return the paths of the keys that nobody has read."""
        return (self.path(key) for key, value in self.unread.items() if value is not None)

    def take(self, key: str, feature: Feature | None = None) -> Any:  # Any: JSON of whatever type
        """Take a value as it stands, all of it read; ``None`` where it is absent or null."""
        if self.has_snake:
            key = self._spelled(key)
        value = self.unread.pop(key, None)
        if feature is not None and value is not None:
            self._ledger.said[feature].add(key if self._parent is None else self.path(key))
        return value

    def skip(self, *keys: str) -> None:
        """Take keys that say nothing of their own, such as ``type``."""
        for key in keys:
            self.unread.pop(self._spelled(key) if self.has_snake else key, None)

    def note(self, feature: Feature, key: str = "") -> None:
        """Remember that the client said ``feature`` under ``key``, or with this object."""
        self._ledger.said[feature].add(key if self._parent is None else self.path(key))

    def leave(self, key: str = "") -> None:
        """Report ``key``, or this object, as not carried; of an object its keys are then not told singly."""
        self._ledger.leave(self.path(key))
        if key:
            self.unread.pop(key, None)
        else:
            self.unread.clear()

    def text(self, key: str, feature: Feature | None = None) -> str | None:
        """Take a string."""
        if self.has_snake:
            key = self._spelled(key)
        value = self.unread.pop(key, None)  # as take() does, and so do the others: each call costs
        if value is None:
            return None
        if type(value) is not str:
            raise self.mistyped(key, str, value)
        if feature is not None:
            self._ledger.said[feature].add(key if self._parent is None else self.path(key))
        return value

    def required_text(self, key: str) -> str:
        """Take a string that must be there."""
        spelled = self._spelled(key) if self.has_snake else key
        value = self.unread.pop(spelled, None)
        if value is None:
            raise self.missing(key)
        if type(value) is not str:
            raise self.mistyped(spelled, str, value)
        return value

    def flag(self, key: str, feature: Feature | None = None) -> bool | None:
        """Take a truth value."""
        spelled = self._spelled(key) if self.has_snake else key
        value = self.unread.pop(spelled, None)
        if value is None:
            return None
        if type(value) is not bool:
            raise self.mistyped(key, bool, value)
        if feature is not None:
            self._ledger.said[feature].add(spelled if self._parent is None else self.path(spelled))
        return value

    def integer(self, key: str, feature: Feature | None = None) -> int | None:
        """Take a whole number; 3.0 is one (JSON has no integers)."""
        spelled = self._spelled(key) if self.has_snake else key
        value = self.unread.pop(spelled, None)
        if value is None:
            return None
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int or not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
            raise self.mistyped(key, int, value)
        if feature is not None:
            self._ledger.said[feature].add(spelled if self._parent is None else self.path(spelled))
        return value

    def number(self, key: str, feature: Feature | None = None) -> float | None:
        """Take a number."""
        spelled = self._spelled(key) if self.has_snake else key
        value = self.unread.pop(spelled, None)
        if value is None:
            return None
        if type(value) is not float and not (
            type(value) is int and -_LARGEST_INTEGER <= value < _LARGEST_INTEGER
        ):
            raise self.mistyped(key, float, value)
        if feature is not None:
            self._ledger.said[feature].add(spelled if self._parent is None else self.path(spelled))
        return value

    def raw_object(self, key: str, feature: Feature | None = None) -> JsonObject | None:
        """Take an object that is carried as it stands: a schema, arguments."""
        spelled = self._spelled(key) if self.has_snake else key
        value = self.unread.pop(spelled, None)
        if value is None:
            return None
        if type(value) is not dict:
            raise self.mistyped(key, dict, value)
        if feature is not None:
            self._ledger.said[feature].add(spelled if self._parent is None else self.path(spelled))
        return value

    def nested(self, key: str) -> Fields | None:
        """Open an object."""
        if self.has_snake:
            key = self._spelled(key)
        value = self.unread.pop(key, None)
        if value is None:
            return None
        if type(value) is not dict:
            raise self.mistyped(key, dict, value)
        return Fields(value, self._ledger, self, key)

    def objects(self, key: str) -> list[Fields]:
        """Open an array of objects; none where it is absent."""
        if self.has_snake:
            key = self._spelled(key)
        value = self.unread.pop(key, None)
        return [] if value is None else self.opened(key, value)

    def objects_or_one(self, key: str) -> list[Fields]:
        """Open an array of objects, or a single object in its place, as Google's readers take it."""
        if self.has_snake:
            key = self._spelled(key)
        return self.opened(key, self.elements_or_one(key))

    def elements_or_one(self, key: str) -> list[JsonObject]:
        """Take what :meth:`objects_or_one` does, as objects that are not opened."""
        if self.has_snake:
            key = self._spelled(key)
        value = self.unread.pop(key, None)
        return [value] if type(value) is dict else self.elements(key, value)

    def opened(self, key: str, value: Any) -> list[Fields]:  # Any: JSON of whatever type
        """Open a value that was taken from ``key`` as an array of objects; none where it is ``None``."""
        return [
            Fields(item, self._ledger, self, key, index)
            for index, item in enumerate(self.elements(key, value))
        ]

    def elements(self, key: str, value: Any) -> list[JsonObject]:  # Any: JSON of whatever type
        """Return a value that was taken from ``key`` as objects that are not opened, as :meth:`opened`."""
        if value is None:
            return []
        if type(value) is not list:
            raise self.mistyped(key, list, value)
        for index, item in enumerate(value):
            if type(item) is not dict:
                raise self.mistyped(f"{key}[{index}]", dict, item)
        return value

    def open_element(self, key: str, index: int, value: JsonObject) -> Fields:
        """Open one of the objects in the array that was taken from ``key``."""
        return Fields(value, self._ledger, self, key, index)

    def texts(self, key: str, feature: Feature | None = None) -> tuple[str, ...]:
        """Take an array of strings; none where it is absent."""
        value = self.take(key, feature)
        if value is None:
            return ()
        if type(value) is not list:
            raise self.mistyped(key, list, value)
        for index, item in enumerate(value):
            if type(item) is not str:
                raise self.mistyped(f"{key}[{index}]", str, item)
        return tuple(value)

    def mistyped(self, key: str, wanted: type, value: object) -> GatewayError:
        """Return the refusal of a value for its type; the value itself is not told."""
        found = "a number" if type(value) in (int, float) else _KINDS.get(type(value), "null")
        place = self.place(key)
        return self._refused(f"{place}: expected {_KINDS[wanted]}, found {found}", place)

    def missing(self, key: str) -> GatewayError:
        """Return the refusal of the object for the lack of ``key``."""
        place = self.place(key)
        return self._refused(f"{place}: required but missing", place)

    def wrong(self, key: str, message: str) -> GatewayError:
        """Return the refusal of ``key``, or of the object, with a sentence that says what to change."""
        place = self.place(key)
        return self._refused(f"{place}: {message}" if place else message, place or None)

    def _refused(self, message: str, place: str | None) -> GatewayError:
        """Return a refusal; nobody reads the account of what is refused, and it would hold the whole body."""
        self._ledger.objects.clear()
        return GatewayError(Reason.MALFORMED, message, param=place)

    def _spelled(self, key: str) -> str:
        if key in self.unread:
            return key
        snake = _snake(key)
        return snake if snake in self.unread else key


def open_request(body: bytes, ledger: Ledger) -> Fields:
    """Return the object that a request body is.

    :raises GatewayError: ``MALFORMED`` where it is none, or no JSON.
    """
    try:
        values = _DECODER.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise GatewayError(Reason.MALFORMED, f"the request body is not valid JSON: {why}") from None
    if type(values) is not dict:
        raise GatewayError(Reason.MALFORMED, "the request body must be a JSON object")
    return Fields(values, ledger)


def encode_request(body: JsonObject) -> bytes:
    """Return the bytes of a request that was rendered, in which are values of the client's own.

    :raises GatewayError: ``MALFORMED`` for those that JSON does not take back.
    """
    try:
        return _ENCODER.encode(body)
    except RecursionError:
        raise GatewayError(Reason.MALFORMED, "a schema in the request is nested too deeply") from None
    except (ValueError, OverflowError):  # lone surrogates, integers beyond 64 bits
        raise GatewayError(
            Reason.MALFORMED, "the request contains a value that JSON cannot represent"
        ) from None


def bare_text(block: JsonObject) -> str | None:
    """Return the text of ``{"type": "text", "text": …}``; ``None``: it is another block, or has more."""
    if len(block) == 2 and block.get("type") == "text":
        text = block.get("text")
        if type(text) is str:
            return text
    return None


def none_of(fields: Fields, key: str, value: str, known: Iterable[str]) -> GatewayError:
    """Return the refusal of a word that is none of ``known``."""
    return fields.wrong(key, f"unknown value {value[:64]!r}; expected one of {', '.join(known)}")


@lru_cache(maxsize=512)
def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
