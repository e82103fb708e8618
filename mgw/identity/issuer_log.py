"""What the log says of the keys of issuers: their ids, and why none could be had."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from twisted.logger import Logger

from mgw.clients.tokens.key_set import KeySet, shown_id
from mgw.config.quoting import shown
from mgw.identity.issuers import marks_of

FAILURE_SECONDS: Final = 60.0
"""The least time between two lines on failed fetches of one issuer."""
MOST_REASONS: Final = 1000
"""How many keys that are left out are remembered of an issuer, so that the log names each once."""
_MOST_IDS: Final = 20
_log: Final = Logger()


@dataclass(slots=True, eq=False, repr=False)
class IssuerLog:
    """Writes about one issuer.

    :param monotonic: seconds on a clock that nobody sets.
    """

    name: str
    monotonic: Callable[[], float]
    _failed_at: float = float("-inf")
    """When the log told of a failed fetch last."""
    _has_failed: bool = False
    """Whether it told of one since the last good fetch."""
    _left_out: set[str] = field(default_factory=set)

    def on_keys(self, before: KeySet | None, keys: KeySet) -> None:
        """Say what has changed, if something has."""
        name = shown(self.name)
        if self._has_failed:
            self._has_failed = False
            _log.info("issuer {name}: the keys could be fetched again", name=name)
        change = format_change(before, keys)
        if change:
            _log.info("issuer {name}: keys {change}", name=name, change=change)
        if len(self._left_out) > MOST_REASONS - len(keys.left_out):
            self._left_out.clear()
        for reason in keys.left_out:
            if reason not in self._left_out:
                self._left_out.add(reason)
                _log.warn("issuer {name}: left out {reason}", name=name, reason=reason)

    def on_failure(self, reason: str) -> None:
        """Say why a fetch has failed, now and then."""
        now = self.monotonic()
        if now - self._failed_at >= FAILURE_SECONDS:
            self._failed_at, self._has_failed = now, True
            _log.warn(
                "issuer {name}: the keys could not be fetched: {reason}", name=shown(self.name), reason=reason
            )

    def on_stale(self) -> None:
        """Say that keys may not be used any longer."""
        _log.error(
            "issuer {name}: no keys were fetched for max_stale seconds: its tokens are rejected (503)",
            name=shown(self.name),
        )


def format_change(before: KeySet | None, after: KeySet) -> str:
    """Return which keys are new, others by the same id, or gone; empty if none."""
    old, new = marks_of(before), marks_of(after)
    had, have = {mark[0] for mark in old}, {mark[0] for mark in new}
    touched = {mark[0] for mark in old ^ new}
    parts = (
        ("added", touched & (have - had)),
        ("changed", touched & have & had),
        ("removed", touched & (had - have)),
    )
    return "; ".join(f"{what}: {_listed(ids)}" for what, ids in parts if ids)


def _listed(ids: Iterable[str | None]) -> str:
    found = sorted(map(shown_id, ids))
    more = f" and {len(found) - _MOST_IDS} more" if len(found) > _MOST_IDS else ""
    return ", ".join(found[:_MOST_IDS]) + more
