"""Why a file that a configuration names cannot be used, and what to change.

``No such file or directory`` leaves open whether the file or its folder is missing, and ``Permission denied``
who is denied what.  Nothing is created or written here.
"""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path
from typing import Final

from mgw.config.quoting import redact

_LONGEST: Final = 160


def unreadable(path: str, error: OSError, *, hides_path: bool = False) -> str:
    """Say why a file could not be read.

    :param error: what came of it.
    :param hides_path: leave the path out, since a credential may stand in its place.
    """
    named = "" if hides_path else f": {shown_path(path)}"
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return f"file not found{named}{'' if hides_path else _where_it_ends(Path(path))}"
        case errno.EACCES | errno.EPERM:
            return f"permission denied for user {user_name()}{named}"
        case errno.EISDIR:
            return f"expected a file, found a directory{named}"
    return f"{named.removeprefix(': ') or 'the file'} cannot be read: {error.strerror}"


def unwritable(path: str) -> str | None:
    """Say why a file cannot be written or made; ``None``: nothing seems to be in the way."""
    file, named = Path(path), shown_path(path)
    if os.path.isdir(path):
        return f"{named} cannot be written: expected a file, found a directory"
    if os.path.exists(path):
        return None if _may(path, os.W_OK) else f"{named} cannot be written: {_denied(file)}"
    reason = _no_folder(file.absolute().parent, makes_folders=False)
    return None if reason is None else f"{named} cannot be written: {reason}"


def unusable_folder(path: str) -> str | None:
    """Say why files cannot be made in a folder, which is made itself if it is missing; ``None``: they can."""
    reason = _no_folder(Path(path).absolute(), makes_folders=True)
    return None if reason is None else f"{shown_path(path)} cannot be written to: {reason}"


def shown_path(path: str | Path) -> str:
    """Return a path on one line, without what may be a key in it, and not too long."""
    text = redact(str(path))
    if not text.isprintable():
        text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def user_name() -> str:
    """Return the name of the user whom this process runs as, or the number where there is no name."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _no_folder(folder: Path, *, makes_folders: bool) -> str | None:
    there = _nearest(folder)
    if not there.is_dir():
        return f"{shown_path(there)} is not a folder"
    if there != folder and (not makes_folders or not _may(there, os.X_OK)):
        return _why_not_there(folder, there)
    return None if _may(there, os.W_OK | os.X_OK) else f"{_denied(there)} in folder {shown_path(there)}"


def _may(place: str | Path, mode: int) -> bool:
    """Whether this process may do that, as the user that it acts as."""
    return os.access(place, mode, effective_ids=os.access in os.supports_effective_ids)


def _denied(place: Path) -> str:
    try:
        is_read_only = bool(os.statvfs(place).f_flag & os.ST_RDONLY)
    except OSError:
        is_read_only = False
    return "the file system is read-only" if is_read_only else f"permission denied for user {user_name()}"


def _where_it_ends(file: Path) -> str:
    """Say which part of a path is missing, and where a relative one was looked for."""
    folder = file.absolute().parent
    there = _nearest(folder)
    if not there.is_dir():
        return f" ({shown_path(there)} is not a folder)"
    if there != folder:
        return f" ({_why_not_there(folder, there)})"
    return "" if file.is_absolute() else f" (in {shown_path(folder)})"


def _why_not_there(folder: Path, there: Path) -> str:
    if not _may(there, os.X_OK):  # then nobody can tell what is in it
        return f"{_denied(there)} in folder {shown_path(there)}"
    return f"folder {shown_path(folder)} does not exist"


def _nearest(place: Path) -> Path:
    """Return the deepest part of a path that exists."""
    while not os.path.exists(place) and place != place.parent:  # unlike Path's, it takes a name of any length
        place = place.parent
    return place
