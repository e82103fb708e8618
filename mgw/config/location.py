"""Where the configuration file is, and what to do if it cannot be read."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from mgw.config.quoting import nearest_word

DEFAULT_FILE: Final = "/etc/mgw.yaml"
AS_WHOM: Final = "run the command as root, or as the user of the gateway"
"""What to do about a file that only they may read."""
_USUAL_NAME: Final = "mgw.yaml"
_SUFFIXES: Final = (".yaml", ".yml")


def describe_unreadable(file: str, error: OSError, command: str) -> str:
    """Return a line for an operator.

    :param file: its name, as the operator gave it.
    :param command: what stands before a file's name, such as ``mgw check`` or ``-c``, for a better one.
    """
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        folder = Path(file).parent
        why = "" if folder.is_dir() else f" (folder {folder} does not exist)"
        return f"configuration file not found: {file}{why}{_instead(Path(file), command)}"
    reason = f"configuration file {file} cannot be read: {error.strerror}"
    if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid():
        return f"{reason}; {AS_WHOM}"
    return reason


def _instead(file: Path, command: str) -> str:
    """Name the file that was meant: the usual one in this folder, or one with nearly the same name."""
    folder = Path() if file == Path(DEFAULT_FILE) else file.absolute().parent
    names = _names_in(folder)
    is_here = folder == Path() and _USUAL_NAME in names
    found = _USUAL_NAME if is_here else nearest_word(file.name, names)
    if found is None:
        return f"; to create one: mgw example > {_USUAL_NAME}"
    return f"; did you mean: {command} {found if folder in (Path(), Path.cwd()) else folder / found}"


def _names_in(folder: Path) -> list[str]:
    """Return the names of the YAML files in a folder."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.endswith(_SUFFIXES) and entry.is_file()]
    except OSError:
        return []
