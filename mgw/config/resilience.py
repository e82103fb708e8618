"""Settings of retries: what is retried, and how often."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from mgw.config.settings_base import SetOf, Settings, expect, setting

RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504, 529})
MAX_ATTEMPTS: Final = 10

Attempts = Annotated[int, Field(ge=0, le=MAX_ATTEMPTS), expect(f"a whole number from 0 to {MAX_ATTEMPTS}")]
ErrorStatus = Annotated[int, Field(ge=400, le=599), expect("a status from 400 to 599")]


class RetriesSettings(Settings):
    """When requests are retried."""

    attempts: Attempts = setting(
        "How often a request is sent again to the same provider, before anything has reached the client",
        "The pauses grow from half a second to eight seconds, or follow ``Retry-After``, up to 30 "
        "seconds. ``docs/resilience.rst`` describes what is retried.",
        default=0,
    )
    statuses: SetOf[ErrorStatus] = setting(
        "Response statuses of a provider after which a request is sent again",
        "After these, an alias with several targets also fails over to its next target, even with "
        "``attempts: 0``.",
        default=RETRIED_STATUSES,
        shown=", ".join(f"``{status}``" for status in sorted(RETRIED_STATUSES)),
    )
