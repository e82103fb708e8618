"""Whether the heads that a server in memory is sent have come before: its promises hold either way.

What is known of a head is used in place of reading it, so tests of requests run with both: a module says so
by ``pytestmark = pytest.mark.usefixtures("heads")``.  The server of
:class:`tests.support.web_servers.WebServerHarness` then knows each head from two other clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Final


class Heads(Enum):
    """What a server knows of the heads that come."""

    NEW = "new heads"
    KNOWN = "known heads"


_current: Final[ContextVar[Heads]] = ContextVar("heads", default=Heads.NEW)


def current_heads() -> Heads:
    """Return what servers in memory are to know of heads."""
    return _current.get()


@contextmanager
def use_heads(heads: Heads) -> Iterator[None]:
    """Run a block with heads of one kind."""
    token = _current.set(heads)
    try:
        yield
    finally:
        _current.reset(token)
