"""Valid replies from Redis: limits on their size, and the expected shape for each command.

What runs at the address may be no Redis, a proxy in front of one, or one whose scripts somebody has changed.
Whatever it says, it costs bounded memory, and decides nothing unless it has the shape of a decision: any
other reply is unreadable, and the host goes on as one without Redis.

Source: redis.io, "Redis serialization protocol specification" (RESP3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
MAX_ELEMENTS: Final = 100_000
"""The most elements of a reply, in all its arrays."""
MAX_DEPTH: Final = 8
MAX_HOSTS: Final = 10_000
"""The most hosts of a fleet: with more, the share of each would be nothing."""
MAX_WAIT_MS: Final = 121_000
"""Until a limit of a minute admits again: a window, and another where Redis' clock was set back."""
MAX_NUMBER: Final = 2**53
"""The largest number that Lua's numbers tell from its neighbours."""
MAX_REST_MS: Final = 366 * 24 * 3600 * 1000

_LINES: Final = frozenset(b"+-:_#,(")
_BULKS: Final = frozenset(b"$=!")
_ARRAYS: Final = frozenset(b"*~>")
_MAP: Final = ord("%")
_LENGTH: Final = re.compile(rb"-1|[0-9]{1,9}")
_BUCKET: Final = re.compile(rb"[0-9]{0,20}")
_BUCKETS: Final = re.compile(rb"[0-9 ]*")
_NUMBER: Final = re.compile(rb"[0-9]{1,15}")


class UnreadableReplyError(ValueError):
    """Redis has answered what nothing can be made of."""


@dataclass(slots=True)
class ReplyGuard:
    """Walks over the bytes of replies, and knows those that ask for too much before anybody makes room."""

    _line: bytearray = field(default_factory=bytearray, repr=False)
    """The beginning of a line whose end has not come."""
    _skip: int = 0
    """The bytes of a text that are still to come, with the line break behind it."""
    _open: list[int] = field(default_factory=list)
    """How many elements are still to come in each array around this place."""
    _bytes: int = 0
    _elements: int = 0

    def feed(self, data: bytes) -> None:
        """Take the bytes that come next.

        :raises UnreadableReplyError: they belong to no reply, or to one that is too large.
        """
        position, size = 0, len(data)
        while position < size:
            if self._skip:
                step = min(self._skip, size - position)
                self._skip -= step
                position += step
                self._count(step)
                if not self._skip:
                    self._ended()
                continue
            end = data.find(b"\n", position)
            stop = size if end < 0 else end + 1
            self._count(stop - position)
            self._line += data[position:stop]
            position = stop
            if end >= 0:
                line, self._line = bytes(self._line), bytearray()
                self._read_line(line)

    def _count(self, more: int) -> None:
        self._bytes += more
        if self._bytes > MAX_REPLY_BYTES:
            raise UnreadableReplyError

    def _read_line(self, line: bytes) -> None:
        if len(line) < 3 or not line.endswith(b"\r\n"):
            raise UnreadableReplyError
        kind = line[0]
        if kind in _LINES:
            self._ended()
            return
        length = _LENGTH.fullmatch(line, 1, len(line) - 2)
        if length is None:
            raise UnreadableReplyError
        number = int(length[0])
        if kind in _BULKS:
            self._begin_text(number)
        elif kind in _ARRAYS or kind == _MAP:
            self._begin_array(2 * number if kind == _MAP else number)
        else:
            raise UnreadableReplyError

    def _begin_text(self, length: int) -> None:
        if length < 0:
            self._ended()
        elif self._bytes + length > MAX_REPLY_BYTES:
            raise UnreadableReplyError
        else:
            self._skip = length + 2

    def _begin_array(self, elements: int) -> None:
        self._elements += max(0, elements)
        if self._elements > MAX_ELEMENTS or len(self._open) >= MAX_DEPTH:
            raise UnreadableReplyError
        if elements > 0:
            self._open.append(elements)
        else:
            self._ended()

    def _ended(self) -> None:
        """An element has come, and with it maybe the arrays that it was the last of."""
        while self._open:
            self._open[-1] -= 1
            if self._open[-1]:
                return
            self._open.pop()
        self._bytes = self._elements = 0


class Sums(Struct, frozen=True, array_like=True):
    """What Redis knows of a total."""

    used: int
    held: int
    resets: int
    lost: int = 0
    """What hosts held that are gone, which counts in full from now on."""
    requests: int = 0
    """How many requests held that."""
    warned_before: int = 0
    """The largest share that was warned of before this request."""
    warned: int = 0
    """The largest that is reached now, of which this request warns."""


class Begun(Struct, frozen=True):
    """What became of a request that begins."""

    admitted: int
    """1: counted; 0: a limit stands against it; -1: Redis does not know this host any more."""
    row: int
    """Which row it is, counted from 0."""
    milliseconds: int
    """The milliseconds until the row admits again."""
    buckets: tuple[str, ...] = ()
    """The bucket in which each row has counted it; empty: in none."""
    sums: tuple[Sums, ...] = ()
    """Those of its totals."""


class Executed(Struct, frozen=True):
    """What Redis has executed for an id."""

    last_end: int
    """The number of the last end."""
    begun: Mapping[int, tuple[str, ...]]
    """The buckets of each beginning that it was not said to be known, by its number."""


