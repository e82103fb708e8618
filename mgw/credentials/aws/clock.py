"""How far a host's clock is from this machine's: signatures hold for five minutes of the host's time.

Each answer says when the host gave it.  That was between the moments at which the request was sent and the
head of the answer came, so it gives two bounds of the offset: an answer that was long in the making says
little, and what is known stays as it is while it fits.  Answers of a cache (``Age``) are not asked.

Sources: the values and the cases of the AWS SDKs (``clock-skew-test-cases.json``).
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import Final

from twisted.logger import Logger

from mgw.credentials.aws.errors import MAYBE_SKEWED, SKEWED

MOST_SECONDS: Final = 4 * 60.0
"""The largest offset that signatures are not corrected by."""
MAX_WAIT_SECONDS: Final = 15 * 60.0
"""An answer that came later than this after its request says nothing."""
_read_date: Final = re.compile(
    rb"[A-Z][a-z]{2}, ([0-9]{2} [A-Z][a-z]{2} 2[0-9]{3})"
    rb" ([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9]|60) GMT"
).fullmatch
_log: Final = Logger()


class HostClock:
    """The clock of one provider's host, as its answers show it.

    :param provider: its name, for the log.
    """

    __slots__ = ("__weakref__", "_day", "_day_began", "_has_warned", "_offset", "_provider", "correction")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self.correction = 0.0
        """Seconds that are added to our time to sign in the host's; 0 where the two are close."""
        self._offset: float | None = None
        self._has_warned = False
        self._day, self._day_began = b"", 0.0

    def __repr__(self) -> str:
        return f"HostClock({self._provider!r}, {self.correction:+.0f} s)"

    def note(self, date: bytes, sent_at: float, received_at: float) -> None:
        """Learn from an answer.

        :param date: its ``Date``.
        :param sent_at: unix seconds at which the request was signed.
        :param received_at: unix seconds at which the head of the answer came.
        """
        match = _read_date(date)
        if match is None or not 0 <= received_at - sent_at <= MAX_WAIT_SECONDS:
            return
        day, hours, minutes, seconds_of_minute = match.groups()
        if day != self._day and not self._begin_day(day):
            return
        seconds = self._day_began + int(hours) * 3600 + int(minutes) * 60 + int(seconds_of_minute)
        earliest, latest = seconds - received_at, seconds + 1 - sent_at  # a date has no fractions
        offset = self._offset = min(max(self._offset or 0.0, earliest), latest)
        is_off = abs(offset) > MOST_SECONDS
        self.correction = offset if is_off else 0.0
        if is_off and not self._has_warned:
            self._has_warned = True
            self._warn(offset)

    def explains(self, error_type: str | None, correction: float) -> bool:
        """Whether a request may have been refused for its time, and would be signed in another one now.

        :param error_type: AWS's name of the refusal.
        :param correction: what was :attr:`correction` as the request was signed.
        """
        if self._offset is None:  # nothing is known of the host's time
            return False
        if error_type in SKEWED:
            return True
        return error_type in MAYBE_SKEWED and abs(self._offset - correction) > MOST_SECONDS

    def _begin_day(self, day: bytes) -> bool:
        """Find out when a day began; false: there is no such day."""
        try:
            began = parsedate_to_datetime(f"{day.decode()} 00:00:00 GMT").timestamp()
        except (ValueError, OverflowError):
            return False
        self._day, self._day_began = day, began
        return True

    def _warn(self, offset: float) -> None:
        _log.warn(
            "the clock of this machine is {seconds:.0f} s {direction} the clock of provider {provider}: "
            "requests are signed in the provider's time; have the machine's clock set, for example by NTP",
            seconds=abs(offset),
            direction="behind" if offset > 0 else "ahead of",
            provider=self._provider,
        )
