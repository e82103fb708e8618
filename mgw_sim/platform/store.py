"""What the simulator has been given to keep: objects by their paths, and the contents of files.

Both are bounded, and the oldest go: a simulator that has run for a day holds no more than one of a minute.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

MAX_OBJECTS: Final = 500
MAX_CONTENT: Final = 64 * 1024 * 1024  # bytes of contents in all
_PERIOD: Final = 65521
"""Bytes until a made content repeats itself: a prime, so that pieces that change places are found out."""
_PATTERN: Final = b"".join(
    hashlib.sha256(number.to_bytes(4)).digest() for number in range(_PERIOD // 32 + 1)
)[:_PERIOD]
Entry = dict[str, Any]  # an object of a vendor's JSON
Key = tuple[str, str, str]
"""Family, path of the collection, identifier."""


@dataclass(frozen=True, slots=True)
class StoredContent:
    """A content that was uploaded."""

    data: bytes

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.data)

    def read(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes from a position on; fewer at the end."""
        return self.data[position : position + size]


@dataclass(frozen=True, slots=True)
class GeneratedContent:
    """A content of ``size`` bytes that are nowhere kept: each follows from its position."""

    size: int

    def read(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes from a position on; fewer at the end."""
        size = max(0, min(size, self.size - position))
        begin = position % _PERIOD
        return (_PATTERN * ((begin + size) // _PERIOD + 1))[begin : begin + size]


@dataclass(slots=True)
class Store:
    """Objects in the order in which they came, and contents by the key of their object."""

    objects: OrderedDict[Key, Entry] = field(default_factory=OrderedDict)
    contents: OrderedDict[Key, StoredContent] = field(default_factory=OrderedDict)
    sessions: OrderedDict[str, Any] = field(default_factory=OrderedDict)
    """What lasts over several requests, by identifiers of its own: uploads, deferred answers."""
    _bytes: int = 0

    def put(self, key: Key, value: Entry) -> Entry:
        """Keep an object, at the place of an older one of the same key; returns it."""
        self.objects[key] = value
        while len(self.objects) > MAX_OBJECTS:
            oldest, _ = self.objects.popitem(last=False)
            self._drop_content(oldest)
        return value

    def get(self, key: Key) -> Entry | None:
        """The object, or None."""
        return self.objects.get(key)

    def drop(self, key: Key) -> Entry | None:
        """Forget an object and its content; returns what it was."""
        self._drop_content(key)
        return self.objects.pop(key, None)

    def all(self, family: str, collection: str) -> Iterator[Entry]:
        """The objects of a collection, oldest first."""
        return (value for key, value in self.objects.items() if key[:2] == (family, collection))

    def keep_content(self, key: Key, data: bytes) -> None:
        """Keep a content, as far as there is room: older ones make way, what is too large is not kept."""
        self._drop_content(key)
        if len(data) > MAX_CONTENT:
            return
        self.contents[key] = StoredContent(data)
        self._bytes += len(data)
        while self._bytes > MAX_CONTENT:
            self._bytes -= self.contents.popitem(last=False)[1].size

    def begin(self, name: str, value: Any) -> None:  # whatever lasts
        """Keep something that lasts over several requests; the oldest goes."""
        self.sessions[name] = value
        while len(self.sessions) > MAX_OBJECTS:
            self.sessions.popitem(last=False)

    def _drop_content(self, key: Key) -> None:
        content = self.contents.pop(key, None)
        if content is not None:
            self._bytes -= content.size
