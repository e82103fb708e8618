"""The ``Date`` of an answer that the gateway makes (RFC 9110 6.6.1): rendered once a second."""

from __future__ import annotations

from email.utils import formatdate
from functools import lru_cache


def date_header(wall: float) -> tuple[bytes, bytes]:
    """Return the header.

    :param wall: unix seconds.
    """
    return _at(int(wall))


@lru_cache(maxsize=4)
def _at(seconds: int) -> tuple[bytes, bytes]:
    return b"Date", formatdate(seconds, usegmt=True).encode()
