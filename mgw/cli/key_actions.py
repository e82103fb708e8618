"""What the commands of ``mgw key`` do."""

from __future__ import annotations

import argparse
import re
import sys
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import tzinfo
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes
from time import time
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.app.check import read_or_tell, reader_of
from mgw.cli.key_file import (
    Plain,
    alone_in,
    create_file,
    edit_settings,
    remove_file,
    replace_file,
    write_settings,
)
from mgw.cli.output import Cell, print_json, print_rows
from mgw.cli.subcommands import Action, CallError, FailedError, tell
from mgw.clients.key_rows import IN_CONFIG, KeyRow, file_rows, key_row
from mgw.config.advice import patterns_without_models
from mgw.config.file_faults import shown_path, unreadable
from mgw.config.groups import checked_holder_name
from mgw.config.key_settings import NamedKeySettings
from mgw.config.load import parse_key_file
from mgw.config.problems import ConfigError
from mgw.config.quoting import quote
from mgw.config.settings import Config
from mgw.config.time_zones import parse_expiry, rfc3339, zone_of
from mgw.config.value_hints import value_hint
from mgw.identity.key_rules import key_rules
from mgw.identity.keys_dir import ENDING, MAX_FILE_BYTES, KeysDirectory
from mgw.reactor.regular_file import read_regular_file

COLUMNS: Final = ("name", "state", "groups", "expires", "previous_expires", "where")
_KEY_BYTES: Final = 32
_KEY_BEGINS: Final = "mgw_"
_DURATION: Final = re.compile(r"([0-9]{1,6})([hd])")
_LIMIT: Final = re.compile(r"(requests|tokens|usd|in_flight)=([0-9]+(?:\.[0-9]+)?)(?:/([a-z]+))?")
_SECONDS: Final = MappingProxyType({"h": 3600, "d": 86_400})


class KeyDirectory(Struct, frozen=True):
    """The directory that a command works in."""

    directory: str
    config: Config | None
    """``None``: the directory was named, and nobody knows the groups that there are."""

    def file_of(self, name: str) -> Path:
        """Return the file of a key."""
        return Path(self.directory) / f"{name}{ENDING}"

    def parse(self, text: str, name: str) -> NamedKeySettings:
        """Read a key file.

        :raises ConfigError: it is no valid key.
        """
        return parse_key_file(text, name, str(self.file_of(name)), self.config)[0]


def add_key(said: argparse.Namespace) -> int:
    """``mgw key add NAME``."""
    setup, name = _set_up(said), _checked_name(said.name)
    key, settings = _new_key(), _stated_settings(said)
    text = write_settings({"sha256": _digest_of(key), **settings})
    try:
        found = setup.parse(text, name)
    except ConfigError as error:
        raise CallError(_without_places(error)) from None
    if found.expires is not None and found.expires.ends(_zone(setup)) <= time():
        raise CallError("--expires: this time is in the past")
    _refuse_configured(setup, name)
    try:
        with alone_in(setup.directory):
            create_file(setup.file_of(name), text)
    except FileExistsError:
        file = shown_path(setup.file_of(name))
        advice = "to replace it, use `mgw key rotate`, or `mgw key revoke --delete` before"
        raise FailedError(f"there is a key of this name: {file}; {advice}") from None
    sys.stdout.write(f"{key}\n")
    for warning in () if setup.config is None else patterns_without_models(setup.config, said.model):
        tell(said, f"warning: --model: {warning}", 0)
    return 0


def rotate_key(said: argparse.Namespace) -> int:
    """``mgw key rotate NAME``."""
    setup, name = _set_up(said), _checked_name(said.name)
    overlap = 0 if said.overlap == "0" else _seconds_in(said.overlap, "--overlap")
    with alone_in(setup.directory):
        before, text = _read_key(setup, name)
        assert before.sha256 is not None, "the file is valid"
        key, previous = _new_key(), None
        if overlap:
            ends = Plain(rfc3339(time() + overlap))
            previous = {Plain("sha256"): before.sha256.reveal(), Plain("expires"): ends}
        _write_changes(setup, name, text, {"sha256": _digest_of(key), "previous": previous})
    sys.stdout.write(f"{key}\n")
    _warn_if_rejected(said, setup, before)
    return 0


