"""The shared files of AWS's tools: profiles with keys, roles and regions.

``~/.aws/credentials`` and ``~/.aws/config`` are INI files of a dialect of their own.  Sources: botocore's
``configloader.py``, AWS's reference of the format ("Shared config and credentials files"), and the cases that
the SDKs share (``profile-parser-tests.json``).  In it:

- a profile is ``[NAME]`` in the credentials file, and ``[profile NAME]`` or ``[default]`` in the other, where
  all other sections are something else;
- names of settings have no case, a setting that stands twice counts as it stands last, and a section that
  stands twice is one;
- a line that is indented deeper than a setting continues it; so are blocks of settings (``s3 =``) written,
  which say nothing of credentials;
- ``#`` and ``;`` begin a comment at the start of a line, and behind a blank.

Where both files have a profile, it has the settings of both, and those in the credentials file win.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from msgspec import Struct

from mgw.config.aws_settings import CONFIG_FILE_VARIABLE, CREDENTIALS_FILE_VARIABLE
from mgw.config.file_faults import shown_path, unreadable
from mgw.config.quoting import is_quotable, quote, suggestion
from mgw.reactor.regular_file import read_regular_file

MAX_FILE_BYTES: Final = 1024 * 1024
DEFAULT: Final = "default"
_MOST_COMPARED: Final = 1000
"""Names that a wrong one is compared with."""
_MAX_HEADER: Final = 1024
"""Characters; the section of a longer one, which would take long to read, is no profile."""
_HEADER: Final = re.compile(r"\[([^\]]*)\]\s*(?:[#;].*)?")
_SETTING: Final = re.compile(r"([^=:]*)[=:](.*)", re.DOTALL)
_COMMENT: Final = re.compile(r"(?:^|\s)[#;].*", re.DOTALL)
_PREFIXED: Final = re.compile(r"profile\s+(.+)")

ReadFile = Callable[[str], bytes | None]
"""Reads a file; ``None``: there is none.

