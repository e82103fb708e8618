"""The context of loading a file: the environment, its names, and where problems are reported.

Sources: ``StateDirectory=`` of systemd.exec(5), the XDG base directory specification, contract 2.11.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from mgw.config.aws_profiles import ReadFile, read_shared_file
from mgw.config.checks import checked_key
from mgw.config.problems import Path, Report
from mgw.config.quoting import is_quotable, listed, quote, suggestion
from mgw.nouns.secret import Secret

T = TypeVar("T")

_BETWEEN_KEYS: Final = re.compile(r"[,\s]+")
_USUAL: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")


@dataclass(frozen=True, slots=True)
class LoadContext:
    """What is known beside the text of one file."""

    report: Report
    environ: Mapping[str, str]
    provider_names: tuple[str, ...] | None
    """The providers' names as written, even of one with mistakes; ``None``: not known, and not asked."""
    profile_names: tuple[str, ...] | None = None
    """The profiles' names, on the same terms."""
    route_names: frozenset[str] | None = None
    """Names of routes and groups of routes; ``None``: unknown, and not checked."""
    read_shared_file: ReadFile = read_shared_file
    """Reads the shared files of AWS's tools."""

    def is_set(self, value: object, path: Path) -> bool:
        """Say whether the operator set this, be it wrongly."""
        return value is not None or self.report.has_problem_below(path)

    def key_from(self, variable: str, path: Path) -> Secret | None:
        """Read one key from the variable that the setting at ``path`` names."""
        text = self._variable(variable, path)
        return None if text is None else self._key(text, variable, path)

    def keys_from(self, variable: str, path: Path) -> tuple[Secret, ...]:
        """Read several keys, with commas or white space between them."""
        text = self._variable(variable, path)
        if text is None:
            return ()
        pieces = [piece for piece in _BETWEEN_KEYS.split(text) if piece]
        if not pieces:
            self.report.add(path, f"{_named(variable)} contains no key")
        keys = [self._key(piece, variable, path) for piece in pieces]
        return tuple(key for key in keys if key is not None)

    def text_from(self, variable: str, path: Path, check: Callable[[str], str]) -> Secret | None:
        """Read a text that passes a check from the variable that the setting at ``path`` names."""
        text = self._variable(variable, path)
        try:
            return None if text is None else Secret(check(text))
        except ValueError as error:
            self.report.add(path, f"the value of {_named(variable)}: {error}")
            return None

    def address_from(self, variable: str, path: Path, parse: Callable[[str], T]) -> T | None:
        """Read an address of one kind from the variable that the setting at ``path`` names."""
        text = self._variable(variable, path)
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            self.report.add(path, f"the address in {_named(variable)}: {error}")
            return None

    def need_provider(self, name: str, path: Path) -> None:
        """Note a problem if no provider has this name."""
        if self.provider_names is not None and name not in self.provider_names:
            known = listed(self.provider_names) or "none"
            guess = suggestion(name, filter(is_quotable, self.provider_names))
            self.report.add(path, f"no provider is named {quote(name)}{guess} (known: {known})")

    def need_profile(self, name: str, path: Path) -> None:
        """Note a problem if no profile has this name."""
        if self.profile_names is not None and name not in self.profile_names:
            known = listed(self.profile_names) or "none"
            guess = suggestion(name, filter(is_quotable, self.profile_names))
            self.report.add(path, f"no profile is named {quote(name)}{guess} (known: {known})")

    def need_route(self, name: str, families: Iterable[str], path: Path) -> None:
        """Note a problem if the names of routes are known and neither a route nor a family has this one."""
        if self.route_names is None or name in self.route_names:
            return
        guess = suggestion(name, [*sorted(self.route_names), *families])
        self.report.add(path, f"no route, route group or family is named {quote(name)}{guess}")

    def _variable(self, variable: str, path: Path) -> str | None:
        text = self.environ.get(variable)
        if not text:
            what = "is not set" if text is None else "is empty"
            self.report.add(path, f"{_named(variable)} {what}")
            return None
        return text

    def _key(self, text: str, variable: str, path: Path) -> Secret | None:
        try:
            return Secret(checked_key(text, "put the key itself in the variable"))
        except ValueError as error:
            self.report.add(path, f"the key in {_named(variable)} {error}")
            return None


def _named(variable: str) -> str:
    """Name a variable as variables are usually named; anything else may be a key in the wrong place."""
    usual = _USUAL.fullmatch(variable) and is_quotable(variable)
    return f"the environment variable {variable}" if usual else "the environment variable named here"


LISTEN_VARIABLE: Final = "GATEWAY_LISTEN"
CERT_VARIABLE: Final = "GATEWAY_TLS_CERT"
KEY_VARIABLE: Final = "GATEWAY_TLS_KEY"

SYSTEM: Final = "/var/lib/mgw"
"""The directory for a process that knows no home either."""


def state_directory(environ: Mapping[str, str]) -> str:
    """Return the state directory; a variable with a relative path counts as unset, as XDG's words are."""
    own = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if posixpath.isabs(own):
        return own
    for variable, below in (("XDG_STATE_HOME", "mgw"), ("HOME", ".local/state/mgw")):
        home = environ.get(variable, "")
        if posixpath.isabs(home):
            return posixpath.join(home, below)
    return SYSTEM


def credential_store_below(environ: Mapping[str, str]) -> str:
    """Return the default of ``credential_store``."""
    return posixpath.join(state_directory(environ), "credentials", "store.json")


def refresh_tokens_below(environ: Mapping[str, str]) -> str:
    """Return the directory of refresh tokens that token endpoints have replaced."""
    return posixpath.join(state_directory(environ), "tokens")


def spool_below(environ: Mapping[str, str]) -> str:
    """Return the default of ``spool.dir``."""
    return posixpath.join(state_directory(environ), "spool")


def limit_store_below(environ: Mapping[str, str]) -> str:
    """Return the default of ``limit_store``."""
    return posixpath.join(state_directory(environ), "limits.db")