def _warn_if_rejected(said: argparse.Namespace, setup: KeyDirectory, key: NamedKeySettings) -> None:
    """Say so where a key that was rotated is still rejected."""
    path = shown_path(setup.file_of(key.name))
    if key.disabled:
        tell(said, f"warning: the key is disabled: to enable it, remove disabled from {path}", 0)
    elif key.expires is not None and key.expires.ends(_zone(setup)) <= time():
        tell(said, f"warning: the key has expired: to renew it, change expires in {path}", 0)


def revoke_key(said: argparse.Namespace) -> int:
    """``mgw key revoke NAME``."""
    setup, name = _set_up(said), _checked_name(said.name)
    with alone_in(setup.directory):
        if said.delete:
            _need_file(setup, name)
            remove_file(setup.file_of(name))
            return 0
        _, text = _read_key(setup, name, "; to revoke the key nevertheless, use --delete")
        _write_changes(setup, name, text, {"disabled": True})
    return 0


def list_keys(said: argparse.Namespace) -> int:
    """``mgw key list``."""
    setup = _set_up(said, needs_directory=False)
    config, now, zone = setup.config, time(), _zone(setup)
    named = () if config is None else config.edge_auth.named
    rows = [key_row(key, now, zone, IN_CONFIG) for key in named]
    if setup.directory:
        found = KeysDirectory(setup.directory, key_rules(config))
        found.read_all()
        if "" in found.faults:
            raise FailedError(found.faults[""])
        rows += file_rows(found.keys, found.faults, now, zone)
    if said.format == "json":
        print_json([{name: getattr(row, name) for name in COLUMNS} for row in rows])
    else:
        print_rows(said.format, COLUMNS, list(map(_cells, rows)), "no keys with names")
    return 0


ACTIONS: Final[Mapping[str, Action]] = MappingProxyType(
    {"add": add_key, "rotate": rotate_key, "revoke": revoke_key, "list": list_keys}
)


def _set_up(said: argparse.Namespace, *, needs_directory: bool = True) -> KeyDirectory:
    """Find the directory of key files.

    :raises CallError: both it and the configuration are named.
    :raises FailedError: there is none.
    """
    if said.dir is not None:
        if said.names_file:
            raise CallError("two directories, that of -c and that of --dir: name only one")
        return _checked_setup(said.dir, None)
    config = read_or_tell(reader_of(said.config), f"{said.parser.prog} -c")
    if config is None:
        raise FailedError(
            "the configuration cannot be used; --dir DIR names the directory of key files instead"
        )
    if config.edge_auth.keys_dir is not None:
        return _checked_setup(config.edge_auth.keys_dir, config)
    if needs_directory:
        raise FailedError(
            f"{said.config} has no edge_auth.keys_dir: set it, or name the directory with --dir"
        )
    return KeyDirectory("", config)


def _checked_setup(directory: str, config: Config | None) -> KeyDirectory:
    if not Path(directory).is_dir():
        what = "not a directory" if Path(directory).exists() else "directory not found; create it"
        raise FailedError(f"{what}: {shown_path(directory)}")
    return KeyDirectory(directory, config)


def _checked_name(name: str) -> str:
    try:
        return checked_holder_name(name)
    except ValueError as error:
        raise CallError(f"NAME: {error}") from None


def _checked_group(name: str) -> str:
    """Refuse what no group can be called, even where nobody knows the groups that there are."""
    try:
        return checked_holder_name(name)
    except ValueError as error:
        raise CallError(f"--group: {error}") from None


def _stated_settings(said: argparse.Namespace) -> dict[str, object]:
    """Return the settings that options state, in the order of the documentation."""
    found: dict[str, object] = {
        "groups": list(map(_checked_group, said.group)),
        "models": said.model,
        "limits": list(map(_row_of, said.limit)),
        "tags": dict(map(_tag_of, said.tag)),
        "expires": None if said.expires is None else Plain(_expiry_of(said.expires)),
    }
    return {name: value for name, value in found.items() if value}


