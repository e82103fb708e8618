"""Key files as commands write them: a new file beside the old one, which it then replaces at once."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import Final

import yaml

LOCK_SECONDS: Final = 10.0
"""How long a command waits for others that change files of the same directory."""
_PAUSE_SECONDS: Final = 0.02
_MODE: Final = 0o640
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK})
"""What a file system says that has no hard links."""

Setting = str | bool | list[object] | dict[str, object] | None
"""The value of a setting; a text is written as it is, so a moment stays one. ``None``: the setting goes."""


@contextmanager
def alone_in(directory: str) -> Iterator[None]:
    """Keep other commands from changing files of a directory within a block.

    What one of them writes replaces a file as it has read it: without this, a key that is revoked and rotated
    at once might stay valid.  A file system that knows no locks has none.

    :raises TimeoutError: another command does not end.
    :raises OSError: the directory cannot be read.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    until = monotonic() + LOCK_SECONDS
    try:
        while not _has_locked(descriptor):
            if monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, "another command has locked the directory", directory)
            sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _has_locked(descriptor: int) -> bool:
    """Lock what is open, until it is closed, or tell that somebody else has."""
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # NFS locks no directories
        return True
    return True


def write_settings(settings: Mapping[str, object]) -> str:
    """Return a key file with these settings, one a line, in the flow style of YAML."""
    return "".join(f"{name}: {write_value(value)}\n" for name, value in settings.items())


def write_value(value: object) -> str:
    """Return a value in YAML, on one line; moments and words of our own are :class:`Plain`."""
    if isinstance(value, Plain):
        return str(value)
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{write_value(name)}: {write_value(one)}" for name, one in value.items()) + "}"
        )
    if isinstance(value, list):
        return f"[{', '.join(map(write_value, value))}]"
    return json.dumps(value, ensure_ascii=True)


class Plain(str):
    """A word that needs no quotes in YAML."""

    __slots__ = ()


def edit_settings(text: str, changes: Mapping[str, object | None]) -> str:
    """Return the text of a key file with some of its settings replaced, added, or removed (``None``).

    All else stays as it was written, comments included.

    :raises ValueError: it is no mapping in block style, as key files are.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        raise ValueError("expected one setting on each line, as mgw key add writes them")
    left = dict(changes)
    for key, value in reversed(node.value):
        name = str(key.value)
        if name not in left:
            continue
        new = left.pop(name)
        start, end = key.start_mark.index, _end_of(value)
        if new is None:
            begin, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
            text = text[:begin] + ("" if line_end < 0 else text[line_end + 1 :])
        else:
            text = f"{text[:start]}{name}: {write_value(new)}{text[end:]}"
    if text and not text.endswith("\n"):
        text += "\n"
    return text + write_settings({name: value for name, value in left.items() if value is not None})


def _end_of(node: yaml.Node) -> int:
    """Return where a value ends: the end of a block is where the next token begins, behind comments."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end_of(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def create_file(path: Path, text: str) -> None:
    """Write a file that is not there yet.

    :raises FileExistsError: it is there.
    :raises OSError: it cannot be written.
    """
    beside = _write_beside(path, text)
    try:
        try:
            os.link(beside, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            os.rename(beside, path)
            return
        os.unlink(beside)
    except BaseException:
        _remove(beside)
        raise
    finally:
        _sync_directory(path.parent)


def replace_file(path: Path, text: str) -> None:
    """Write a file in place of the one that is there.

    :raises OSError: it cannot be written.
    """
    beside = _write_beside(path, text)
    try:
        os.rename(beside, path)
    except BaseException:
        _remove(beside)
        raise
    _sync_directory(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file for good.

    :raises OSError: it cannot be removed.
    """
    os.unlink(path)
    _sync_directory(path.parent)


def _write_beside(path: Path, text: str) -> Path:
    """Write a file whose name the gateway ignores; its group is that of the directory."""
    beside = path.with_name(f".{path.name}.{token_hex(8)}")
    group = _group_of(path.parent)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            if os.fstat(descriptor).st_gid != group:
                _set_group(descriptor, group)
            os.fchmod(descriptor, _MODE)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        _remove(beside)
        raise
    return beside


def _group_of(path: Path) -> int:
    return os.stat(path).st_gid


def _set_group(descriptor: int, group: int) -> None:
    try:
        os.fchown(descriptor, -1, group)
    except PermissionError as error:
        words = "a file cannot be given the group of its directory: run the command as root, or as a member"
        raise PermissionError(error.errno, words) from None


def _remove(path: Path) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:  # some file systems have no such thing; the file itself is written
        return
    finally:
        os.close(descriptor)
