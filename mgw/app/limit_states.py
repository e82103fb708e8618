"""Ask what is used of limits, for the page of metrics and for the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import is_
from time import monotonic
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as NoAnswerError
from twisted.internet.task import deferLater

from mgw.clients.limit_report import LimitReport, rows_by_holder
from mgw.clients.limits import Allowance, Counts, RowState
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.key_settings import NamedKeySettings
from mgw.generation import SLICE_SECONDS
from mgw.reactor.shield import shielded

ANSWER_SECONDS: Final = 1.0
"""How long a file or another host may take to answer; after that, the answer before has to do."""


@dataclass(slots=True, eq=False, repr=False)
class LimitStates:
    """The rows that last longer than a minute, with what is used of each."""

    reactor: Any  # Any: a reactor has no one type
    counts: Counts
    settings: Callable[[], EdgeAuthSettings]
    file_keys: Callable[[], Sequence[NamedKeySettings]]
    wall: Callable[[], float]
    """Unix seconds."""
    latest: Sequence[RowState] = field(default=())
    """What was found when somebody asked last."""
    _made_of: tuple[EdgeAuthSettings, Sequence[NamedKeySettings]] | None = None
    _rows: Sequence[Allowance] = ()
    """The rows of these: thousands of keys take a tenth of a second."""

    async def read(self) -> Sequence[RowState]:
        """Return the rows of the moment."""
        rows = await self._rows_of(self.settings(), self.file_keys())
        asked = self.counts.state()
        if isinstance(asked, list):
            found: Sequence[RowState] = asked
        else:
            assert isinstance(asked, Deferred), "what counts elsewhere answers with one"
            try:
                found = await shielded(asked).addTimeout(ANSWER_SECONDS, self.reactor)
            except NoAnswerError:
                found = self.latest
        report = LimitReport(found, self.wall())
        await self._in_slices(map(report.add, rows))
        self.latest = report.finish()
        return self.latest

    async def _rows_of(
        self, settings: EdgeAuthSettings, keys: Sequence[NamedKeySettings]
    ) -> Sequence[Allowance]:
        made_of = self._made_of
        is_same = (
            made_of is not None
            and made_of[0] is settings
            and len(made_of[1]) == len(keys)
            and all(map(is_, made_of[1], keys))
        )
        if is_same:
            return self._rows
        rows: list[Allowance] = []
        await self._in_slices(map(rows.extend, rows_by_holder(settings, keys)))
        self._made_of, self._rows = (settings, keys), rows
        return rows

    async def _in_slices(self, steps: Iterator[None]) -> None:
        """Take all steps, and let others go on between them."""
        until = monotonic() + SLICE_SECONDS
        for _ in steps:
            if monotonic() > until:
                await deferLater(self.reactor, 0)
                until = monotonic() + SLICE_SECONDS
