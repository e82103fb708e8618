"""Define the figures of reports, once for the dashboard, ``mgw usage``, metrics and alerts.

Each request is exactly one of ``answered``, ``failed`` (it went upstream and failed there), ``rejected``
(refused by the gateway) and ``aborted`` (its client left).  Times are those of answered HTTP requests alone:
a refusal takes no time, and a session lasts as long as its client wants.

Two figures say what other sums lack.  ``unpriced`` requests have no cost although they asked a model and were
answered, or were sessions, however those ended: the cases in which :meth:`mgw.usage.prices.PriceTable.charge`
says why.  An event does not have what prices there were, so without any, all of these are unpriced.
``uncounted`` requests were answered with a stream that told no tokens.

Everything follows from the event's columns, so that a file has it of its past as well.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.nouns.vocabulary import Modality
from mgw.usage.event import Outcome
from mgw.usage.labels import UNMETERED

FIGURES: Final = MappingProxyType(
    {
        Outcome.OK: "answered",
        Outcome.UPSTREAM_ERROR: "failed",
        Outcome.REJECTED: "rejected",
        Outcome.CLIENT_ABORT: "aborted",
    }
)
"""The figure in which an outcome counts."""
_PLATFORM: Final = Modality.PLATFORM.value
_CONSUMES: Final = (
    f"provider IS NOT NULL AND modality <> '{_PLATFORM}' "
    f"AND route NOT IN ({', '.join(map(repr, sorted(UNMETERED)))})"
)
_CONSUMES_COLUMNS: Final = ("provider", "modality", "route")
IS_UNPRICED: Final = (
    f"cost_usd IS NULL AND (status = '{Outcome.OK}' OR session_minutes IS NOT NULL) AND {_CONSUMES}"
)
"""Whether an event has no price although it should, in SQL."""
UNPRICED_COLUMNS: Final = ("cost_usd", "status", "session_minutes", *_CONSUMES_COLUMNS)
IS_UNCOUNTED: Final = (
    f"stream = 1 AND status = '{Outcome.OK}' AND tokens_in IS NULL AND tokens_out IS NULL AND {_CONSUMES}"
)
"""Whether a stream has no counts although it should, in SQL."""
UNCOUNTED_COLUMNS: Final = ("stream", "status", "tokens_in", "tokens_out", *_CONSUMES_COLUMNS)
IS_TIMED: Final = f"transport = 'http' AND status = '{Outcome.OK}'"
"""Whether the times of an event count, in SQL."""
TIMED_COLUMNS: Final = ("transport", "status")
