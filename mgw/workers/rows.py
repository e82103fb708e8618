"""Records of completed requests, from a worker to the process with the sinks.

Labels, which many records share, are sent once and have a number from then on.  Numbers only rise; both ends
keep the last :data:`MAX_LABELS` of them, so neither has to tell the other what it has forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import GenericAlias, MappingProxyType
from typing import Any, Final, Protocol, get_type_hints

from msgspec import Struct
from msgspec.json import Decoder as JsonDecoder
from msgspec.json import encode as encode_json
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import astuple as fields_of
from msgspec.structs import replace

from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.usage.event import ELLIPSIS, MAX_LINE_BYTES, MAX_NAME, SettledExchange
from mgw.usage.labels import ExchangeLabels
from mgw.usage.record import EndedRequest
from mgw.workers.messages import ChannelMessage, Rows

MAX_LABELS: Final = 1024
"""How many labels either end remembers; a process shares half as many among its records."""
MAX_WAITING_BYTES: Final = 32 * 2**20
"""How much may wait in a channel; above that, records are dropped."""
MAX_MESSAGE_BYTES: Final = 2**20
"""A batch that is larger is sent in several messages, down to one record each."""

_Texts = tuple[bytes | None, ...]
_USAGE: Final = SettledExchange.__struct_fields__.index("usage")
_NAMES: Final = SettledExchange.__struct_fields__.index("dropped_fields")
_LABEL_FIELDS: Final = ExchangeLabels.__match_args__
_ENCODER: Final = Encoder()
_ENDED_TYPES: Final = tuple(get_type_hints(EndedRequest).values())
_SENT: Final = MappingProxyType(
    {"labels": int, "usage": TokenUsage | None, "dropped_fields": tuple[bytes, ...] | None}
)
"""What goes in another form: the number of the labels, names of fields as bytes, and nothing for
:data:`NO_USAGE`, which is known by being that object."""
_JSON_LABELS: Final[Mapping[str, Callable[[bytes], Any]]] = MappingProxyType(  # Any: groups, or tags
    {"client_groups": JsonDecoder(tuple[str, ...]).decode, "tags": JsonDecoder(dict[str, str]).decode}
)
"""Labels that are sent as JSON, and what reads them."""
_CODEC: Final = ("utf-8", "surrogatepass")
"""A client's JSON may hold half of a surrogate pair."""


class MessageSender(Protocol):
    """A channel, for those who only send messages over it."""

    @property
    def waiting_bytes(self) -> int:
        """What the other side has not taken yet."""
        ...

    def tell(self, message: ChannelMessage) -> None:
        """Send a message; never raises."""
        ...


@dataclass(slots=True, eq=False)
class RowWriter:
    """Sends records; takes what a :class:`~mgw.usage.record_queue.RecordQueue` hands on."""

    channel: MessageSender
    dropped: int = 0
    """Records that were not sent, because the other side takes too little."""
    _numbers: dict[ExchangeLabels, int] = field(default_factory=dict, repr=False)
    _last: int = 0

    def record_all(self, batch: Sequence[EndedRequest]) -> None:
        """Send requests that have ended, with their exchanges."""
        if self.channel.waiting_bytes > MAX_WAITING_BYTES:
            self.dropped += len(batch)
            return
        try:
            message = self._message_of(batch)
        except (OverflowError, UnicodeEncodeError):  # a number or a text that msgpack does not have
            self._numbers.clear()
            if len(batch) == 1:
                whole = _with_whole_characters(batch[0])
                if whole == batch[0]:
                    self.dropped += 1
                else:
                    self.record_all([whole])
                return
        else:
            if len(batch) == 1 or len(message.requests) <= MAX_MESSAGE_BYTES:
                self.channel.tell(message)
                return
            self._numbers.clear()  # the labels of this message are not sent
        middle = len(batch) // 2
        self.record_all(batch[:middle])
        self.record_all(batch[middle:])

    def _message_of(self, batch: Sequence[EndedRequest]) -> Rows:
        numbers = self._numbers
        new: list[tuple[int, _Texts]] = []
        rows: list[tuple[Any, ...]] = []  # Any: the fields of a record
        for ended in batch:
            settled = ended.settled
            if settled is None:
                rows.append(fields_of(ended))
                continue
            number = numbers.get(settled.labels) or self._number_of(settled.labels, new)
            if settled.dropped_fields is None and settled.usage is not NO_USAGE:
                row = (number, *fields_of(settled)[1:])
            else:
                row = (number, *_pack_fields(settled))
            rows.append((*fields_of(ended)[:-1], row))
        return Rows(new, _ENCODER.encode(rows))

    def _number_of(self, labels: ExchangeLabels, new: list[tuple[int, _Texts]]) -> int:
        """Give labels a number, and remember it if the reader will."""
        self._last = number = self._last + 1
        new.append((number, tuple([_pack_label(getattr(labels, name)) for name in _LABEL_FIELDS])))
        if _are_kept(labels):
            self._numbers[labels] = number
            if len(self._numbers) > MAX_LABELS:
                del self._numbers[next(iter(self._numbers))]
        return number


