"""Which lines the process log has of requests, and in which form (settings of ``log``).

As long as the configuration asks for two plain lines, which is the default, :class:`~mgw.ops.logs.UsageLog`
and :class:`~mgw.ops.logs.AccessLog` write them by themselves, and nothing here is called.

For one line, a record waits for the other of the same request::

    exchange   ──► held by its id ──┐
                                    ├──► one line
    request    ──► has an event? ───┘
                   └─ no: its own line, at once

An exchange settles before its request ends, so its record nearly always comes first, and the other is in the
same batch or in one of the next.  Whichever comes first waits, though not for long: what is still alone after
:data:`HELD_SECONDS` to twice that gets a line of its own (a worker has crashed in between, or its channel was
full), and so does the oldest where more than :data:`MAX_HELD` wait.  So no record is lost here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import Struct
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from mgw.config.log import LogFormat, LogSettings, RequestLines
from mgw.ops.json_lines import access_json, joined_json, usage_json
from mgw.ops.logs import AccessLog, UsageLog, joined_line, usage_lines
from mgw.usage.event import SettledExchange
from mgw.usage.line_writer import LineWriter
from mgw.usage.record import EndedRequest

HELD_SECONDS: Final = 0.5
MAX_HELD: Final = 2048


class _Form(Struct, frozen=True):
    """How lines are written."""

    usage: Callable[[Iterable[SettledExchange]], Iterator[bytes]]
    joined: Callable[[SettledExchange, EndedRequest], bytes]
    write_access: Callable[[LineWriter, Iterable[EndedRequest]], None]


def _write_text(lines: LineWriter, requests: Iterable[EndedRequest]) -> None:
    AccessLog(lines).record_all(requests)


def _write_json(lines: LineWriter, requests: Iterable[EndedRequest]) -> None:
    lines.write_block(b"".join(access_json(requests)))


_FORMS: Final[Mapping[LogFormat, _Form]] = {
    LogFormat.TEXT: _Form(usage_lines, joined_line, _write_text),
    LogFormat.JSON: _Form(partial(map, usage_json), joined_json, _write_json),
}
_Held = dict[str, SettledExchange | EndedRequest]


def _ignore(_: object) -> None:
    """The configuration asks for no lines."""


@dataclass(slots=True, eq=False, repr=False)
class RequestLog:
    """Both logs of requests, and what they do; the module states the rules."""

    clock: IReactorTime
    usage: UsageLog
    access: AccessLog
    _settings: LogSettings = field(default_factory=LogSettings)
    _form: _Form = _FORMS[LogFormat.TEXT]
    _held: _Held = field(default_factory=dict)
    _older: _Held = field(default_factory=dict)
    """The lines that were held before the timer was last set."""
    _timer: IDelayedCall | None = None

    def use(self, settings: LogSettings) -> None:
        """Write lines as these settings say from now on."""
        if settings == self._settings:
            return
        self.flush()
        self._settings, self._form = settings, _FORMS[settings.format]
        self.usage.render = self._form.usage
        self.usage.divert = self.access.divert = None
        if settings.requests is RequestLines.NONE:
            self.usage.divert = self.access.divert = _ignore
        elif settings.requests is RequestLines.ONE:
            self.usage.divert, self.access.divert = self._take_settled, self._take_ended
        elif settings.format is not LogFormat.TEXT:
            self.access.divert = self._write_ended

    def flush(self) -> None:
        """Write what waits for another record."""
        self._older.update(self._held)
        self._held = {}
        self._write_older()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take_settled(self, rows: Iterable[SettledExchange]) -> None:
        lines: list[bytes] = []
        try:
            for settled in rows:
                ended = self._other(settled.request_id)
                if isinstance(ended, EndedRequest):
                    lines.append(self._form.joined(settled, ended))
                else:
                    self._hold(settled, ended)
        finally:
            self.usage.lines.write_block(b"".join(lines))

    def _take_ended(self, requests: Iterable[EndedRequest]) -> None:
        lines: list[bytes] = []
        alone: list[EndedRequest] = []
        for ended in requests:
            settled = self._other(ended.request_id)
            if isinstance(settled, SettledExchange):
                lines.append(self._form.joined(settled, ended))
            elif ended.has_event:
                self._hold(ended, settled)
            else:
                alone.append(ended)
        self.usage.lines.write_block(b"".join(lines))
        if alone:
            self._write_ended(alone)

    def _write_ended(self, requests: Iterable[EndedRequest]) -> None:
        self._form.write_access(self.access.lines, requests)

    def _other(self, request_id: str) -> SettledExchange | EndedRequest | None:
        return self._held.pop(request_id, None) or self._older.pop(request_id, None)

    def _hold(
        self, record: SettledExchange | EndedRequest, before: SettledExchange | EndedRequest | None
    ) -> None:
        """Hold a record until the other one comes, in the place of one of the same kind, if there is any."""
        if before is not None:
            self._write_alone([before])
        self._held[record.request_id] = record
        if self._timer is None:
            self._timer = self.clock.callLater(HELD_SECONDS, self._on_timer)
        if len(self._held) + len(self._older) > MAX_HELD:
            held = self._older or self._held
            self._write_alone([held.pop(next(iter(held)))])

    def _on_timer(self) -> None:
        self._timer = None
        self._write_older()
        self._older, self._held = self._held, {}
        if self._older:
            self._timer = self.clock.callLater(HELD_SECONDS, self._on_timer)

    def _write_older(self) -> None:
        older, self._older = self._older, {}
        self._write_alone(older.values())

    def _write_alone(self, records: Iterable[SettledExchange | EndedRequest]) -> None:
        """Write a line for each of these records, whose other one has not come."""
        for record in records:
            if isinstance(record, SettledExchange):
                self.usage.lines.write_block(b"".join(self._form.usage((record,))))
            else:
                self._write_ended([record])
