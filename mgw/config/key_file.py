"""The settings of a key file, and the checks that it needs in addition to those of every named key."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.config.edge_auth import GATEWAY, digest_of
from mgw.config.groups import checked_holder_name
from mgw.config.key_settings import NamedKeySettings, check_key
from mgw.config.problems import Report
from mgw.config.settings import Config
from mgw.config.settings_base import NotInFile
from mgw.nouns.secret import Secret

NOT_IN_KEY_FILES: Final = MappingProxyType(
    {
        "name": "not allowed in a key file: the key has the name of the file",
        "key": "not allowed in a key file: write sha256, the digest of the key",
        "key_env": "not allowed in a key file: write sha256, the digest of the key",
    }
)
"""Settings of a named key that a key file does not have, and what to write instead."""


class KeyFileSettings(NamedKeySettings):
    """A named key as its file has it: without the name, which is the file's, and without the key itself."""

    name: NotInFile[str] = ""
    key: NotInFile[Secret | None] = None
    key_env: NotInFile[str | None] = None


def check_key_file(key: NamedKeySettings, config: Config | None, report: Report) -> None:
    """Note what is wrong with the key of a file.

    :param config: as for :func:`mgw.config.load.parse_key_file`.
    """
    _check_name(key, config, report)
    if key.sha256 is None:
        if not report.has_problem_below(("sha256",)) and not report.has_problem_at(("key",)):
            report.add(("sha256",), "missing, expected the 64 hex digits of the key's SHA-256")
    elif key.name.isascii() and Secret(digest_of(Secret(key.name))) == key.sha256:
        report.add((), "the file's name is the key itself, and names are logged")
    if key.previous is not None and key.sha256 is not None and key.previous.sha256 == key.sha256:
        report.add(("previous", "sha256"), "the same key as sha256: leave previous out")
    check_key(key, (), key.groups if config is None else config.edge_auth.groups, report)
    if config is not None and config.prices is None:
        for position, row in enumerate(key.limits):
            if row.usd is not None:
                report.add(("limits", position, "usd"), "requires prices: set prices.file or prices.rows")


def _check_name(key: NamedKeySettings, config: Config | None, report: Report) -> None:
    try:
        checked_holder_name(key.name)
    except ValueError as error:
        report.add((), f"the file's name before .yaml: {error}")
    if config is not None and any(entry.name == key.name for entry in config.edge_auth.jwt):
        report.add((), "expected another name: an issuer in edge_auth.jwt has it")
    if key.name == GATEWAY and config is not None and config.edge_auth.limits:
        report.add((), f"expected another name: limits of the gateway are shown under the name {GATEWAY}")
