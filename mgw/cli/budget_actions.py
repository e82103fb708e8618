"""What the commands of ``mgw budget`` do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from time import time
from types import MappingProxyType
from typing import Final

from mgw.app.check import read_or_tell, reader_of
from mgw.cli.limit_access import LimitAccess, use_limits
from mgw.cli.output import print_json, print_rows
from mgw.cli.subcommands import Action, CallError, FailedError, tell
from mgw.clients.limit_report import COLUMNS, configured_rows, report_rows, show_state
from mgw.clients.limits import LIMITS_BY_NAME, Allowance, Limit, RowState, Unit
from mgw.config.quoting import quote, suggestion
from mgw.config.settings import Config
from mgw.config.time_zones import zone_of
from mgw.identity.key_rules import key_rules
from mgw.identity.keys_dir import DIRECTORY, KeysDirectory

_NANODOLLARS: Final = 10**9
_MOST: Final = 2**53
"""Larger amounts are no whole numbers everywhere."""
_MOST_NAMED: Final = 3
"""So many holders are suggested."""


def show_budgets(said: argparse.Namespace) -> int:
    """``mgw budget show``."""
    config = _configuration(said)
    rows, now = _rows_of(said, config), time()

    async def read(access: LimitAccess) -> Sequence[RowState]:
        return await access.states()

    states = report_rows(rows, use_limits(config, rows, now, read), now)
    pattern = said.holder
    zone = zone_of(config.edge_auth.timezone)
    shown = [show_state(row, zone) for row in states if pattern is None or fnmatchcase(row.holder, pattern)]
    if said.format == "json":
        print_json(shown)
    else:
        cells = [[row.get(name) for name in COLUMNS] for row in shown]
        of_whom = "" if pattern is None else f" of holders such as {quote(pattern)}"
        print_rows(said.format, COLUMNS, cells, f"no limits{of_whom} that last longer than a minute")
    return 0


def reset_budget(said: argparse.Namespace) -> int:
    """``mgw budget reset HOLDER``."""
    holder, name = said.holder, said.limit
    if name is not None:
        _check_name(name)
        _amount_of(said.to, LIMITS_BY_NAME[name])
    config = _configuration(said)
    rows, now = _rows_of(said, config), time()
    limits = {(row.holder, row.limit.name) for row in rows if row.limit.window.is_calendar}

    async def reset(access: LimitAccess) -> list[str]:
        states = await access.states()
        limits.update((row.holder, row.limit.name) for row in states)
        known = {row.limit.name: row.limit for row in rows if row.holder == holder}
        known |= {row.limit.name: row.limit for row in states if row.holder == holder}
        amounts = {one.name: _amount_of(said.to, one) for one in known.values() if name in (None, one.name)}
        return [limit for limit, amount in amounts.items() if await access.reset(holder, limit, amount)]

    done = use_limits(config, rows, now, reset)
    if not done:
        which = "no limit longer than a minute" if name is None else f"no limit {name}"
        raise FailedError(f"{quote(holder)} has {which}, or has not used it yet{_guess(holder, limits)}")
    for limit in done:
        sys.stdout.write(f"{holder} {limit}: {said.to} used\n")
    return 0


ACTIONS: Final[Mapping[str, Action]] = MappingProxyType({"show": show_budgets, "reset": reset_budget})


def _guess(holder: str, limits: Collection[tuple[str, str]]) -> str:
    """Say what may have been meant in place of a holder without the row.

    :param limits: the holders and names of all rows.
    """
    own = sorted(name for owner, name in limits if owner == holder)
    if own:
        return f" (its limits: {', '.join(own)})"
    owners = {owner for owner, _ in limits}
    parts = sorted(
        owner for owner in owners if owner.startswith(f"{holder}/") or owner.endswith(f"/{holder}")
    )
    if parts:
        return f", did you mean {' or '.join(parts[:_MOST_NAMED])}?"
    return suggestion(holder, owners) or ": see `mgw budget show`"


def _configuration(said: argparse.Namespace) -> Config:
    config = read_or_tell(reader_of(said.config), f"{said.parser.prog} -c")
    if config is None:
        raise FailedError("the configuration cannot be used")
    return config


def _rows_of(said: argparse.Namespace, config: Config) -> list[Allowance]:
    """Return the rows of the configuration and of the key files that can be used; say if some cannot be."""
    settings = config.edge_auth
    if settings.keys_dir is None:
        return configured_rows(settings)
    files = KeysDirectory(settings.keys_dir, key_rules(config))
    files.read_all()
    unusable = len(files.faults.keys() - {DIRECTORY})
    if DIRECTORY in files.faults:
        tell(said, f"warning: {files.faults[DIRECTORY]}", 0)
    if unusable:
        what = "a key file" if unusable == 1 else f"{unusable} key files"
        tell(said, f"warning: {what} cannot be used (see mgw check), so limits are missing here", 0)
    return configured_rows(settings, files.keys.values())


def _check_name(name: str) -> None:
    """Refuse a name that no row longer than a minute has.

    :raises CallError: it is one.
    """
    known = [limit.name for limit in LIMITS_BY_NAME.values() if limit.window.is_calendar]
    if name not in known:
        several = [one for one in known if one.startswith(f"{name}_")]
        guess = f" (expected one of {', '.join(several)})" if several else suggestion(name, known)
        raise CallError(f"--limit: no limit longer than a minute is named {quote(name)}{guess}")


def _amount_of(text: str, limit: Limit) -> int:
    """Return an amount as it is counted.

    :raises CallError: it is none.
    """
    is_money = limit.unit is Unit.NANODOLLAR
    try:
        amount = Decimal(text) * (_NANODOLLARS if is_money else 1)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or not 0 <= amount < _MOST or amount != amount.to_integral_value():
        expected = "dollars with at most nine decimals" if is_money else "a whole number"
        raise CallError(f"--to: expected {expected} for {limit.name}, found {quote(text)}")
    return int(amount)
