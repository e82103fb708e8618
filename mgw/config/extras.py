"""The command that installs what an optional feature needs: messages and descriptions of settings show it."""

from __future__ import annotations

from mgw import DISTRIBUTION


def pip_install(extra: str) -> str:
    """Return the command for an extra of ``setup.py``, quoted for a shell."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
