"""Which lines the process log has of requests, and in which form (settings of ``log``).

As long as the configuration asks for two plain lines, which is the default, :class:`~mgw.ops.logs.UsageLog`
and :class:`~mgw.ops.logs.AccessLog` write them by themselves, and nothing here is called.

One line is made of a request together with its exchange, which has come with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import Struct

from mgw.config.log import LogFormat, LogSettings, RequestLines
from mgw.ops.json_lines import access_json, joined_json, usage_json
from mgw.ops.logs import AccessLog, UsageLog, joined_line, usage_lines
from mgw.usage.event import SettledExchange
from mgw.usage.line_writer import LineWriter
from mgw.usage.record import EndedRequest


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


def _ignore(_: object) -> None:
    """The configuration asks for no lines."""


@dataclass(slots=True, eq=False, repr=False)
class RequestLog:
    """Both logs of requests, and what they do; the module states the rules."""

    usage: UsageLog
    access: AccessLog
    _form: _Form = _FORMS[LogFormat.TEXT]

    def use(self, settings: LogSettings) -> None:
        """Write lines as these settings say from now on."""
        self._form = _FORMS[settings.format]
        self.usage.render = self._form.usage
        self.usage.divert = self.access.divert = None
        if settings.requests is RequestLines.NONE:
            self.usage.divert = self.access.divert = _ignore
        elif settings.requests is RequestLines.ONE:
            self.usage.divert, self.access.divert = _ignore, self._write_joined
        elif settings.format is not LogFormat.TEXT:
            self.access.divert = self._write_ended

    def _write_joined(self, requests: Iterable[EndedRequest]) -> None:
        lines: list[bytes] = []
        alone: list[EndedRequest] = []
        join = self._form.joined
        for ended in requests:
            if ended.settled is None:
                alone.append(ended)
            else:
                lines.append(join(ended.settled, ended))
        self.access.lines.write_block(b"".join(lines))
        if alone:
            self._write_ended(alone)

    def _write_ended(self, requests: Iterable[EndedRequest]) -> None:
        self._form.write_access(self.access.lines, requests)
