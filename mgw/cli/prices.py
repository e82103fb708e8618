"""``mgw prices import|diff``: files of prices from the price lists of others, and what changed in one.

Nothing is downloaded.  Exit codes of ``import``: 0, it worked; 1, it did not, or with ``--strict`` a price
has no place in a row; 2, it was called wrongly.  Those of ``diff``: 0, no difference; 1, some; 2, an error.
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Final

from mgw.cli.subcommands import FAILED, WRONG_CALL, CallError, add_command, list_commands, tell
from mgw.config.checks import checked_provider_name
from mgw.config.file_faults import unreadable
from mgw.config.load import MAX_PRICE_FILE_BYTES, parse_prices, read_text
from mgw.config.prices import MAX_ROWS, PriceRowSettings
from mgw.config.problems import ConfigError
from mgw.config.quoting import nearest_word
from mgw.reactor.regular_file import read_regular_file
from mgw.usage.price_diff import diff_prices
from mgw.usage.price_import import litellm, models_dev
from mgw.usage.price_import.entry import PricedModel
from mgw.usage.price_import.json_document import MAX_LIST_BYTES, PriceListError, read_document
from mgw.usage.price_import.price_file import is_row, write_price_file
from mgw.usage.price_import.selection import ImportedRow, ProviderChoice, select, unknown_providers

_STANDARD_INPUT: Final = "-"
_STANDARD_INPUT_NAME: Final = "standard input"
_READERS: Final = {"litellm": litellm, "models.dev": models_dev}


run = list_commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the commands below ``mgw prices``."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add = partial(add_command, commands)
    _add_import(
        add(
            *("import", "print a file of prices, made from a price list of others"),
            "mgw prices import --from litellm list.json --provider openai > new.yaml",
            "mgw prices import --from models.dev api.json --model claude-*",
            "mgw prices import --from models.dev - --provider xai=grok",
            command=import_prices,
        )
    )
    comparing = add(
        *("diff", "print what changed in a file of prices; exit with 1 if something did"),
        "mgw prices diff prices.yaml new.yaml",
        "mgw prices diff - prices.yaml    # the old file is standard input",
        command=print_diff,
    )
    for name in ("old", "new"):
        comparing.add_argument(
            name, metavar=name.upper(), help=f"the {name} file of prices, or - for standard input"
        )


def _add_import(importing: argparse.ArgumentParser) -> None:
    importing.add_argument(
        "--from", dest="source", choices=_READERS, required=True, help="which price list it is"
    )
    importing.add_argument("file", metavar="FILE", help="the price list, or - for standard input")
    importing.add_argument(
        "--provider",
        metavar="THEIRS[=OURS]",
        action="append",
        type=_provider_choice,
        default=[],
        help="only models of this provider of the list; OURS is its name in the configuration, without which "
        "the rows are for any provider; can be repeated",
    )
    importing.add_argument(
        "--model",
        metavar="PATTERN",
        action="append",
        default=[],
        help="only models with an id such as 'gpt-*'; can be repeated",
    )
    importing.add_argument(
        "--strict", action="store_true", help="exit with 1 if a price has no place in a row"
    )


def _provider_choice(text: str) -> ProviderChoice:
    theirs, equals, ours = text.partition("=")
    try:
        if not theirs:
            raise ValueError("expected THEIRS or THEIRS=OURS")
        return ProviderChoice(theirs, checked_provider_name(ours) if equals else None)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def import_prices(said: argparse.Namespace) -> int:
    """``mgw prices import``."""
    name = _STANDARD_INPUT_NAME if said.file == _STANDARD_INPUT else said.file
    reader = _READERS[said.source]
    try:
        content = _read(said.file, MAX_LIST_BYTES)
        rows = _chosen(reader.read_models(read_document(content)), said.provider, said.model)
    except CallError as error:
        return tell(said, str(error), WRONG_CALL)
    except PriceListError as error:
        return tell(said, f"{name}: {error}", FAILED)
    except OSError as error:
        return tell(said, unreadable(str(error.filename or name), error), FAILED)
    lossy = [row for row in rows if row.entry.unplaced or not is_row(row)]
    head = [
        f"Prices from {reader.NAME}, imported by mgw prices import on {datetime.now(UTC).date()}",
        f"SHA-256 of the list: {sha256(content).hexdigest()}",
    ]
    sys.stdout.write(write_price_file(rows, head))
    if lossy:
        sys.stderr.write(
            f"mgw prices import: {len(lossy)} of {len(rows)} models have prices without a place here; "
            "comments name them\n"
        )
    return FAILED if said.strict and lossy else 0


def _chosen(
    models: Sequence[PricedModel], providers: Sequence[ProviderChoice], patterns: Sequence[str]
) -> list[ImportedRow]:
    unknown = unknown_providers(models, providers)
    if unknown:
        near = nearest_word(unknown[0], {model.provider for model in models})
        hint = f"; did you mean {near}?" if near else ""
        raise PriceListError(f"the list has no provider {unknown[0]!r}{hint}")
    rows = select(models, providers, patterns)
    if not rows:
        raise PriceListError("no model of the list with a price fits")
    if sum(map(is_row, rows)) > MAX_ROWS:
        raise PriceListError(f"more than {MAX_ROWS} rows; choose some with --provider or --model")
    return rows


def print_diff(said: argparse.Namespace) -> int:
    """``mgw prices diff``."""
    try:
        if said.old == said.new == _STANDARD_INPUT:
            raise CallError("only one of the files can be standard input")
        lines = diff_prices(_read_rows(said.old), _read_rows(said.new))
    except (CallError, ConfigError) as error:
        return tell(said, str(error), WRONG_CALL)
    except OSError as error:
        return tell(said, unreadable(str(error.filename), error), WRONG_CALL)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


def _read_rows(file: str) -> tuple[PriceRowSettings, ...]:
    if file != _STANDARD_INPUT:
        return parse_prices(read_text(file, MAX_PRICE_FILE_BYTES), file, None)
    text = _read(file, MAX_PRICE_FILE_BYTES).decode("utf-8", "surrogateescape")
    return parse_prices(text, _STANDARD_INPUT_NAME, None)


def _read(file: str, max_bytes: int) -> bytes:
    if file != _STANDARD_INPUT:
        return read_regular_file(file, max_bytes)
    if sys.stdin.isatty():
        raise CallError("name a file, or send it to standard input")
    content = sys.stdin.buffer.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", _STANDARD_INPUT_NAME)
    return content
