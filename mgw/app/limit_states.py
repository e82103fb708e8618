"""Ask what is used of limits, for the page of metrics and for the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as NoAnswerError

from mgw.clients.limit_report import configured_rows, report_rows
from mgw.clients.limits import Allowance, Counts, RowState
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.key_settings import NamedKeySettings
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
    """The rows of these: thousands of keys take tens of milliseconds."""

    async def read(self) -> Sequence[RowState]:
        """Return the rows of the moment."""
        rows = self._rows_of(self.settings(), self.file_keys())
        asked = self.counts.state()
        if isinstance(asked, list):
            found: Sequence[RowState] = asked
        else:
            assert isinstance(asked, Deferred), "what counts elsewhere answers with one"
            try:
                found = await shielded(asked).addTimeout(ANSWER_SECONDS, self.reactor)
            except NoAnswerError:
                found = self.latest
        self.latest = report_rows(rows, found, self.wall())
        return self.latest

    def _rows_of(self, settings: EdgeAuthSettings, keys: Sequence[NamedKeySettings]) -> Sequence[Allowance]:
        made_of = self._made_of
        is_same = (
            made_of is not None
            and made_of[0] is settings
            and len(made_of[1]) == len(keys)
            and all(map(is_, made_of[1], keys))
        )
        if not is_same:
            self._made_of, self._rows = (settings, keys), configured_rows(settings, keys)
        return self._rows
