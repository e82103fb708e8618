"""The ``Date`` of an answer that the gateway makes (RFC 9110 6.6.1): rendered once a second."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from time import time


def date_header(wall: Callable[[], float] = time) -> bytes:
    """Return the value for now."""
    return _date_of(int(wall()))


@lru_cache(maxsize=2)
def _date_of(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()
