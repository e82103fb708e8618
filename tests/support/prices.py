"""What an exchange is charged by, beside its answer."""

from __future__ import annotations

from msgspec import Struct

from mgw.usage.event import SessionCounts
from mgw.usage.prices import SessionBill


class Measures(Struct):
    """What is known of an exchange beside what its answer says."""

    wall: float = 0.0
    session: SessionCounts | None = None
    characters: int | None = None
    bill: SessionBill | None = None