:raises OSError: it cannot be read.
"""


class Variables(Protocol):
    """An environment."""

    def get(self, name: str, /) -> str | None:
        """Return the value of a variable."""
        ...


def read_shared_file(path: str) -> bytes | None:
    """Read a file from the disk, if it is there; this blocks.

    :raises OSError: it cannot be read, or is far too large.
    """
    try:
        return read_regular_file(path, MAX_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None


class AwsProfile(Struct, frozen=True):
    """What the two files say of one profile."""

    name: str
    credentials: Mapping[str, str] = {}
    """The settings in the credentials file."""
    config: Mapping[str, str] = {}
    """Those in the other one."""

    def get(self, name: str) -> str | None:
        """Return a setting, from whichever file; one that is empty is not there."""
        return self.credentials.get(name) or self.config.get(name) or None

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __repr__(self) -> str:  # the files hold keys
        return f"AwsProfile({quote(self.name)})"


def shared_files(environ: Variables) -> tuple[str, str]:
    """Return the paths of the credentials file and of the other one."""
    home = environ.get("HOME") or "/"
    found = []
    for variable, usual in ((CREDENTIALS_FILE_VARIABLE, "credentials"), (CONFIG_FILE_VARIABLE, "config")):
        path = environ.get(variable) or f"~/.aws/{usual}"
        found.append(posixpath.join(home, path[2:]) if path.startswith("~/") else path)
    return found[0], found[1]


def read_profiles(environ: Variables, read: ReadFile) -> dict[str, AwsProfile]:
    """Return the profiles in the shared files, by name.

    :raises ValueError: a file cannot be read, or is not of this format; the text names it.
    """
    credentials_file, config_file = shared_files(environ)
    credentials = _read(credentials_file, _credentials_section, read)
    config = _read(config_file, _config_section, read)
    owned = {name: settings for (name, _), settings in credentials.items()}
    others = {name: settings for (name, is_prefixed), settings in config.items() if not is_prefixed}
    others |= {name: settings for (name, is_prefixed), settings in config.items() if is_prefixed}
    return {
        name: AwsProfile(name, owned.get(name, {}), others.get(name, {}))
        for name in dict.fromkeys((*owned, *others))
    }


def profile_named(
    name: str, profiles: Mapping[str, AwsProfile], environ: Variables, variable: str | None = None
) -> AwsProfile:
    """Return the profile of a name.

    :param environ: the environment, which says where the files are.
    :param variable: the variable that has the name, if it is not a setting or a file that has it.
    :raises ValueError: there is none; the text says where it would be, as the files differ in how.
    """
    found = profiles.get(name)
    if found is None:
        guess = suggestion(name, filter(is_quotable, islice(profiles, _MOST_COMPARED)))
        credentials, config = map(shown_path, shared_files(environ))
        places = f"([NAME] in {credentials} or [profile NAME] in {config})"
        source = "" if variable is None else f"{variable}: "
        raise ValueError(f"{source}no profile of AWS is named {quote(name)} {places}{guess}")
    return found


_Key = tuple[str, bool]
"""The name of a profile, and whether its section says ``profile`` before it."""
_Sections = dict[_Key, dict[str, str]]


def _read(path: str, key_of: Callable[[str], _Key | None], read: ReadFile) -> _Sections:
    try:
        content = read(path)
    except OSError as error:
        raise ValueError(unreadable(path, error)) from None
    if content is None:
        return {}
    try:
        return _Parser(key_of).parse(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(f"{shown_path(path)} is not a text file in UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{shown_path(path)}, {error}") from None


def _credentials_section(header: str) -> _Key | None:
    name = header.strip()
    return (name, False) if name else None


def _config_section(header: str) -> _Key | None:
    """Return the key of a section of the config file; ``None``: it is no profile."""
    header = header.strip()
    if header == DEFAULT:
        return DEFAULT, False
    prefixed = _PREFIXED.fullmatch(header)
    if prefixed is None or len(header) > _MAX_HEADER:
        return None
    try:
        parts = shlex.split(prefixed[1])
    except ValueError:  # a quotation mark without its other
        return None
    return (parts[0], True) if len(parts) == 1 else None


@dataclass(slots=True, eq=False, repr=False)
class _Parser:
    """Reads one file, line by line."""

    key_of: Callable[[str], _Key | None]
    _found: dict[_Key, dict[str, list[str]]] = field(default_factory=dict)
    _section: dict[str, list[str]] | None = None
    """The settings of the section; ``None``: there was none yet."""
    _pieces: list[str] | None = None
    """The lines of the setting that the next line may continue."""
    _indent: int = 0
    """How far the last setting or section is indented."""

    def parse(self, text: str) -> _Sections:
        """Return the settings by their profiles.

        :raises ValueError: a line is none of this format; the text says which.
        """
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for number, line in enumerate(lines, 1):
            stripped = line.strip()
            if stripped and stripped[0] not in "#;":
                try:
                    self._take(stripped, len(line) - len(line.lstrip()))
                except ValueError as error:
                    raise ValueError(f"line {number}: {error}") from None
        return {
            key: {name: "\n".join(pieces) for name, pieces in settings.items()}
            for key, settings in self._found.items()
        }

    def _take(self, stripped: str, indent: int) -> None:
        if self._pieces is not None and indent > self._indent:
            self._pieces.append(stripped)
            return
        self._indent = indent
        if stripped[0] == "[":
            self._begin_section(stripped)
        elif self._section is None:
            raise ValueError("expected the name of a profile in brackets")
        else:
            self._begin_setting(stripped, self._section)

    def _begin_section(self, line: str) -> None:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise ValueError("expected ] behind the name of a profile")
        key = self.key_of(header[1])
        self._section = {} if key is None else self._found.setdefault(key, {})
        self._pieces = None

    def _begin_setting(self, line: str, section: dict[str, list[str]]) -> None:
        setting = _SETTING.fullmatch(line)
        name = "" if setting is None else setting[1].strip().lower()
        if setting is None or not name:
            raise ValueError("expected a setting as name = value")
        self._pieces = section[name] = [_COMMENT.sub("", setting[2]).strip()]