def _row_of(text: str) -> dict[str, object]:
    """Return a row of limits as a file states it."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        expected = "usd=50/month, tokens=200000/minute or in_flight=4"
        _, _, amount = text.partition("/")[0].partition("=")
        hint = value_hint(amount, "a whole number above 0", quoted=False)
        raise CallError(f"--limit: expected a limit such as {expected}, found {quote(text)}{hint}")
    kind, amount, per = match.groups()
    row: dict[str, object] = {Plain(kind): Plain(amount)}
    return row if per is None else {**row, Plain("per"): Plain(per)}


def _tag_of(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CallError("--tag: expected a name and a text, as team=nlp")
    return name, value


def _expiry_of(text: str) -> str:
    if _DURATION.fullmatch(text):
        return rfc3339(time() + _seconds_in(text, "--expires"))
    try:
        return parse_expiry(text).text
    except ValueError:
        raise CallError(
            "--expires: expected a time such as 90d or 12h, or a date such as 2027-03-31"
        ) from None


def _seconds_in(text: str, option: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise CallError(f"{option}: expected a time such as 24h or 7d")
    return float(int(match[1]) * _SECONDS[match[2]])


def _new_key() -> str:
    """Return a new key: ``mgw_`` and 43 characters, for 32 random bytes."""
    return _KEY_BEGINS + urlsafe_b64encode(token_bytes(_KEY_BYTES)).rstrip(b"=").decode()


def _digest_of(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def _zone(setup: KeyDirectory) -> tzinfo:
    """Return the time zone of dates; without a configuration nobody knows it."""
    return zone_of("UTC" if setup.config is None else setup.config.edge_auth.timezone)


def _refuse_configured(setup: KeyDirectory, name: str) -> None:
    """Leave keys and issuers of the configuration alone.

    :raises FailedError: it has one of this name.
    """
    if setup.config is None or name not in setup.config.edge_auth.client_names:
        return
    if name in setup.config.edge_auth.names:
        raise FailedError(f"{name} is a key of the configuration: change it there")
    raise FailedError(f"{name} is an issuer in edge_auth.jwt: a key has to have another name")


def _need_file(setup: KeyDirectory, name: str) -> None:
    """See that there is a file that may be changed.

    :raises FailedError: there is none, or it is a link.
    """
    path = setup.file_of(name)
    _refuse_configured(setup, name)
    if path.is_symlink():
        raise FailedError(f"{shown_path(path)} is a symbolic link: change what it comes from")
    if not path.exists():
        raise FailedError(f"no key has this name: there is no file {shown_path(path)}")


def _read_key(setup: KeyDirectory, name: str, advice: str = "") -> tuple[NamedKeySettings, str]:
    """Return the key of a file, and the text of the file.

    :param advice: what is said behind the problems of a file that is no valid key.
    :raises FailedError: there is no such file, or it cannot be used.
    """
    _need_file(setup, name)
    path = setup.file_of(name)
    try:
        text = read_regular_file(path, MAX_FILE_BYTES).decode("utf-8", "surrogateescape")
        return setup.parse(text, name), text
    except OSError as error:
        raise FailedError(unreadable(str(path), error)) from None
    except ConfigError as error:
        raise FailedError(f"{error}{advice}") from None


def _write_changes(setup: KeyDirectory, name: str, text: str, changes: Mapping[str, object | None]) -> None:
    """Write a file with other settings, if the gateway will understand it.

    :raises FailedError: it would not.
    """
    try:
        edited = edit_settings(text, changes)
        setup.parse(edited, name)
    except (ConfigError, ValueError) as error:
        raise FailedError(f"{shown_path(setup.file_of(name))} cannot be changed: {error}") from None
    replace_file(setup.file_of(name), edited)


def _cells(row: KeyRow) -> list[Cell]:
    return [row.name, row.state, " ".join(row.groups) or None, row.expires, row.previous_expires, row.where]


def _without_places(error: ConfigError) -> str:
    """Say what is wrong with a file that is not written yet."""
    return "\n".join(": ".join(filter(None, (one.path, one.message))) for one in error.problems)
