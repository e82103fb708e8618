"""How long a test waits for what must happen: long, since a busy machine is no defect."""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 60.0
"""Seconds.  What must *not* take long is shown by what else would have to pass first, or by CPU time."""
