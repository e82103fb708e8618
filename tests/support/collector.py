"""The garbage collector, out of the way of what is measured."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collector() -> Iterator[None]:
    """Keep the collector off: a walk over all that a whole test run holds is not the cost of one call."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
