"""``mgw auth login|import|list|status|logout``: the accounts in the credential store.

Nothing here prints a token.  Exit codes: 0, it worked; 1, it did not; 2, it was called wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from mgw.app.check import read_or_tell, reader_of
from mgw.cli.arguments import add_file_option
from mgw.cli.subcommands import FAILED, WRONG_CALL, CallError, add_command, list_commands, tell
from mgw.config.checks import checked_entry_name
from mgw.config.profile import Profile
from mgw.config.proxy import ProxyAddress
from mgw.config.settings import Config
from mgw.credentials.profiles import read_profiles
from mgw.credentials.subscription.login import Way, missing_for
from mgw.credentials.subscription.store import CredentialStore, Entries, StoredCredential, StoreError
from mgw.credentials.subscription.token_exchange import header_text
from mgw.nouns.secret import Secret

_WAYS: Final = {
    Way.BROWSER: "a browser",
    Way.PASTE: "a pasted code",
    Way.DEVICE: "a code for another device",
}
_PROFILE_HELP: Final = "the profile; needed if the configuration leaves a choice"
_MAX_IMPORT_BYTES: Final = 1024 * 1024
_MILLISECONDS: Final = 1e11
"""Numbers above are unix milliseconds; as seconds they would be in the year 5138."""


class Setup:
    """What a configuration says of subscription credentials."""

    def __init__(self, config: Config, profiles: Mapping[str, Profile]) -> None:
        self.config = config
        self.profiles = profiles
        self.store: Final = CredentialStore(config.credential_store)

    def profile_for(self, entry: str, stated: str | None) -> str:
        """Return the name of the profile for an entry: the one stated, its providers', or the only one.

        :raises CallError: it is not clear, or there is none of that name.
        """
        if not self.profiles:
            raise CallError("the configuration has no profiles; see docs/profiles.rst")
        known = ", ".join(self.profiles)
        if stated is not None:
            if stated not in self.profiles:
                raise CallError(f"unknown profile {stated!r}; expected one of {known}")
            return stated
        using = {
            provider.profile
            for provider in self.config.providers.values()
            if provider.profile is not None and entry in provider.subscriptions
        }
        found = [*using] or [*self.profiles]
        if len(found) != 1:
            raise CallError(f"several profiles fit; choose one with --profile: {known}")
        return found[0]

    def proxy_for(self, entry: str) -> ProxyAddress | None:
        """Return the proxy of the first provider that uses an entry: its endpoints are behind it, too."""
        users = [one for one in self.config.providers.values() if entry in one.subscriptions]
        return users[0].proxy if users else None


def run_action(said: argparse.Namespace) -> int:
    """Run one of the commands; return the exit status."""
    action: Callable[[Setup, argparse.Namespace], int] = said.action
    try:
        if getattr(said, "name", None) is not None:
            checked_entry_name(said.name)
        config = read_or_tell(reader_of(said.config), "-c")
        if config is None:
            return FAILED
        problems: list[str] = []
        profiles = read_profiles(config, os.environ, problems)
        if problems:
            raise CallError("\n".join(problems))
        return action(Setup(config, profiles), said)
    except (CallError, ValueError) as error:
        return tell(said, str(error), WRONG_CALL)
    except (StoreError, OSError) as error:
        return tell(said, str(error), FAILED)
    except KeyboardInterrupt:
        return tell(said, "interrupted", 130)


def log_in(setup: Setup, said: argparse.Namespace) -> int:
    """``mgw auth login NAME``."""
    from mgw.cli.login import log_in as run_login  # Twisted is slow to import

    name = setup.profile_for(said.name, said.profile)
    profile = setup.profiles[name]
    way = Way.DEVICE if said.device else Way.PASTE if said.paste else Way.BROWSER
    _check_way(name, profile, way)
    entry = run_login(name, profile, way, said.timeout, setup.proxy_for(said.name))
    if isinstance(entry, str):
        return tell(said, entry, FAILED)
    return _keep(setup, said.name, entry, "logged in")


def import_entry(setup: Setup, said: argparse.Namespace) -> int:
    """``mgw auth import NAME [FILE]``."""
    name = setup.profile_for(said.name, said.profile)
    if said.file == "-" and sys.stdin.isatty():
        raise CallError("name the file to import, or send it to standard input")
    if said.file == "-":
        content = sys.stdin.buffer.read(_MAX_IMPORT_BYTES + 1)
    else:
        with Path(said.file).open("rb") as file:
            content = file.read(_MAX_IMPORT_BYTES + 1)
    entry = parse_import(content, said.at, name, time.time())
    return _keep(setup, said.name, entry, "imported")


def list_entries(setup: Setup, said: argparse.Namespace) -> int:
    """``mgw auth list``."""
    rows = [_row(name, entry, time.time()) for name, entry in sorted(setup.store.read().items())]
    if said.json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    if rows:
        _print_table(rows, ("name", "profile", "account", "state"))
    else:
        sys.stderr.write(_no_accounts(setup))
    return 0


def show_status(setup: Setup, said: argparse.Namespace) -> int:
    """``mgw auth status [NAME]``: 1 if an entry, or one that a provider uses, cannot be used."""
    entries = setup.store.read()
    used = {name for provider in setup.config.providers.values() for name in provider.subscriptions}
    names = [said.name] if said.name is not None else sorted({*entries, *used})
    now, good = time.time(), True
    if not names:
        sys.stderr.write(_no_accounts(setup))
    for name in names:
        entry = entries.get(name)
        if entry is None:
            sys.stdout.write(f"{name}: not logged in; run: mgw auth login {name}\n")
            good = False
            continue
        row = _row(name, entry, now)
        good = good and row["usable"]
        sys.stdout.write(f"{name}: {row['state']}\n")
        details = {
            "profile": entry.profile + ("" if entry.profile in setup.profiles else " (not configured)"),
            "account": entry.account,
            "scopes": " ".join(entry.scopes),
            "logged in": _moment(entry.created_at),
            "refreshed": _moment(entry.refreshed_at),
            "expires": _moment(entry.expires_at),
            "last error": entry.last_error and f"{entry.last_error} ({_moment(entry.last_error_at)})",
        }
        for what, value in details.items():
            if value:
                sys.stdout.write(f"  {what}: {value}\n")
    return 0 if good else FAILED


def _no_accounts(setup: Setup) -> str:
    return f"no accounts yet in {setup.store.path}; to add one: mgw auth login NAME\n"


def log_out(setup: Setup, said: argparse.Namespace) -> int:
    """``mgw auth logout NAME``."""
    with setup.store.locked(said.name):
        entry = setup.store.read().get(said.name)
        if entry is None:
            raise StoreError(f"the credential store has no account {said.name!r}")
        profile = setup.profiles.get(entry.profile)
        if profile is not None and profile.revocation.url is not None and not said.keep_tokens:
            from mgw.cli.login import revoke  # Twisted is slow to import

            problem = revoke(entry.profile, profile, entry, setup.proxy_for(said.name))
            if problem is not None:
                sys.stderr.write(f"mgw auth: the tokens were not revoked: {problem}\n")
        setup.store.update(partial(_remove, said.name))
    sys.stdout.write(f"removed {said.name} from {setup.store.path}\n")
    return 0


def _remove(name: str, entries: Entries) -> None:
    entries.pop(name, None)


def parse_import(content: bytes, at: str | None, profile: str, now: float) -> StoredCredential:
    """Return the entry that a JSON file of another program means.

    :param at: keys, separated by dots, that lead to the object with the tokens.
    :raises CallError: it has no tokens.
    """
    try:
        found: Any = json.loads(content) if len(content) <= _MAX_IMPORT_BYTES else None  # Any: JSON
    except (ValueError, RecursionError):
        raise CallError("the input is not JSON") from None
    for key in at.split(".") if at else ():
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise CallError("the input is not a JSON object" + (f" at {at}" if at else ""))
    access, refresh = _text(found, "access_token"), _text(found, "refresh_token")
    if access is None and refresh is None:
        raise CallError("the input has neither an access_token nor a refresh_token (see --at)")
    return StoredCredential(
        profile=profile,
        access_token=Secret(access or ""),
        refresh_token=None if refresh is None else Secret(refresh),
        expires_at=_expiry(found, now) if access is not None else now,
        account=_printed(found.get("account"), "account"),
        scopes=_scopes(found.get("scopes") or found.get("scope") or []),
        details=_details(found.get("details") or {}),
        created_at=now,
    )


def _scopes(value: object) -> tuple[str, ...]:
    """Take a list of scopes, or text with spaces between them."""
    scopes = value.split() if isinstance(value, str) else value
    if not isinstance(scopes, list):
        raise CallError("scopes must be a list or a string")
    return tuple(found for scope in scopes if (found := _printed(scope, "scopes")) is not None)


def _details(value: object) -> dict[str, str]:
    """Take what stands in headers besides the tokens."""
    if not isinstance(value, dict):
        raise CallError("details must be an object")
    found = {str(name): _printed(detail, "details") for name, detail in value.items()}
    return {name: detail for name, detail in found.items() if detail is not None}


def _printed(value: object, name: str) -> str | None:
    """Take a text or number that can stand in a header and on a terminal."""
    if value is None or value == "":
        return None
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not header_text(text):
        raise CallError(f"{name} cannot be sent in a header")
    return text


def _text(found: Mapping[str, Any], name: str) -> str | None:  # Any: JSON
    """Return a token by its name, in either of the usual spellings."""
    first, *rest = name.split("_")
    value = found.get(name, found.get(first + "".join(map(str.capitalize, rest))))
    if value is None:
        return None
    if not isinstance(value, str) or not value or not all("!" <= letter <= "~" for letter in value):
        raise CallError(f"{name} cannot be sent in a header")
    return value


def _expiry(found: Mapping[str, Any], now: float) -> float | None:  # Any: JSON
    """Return when a token ends, in unix seconds."""
    lifetime = found.get("expires_in", found.get("expiresIn"))
    value = found.get("expires_at", found.get("expiresAt"))
    try:
        if value is None:
            return None if lifetime is None else now + float(lifetime)
        if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        raise CallError("expires_at is not a time; expected unix seconds, or a date and time") from None
    return seconds / 1000 if seconds > _MILLISECONDS else seconds


def _check_way(name: str, profile: Profile, way: Way) -> None:
    """Refuse a login for which the profile says too little."""
    missing = missing_for(way, profile)
    if missing is not None:
        instead = "" if way is Way.DEVICE else "; try --device"
        raise CallError(f"profile {name!r} has no {missing}; a login with {_WAYS[way]} requires it{instead}")


def _keep(setup: Setup, name: str, entry: StoredCredential, did: str) -> int:
    with setup.store.locked(name):
        before, _ = setup.store.put(name, entry)
    whose = f" ({entry.account})" if entry.account else ""
    instead = ", replacing the previous login" if before is not None else ""
    sys.stdout.write(f"{did}: {name}{whose}; stored in {setup.store.path}{instead}\n")
    return 0


def _row(name: str, entry: StoredCredential, now: float) -> dict[str, Any]:  # Any: JSON
    """Describe an entry without its tokens."""
    left = None if entry.expires_at is None else entry.expires_at - now
    can_refresh = entry.can_be_refreshed
    if entry.is_lost and (left is None or left <= 0):
        state = "rejected by the provider; log in again"
    elif left is None:
        state = "valid"
    elif left > 0:
        state = f"valid for {_duration(left)}" + ("" if can_refresh else ", then log in again")
    elif can_refresh:
        state = "expired; the gateway refreshes it" + (
            ", but the last attempt failed" if entry.last_error else ""
        )
    else:
        state = "expired; log in again"
    return {
        "name": name,
        "profile": entry.profile,
        "account": entry.account,
        "scopes": list(entry.scopes),
        "expires": _moment(entry.expires_at),
        "refreshable": can_refresh,
        "usable": entry.is_usable(now),
        "state": state,
        "last_error": entry.last_error,
    }


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None


def _print_table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:  # Any: JSON
    lines = [[column.upper() for column in columns]]
    lines += [[str(row[column] or "-") for column in columns] for row in rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        padded = "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        sys.stdout.write(padded.rstrip() + "\n")


run = list_commands


def _add_command(
    commands: Any,  # Any: argparse has no public name for it
    name: str,
    action: Callable[[Setup, argparse.Namespace], int],
    does: str,
    *shown: str,
) -> argparse.ArgumentParser:
    below = add_command(commands, name, does, *shown, command=run_action)
    below.set_defaults(action=action)
    return below


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the commands below ``mgw auth``."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add = partial(_add_command, commands)
    _add_login(
        add(
            *("login", log_in, "log in to an account, and keep its tokens in the credential store"),
            "mgw auth login work             # with a browser on this machine",
            "mgw auth login work --paste     # with a browser elsewhere",
            "mgw auth login work --device    # with a code that you enter on another device",
        )
    )
    _add_import(
        add(
            *("import", import_entry, "import the tokens of another program from a JSON file"),
            "mgw auth import work tokens.json",
            "mgw auth import work tokens.json --at accounts.main",
        )
    )
    listing = add("list", list_entries, "list the accounts in the credential store", "mgw auth list --json")
    listing.add_argument("--json", action="store_true", help="print JSON")
    status = add(
        *("status", show_status, "show whether accounts can be used; exit with 1 if one cannot"),
        "mgw auth status",
        "mgw auth status work",
    )
    status.add_argument("name", metavar="NAME", nargs="?", help="only this account (default: all)")
    logout = add(
        *("logout", log_out, "remove an account, and revoke its tokens if the profile says where"),
        "mgw auth logout work",
    )
    logout.add_argument("name", metavar="NAME", help="the name of the account in the credential store")
    logout.add_argument("--keep-tokens", action="store_true", help="do not revoke its tokens")
    for below in commands.choices.values():
        add_file_option(below)


def _add_login(login: argparse.ArgumentParser) -> None:
    login.add_argument("name", metavar="NAME", help="a name for the account in the credential store")
    login.add_argument("--profile", metavar="PROFILE", help=_PROFILE_HELP)
    ways = login.add_mutually_exclusive_group()
    ways.add_argument("--device", action="store_true", help="enter a code on another device")
    ways.add_argument("--paste", action="store_true", help="paste the code from the browser here")
    login.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=300.0,
        help="give up after this time (default: %(default)g)",
    )


def _add_import(importing: argparse.ArgumentParser) -> None:
    importing.add_argument("name", metavar="NAME", help="a name for the account in the credential store")
    importing.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="the JSON file (default: standard input)"
    )
    importing.add_argument("--profile", metavar="PROFILE", help=_PROFILE_HELP)
    importing.add_argument("--at", metavar="KEY.KEY", help="where the tokens are in the file")