@dataclass(slots=True)
class RowReader:
    """Reads the records of one channel."""

    settled_type: type[SettledExchange] = SettledExchange
    """What a row becomes; its fields come by place."""
    _decoder: Decoder[Any] = field(init=False, repr=False)  # Any: rows by place
    _labels: dict[int, ExchangeLabels] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._decoder = _row_decoder(self.settled_type)

    def read(self, rows: Rows) -> list[EndedRequest]:
        """Return the requests of a message.

        :raises msgspec.MsgspecError: a :class:`RowWriter` has not written it; so does ``KeyError``.
        """
        labels, new = self._labels, self.settled_type
        for number, texts in rows.labels:
            labels[number] = _labels_of(texts)
        requests: list[EndedRequest] = []
        found: list[tuple[Any, ...]] = self._decoder.decode(rows.requests)  # Any: by place
        for request in found:
            row = request[-1]
            if row is None:
                requests.append(EndedRequest(*request))
                continue
            if row[_NAMES] is None and row[_USAGE] is not None:
                settled = new(labels[row[0]], *row[1:])
            else:
                settled = new(labels[row[0]], *_unpack_fields(row))
            requests.append(EndedRequest(*(*request[:-1], settled)))
        self._forget([number for number, _ in rows.labels])
        return requests

    def _forget(self, new: Sequence[int]) -> None:
        """Keep what the writer keeps."""
        labels = self._labels
        for number in new:
            if not _are_kept(labels[number]):
                del labels[number]
        while len(labels) > MAX_LABELS:
            del labels[next(iter(labels))]


def _row_decoder(settled_type: type[SettledExchange]) -> Decoder[Any]:
    hints = get_type_hints(settled_type)
    types = tuple(_SENT.get(name, hints[name]) for name in settled_type.__struct_fields__)
    row = (*_ENDED_TYPES[:-1], GenericAlias(tuple, types) | None)
    return Decoder(GenericAlias(list, GenericAlias(tuple, row)))


def _with_whole_characters(ended: EndedRequest) -> EndedRequest:
    """Return a record without halves of surrogate pairs: a line has the same in their place."""
    settled = ended.settled
    if settled is not None:
        ended = replace(ended, settled=replace(settled, **_whole_texts(settled)))
    return replace(ended, **_whole_texts(ended))


def _whole_texts(record: Struct) -> dict[str, str]:
    texts = {name: text for name in record.__struct_fields__ if type(text := getattr(record, name)) is str}
    return {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}


def _are_kept(labels: ExchangeLabels) -> bool:
    """Whether others are to have them: those with a long name are no more shared in a process, either."""
    return not labels.is_long


def _labels_of(texts: _Texts) -> ExchangeLabels:
    fields: list[Any] = []  # Any: by place
    for name, text in zip(_LABEL_FIELDS, texts, strict=True):
        if text is None:
            fields.append(None)
        else:
            fields.append(_JSON_LABELS[name](text) if name in _JSON_LABELS else text.decode(*_CODEC))
    return ExchangeLabels(*fields)


def _pack_label(value: str | Collection[str] | None) -> bytes | None:
    """Return a label; of a longer text, no line of an event would have more than the beginning."""
    if value is None:
        return None
    return value[:MAX_LINE_BYTES].encode(*_CODEC) if isinstance(value, str) else encode_json(value)


def _pack_fields(settled: SettledExchange) -> list[Any]:  # Any: by place
    """Return the fields behind the labels where some of them are not sent as they are."""
    fields = list(fields_of(settled))
    if settled.usage is NO_USAGE:
        fields[_USAGE] = None
    if settled.dropped_fields is not None:
        fields[_NAMES] = _pack_names(settled.dropped_fields)
    return fields[1:]


def _unpack_fields(row: Sequence[Any]) -> list[Any]:  # Any: by place
    """Return what :func:`_pack_fields` was given."""
    fields = list(row)
    if fields[_USAGE] is None:
        fields[_USAGE] = NO_USAGE
    if fields[_NAMES] is not None:
        fields[_NAMES] = tuple([name.decode(*_CODEC) for name in fields[_NAMES]])
    return fields[1:]


def _pack_names(names: Sequence[str]) -> tuple[bytes, ...]:
    """Return names of fields, cut as in an event where they would be too long for its line."""
    if sum(map(len, names)) > MAX_LINE_BYTES:
        names = [name if len(name) <= MAX_NAME else name[:MAX_NAME] + ELLIPSIS for name in names]
    return tuple([name.encode(*_CODEC) for name in names])
