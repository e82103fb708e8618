"""Where the keys of a provider come from, as settings, environment and files say at one moment."""

from __future__ import annotations

from msgspec import Struct

from mgw.credentials.aws.keys import KeySource

FileState = tuple[int, int, int] | None
"""What tells one state of a file from another; ``None``: it is not there."""


class NoKeys(Struct, frozen=True):
    """There is no source of keys, so far."""

    message: str
    """Says where they were looked for."""


class FoundKeys(Struct, frozen=True):
    """A source of keys, and what could lead to another one."""

    source: KeySource | NoKeys
    files: tuple[tuple[str, FileState], ...] = ()
    """The files that were asked, in which something else may stand later, each with its state."""
    looked_at: str | None = None
    """The sources that had none, where what is left is an instance's metadata service, if it is there."""