class TotalRow(Struct, frozen=True):
    """A total of a period that is not over."""

    holder: str
    name: str
    refuses: bool
    period: str
    ends: int
    """Unix milliseconds."""
    most: int
    used: int
    held: int


class Beat(Struct, frozen=True):
    """The answer to a heartbeat."""

    is_known: bool
    """Whether this host was alive to Redis."""
    hosts: int


def read_hello(reply: Any) -> None:  # Any: here and below, what Redis says
    """Take the reply of HELLO."""
    _must(isinstance(reply, Mapping))


def read_ok(reply: Any) -> None:
    """Take the reply of SELECT."""
    _must(reply == b"OK")


def read_subscribed(reply: Any) -> None:
    """Take the reply of SUBSCRIBE."""
    _must(isinstance(reply, list) and len(reply) == 3 and reply[0] == b"subscribe")


def read_count(reply: Any) -> int:
    """Return the number that a command answers."""
    _must(type(reply) is int)
    return int(reply)


def read_beat(reply: Any) -> Beat:
    """Return the answer of the script of heartbeats."""
    _must(isinstance(reply, list) and len(reply) == 2 and all(type(number) is int for number in reply))
    known, hosts = reply
    _must(known in (0, 1) and known <= hosts <= MAX_HOSTS)
    return Beat(known == 1, hosts)


def read_begun(reply: Any) -> Begun:
    """Return the answer of the script that counts what begins."""
    _must(isinstance(reply, list) and len(reply) == 5)
    admitted, row, milliseconds, buckets, sums = reply
    _must(type(admitted) is int and type(row) is int and type(milliseconds) is int)
    _must(admitted in (-1, 0, 1) and row >= 0 and isinstance(buckets, list))
    _must(all(isinstance(bucket, bytes) and _BUCKET.fullmatch(bucket) for bucket in buckets))
    if admitted == 0:
        _must(0 < milliseconds <= MAX_NUMBER)
    names = tuple([bucket.decode("ascii") for bucket in buckets])
    return Begun(admitted, row, milliseconds, names, _sums(sums, 5))


def read_ended(reply: Any) -> tuple[Sums, ...] | None:
    """Return the answer of the script that counts what ends; ``None``: the id is gone."""
    if reply == []:
        return None
    _must(isinstance(reply, list) and len(reply) == 2 and reply[0] == 1)
    return _sums(reply[1], 7)


def read_executed(reply: Any) -> list[Executed]:
    """Return what Redis has executed for each of some ids."""
    _must(isinstance(reply, list))
    found = []
    for entry in reply:
        _must(isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is int and entry[0] >= 0)
        last, begun = entry
        _must(isinstance(begun, list) and len(begun) % 2 == 0)
        pairs = list(zip(begun[::2], begun[1::2], strict=True))
        for number, buckets in pairs:
            _must(isinstance(number, bytes) and _NUMBER.fullmatch(number) is not None)
            _must(isinstance(buckets, bytes) and _BUCKETS.fullmatch(buckets) is not None)
        names = {int(number): tuple(buckets.decode("ascii").split(" ")) for number, buckets in pairs}
        found.append(Executed(last, names))
    return found


def read_state(reply: Any) -> list[TotalRow]:
    """Return the totals of periods that are not over."""
    _must(isinstance(reply, list))
    rows = []
    for entry in reply:
        _must(isinstance(entry, list) and len(entry) == 4 and isinstance(entry[0], bytes))
        _must(all(type(number) is int for number in entry[1:]))
        parts = entry[0].decode("utf-8", "replace").split("\n")
        _must(len(parts) == 5 and parts[2] in ("0", "1") and parts[4].isdigit() and len(parts[4]) <= 16)
        holder, name, refuses, period, ends = parts
        rows.append(TotalRow(holder, name, refuses == "1", period, int(ends), *entry[1:]))
    return rows


def _sums(reply: Any, size: int) -> tuple[Sums, ...]:
    _must(isinstance(reply, list))
    for sums in reply:
        _must(isinstance(sums, list) and len(sums) == size)
        _must(all(type(number) is int and number >= -MAX_NUMBER for number in sums))
        _must(all(number <= MAX_NUMBER for number in sums[2:]))
    return tuple([Sums(min(used, MAX_NUMBER), min(held, MAX_NUMBER), *more) for used, held, *more in reply])


def read_cooldowns(reply: Any) -> list[tuple[bytes, int]]:
    """Return what is in cooldown, each with its milliseconds."""
    _must(isinstance(reply, list) and len(reply) % 2 == 0)
    found = list(zip(reply[::2], reply[1::2], strict=True))
    for member, milliseconds in found:
        _must(isinstance(member, bytes) and isinstance(milliseconds, bytes))
        _must(_NUMBER.fullmatch(milliseconds) is not None and int(milliseconds) <= MAX_REST_MS)
    return [(member, int(milliseconds)) for member, milliseconds in found]


def read_message(push: list[Any]) -> bytes | None:
    """Return what a push says that somebody has published; ``None``: it is another one."""
    is_message = len(push) == 3 and push[0] == b"message" and isinstance(push[2], bytes)
    return push[2] if is_message else None


def _must(holds: bool) -> None:  # noqa: FBT001  it is the whole of it
    if not holds:
        raise UnreadableReplyError
