"""``mgw models``: the models that a configuration offers, and where requests for them go."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from mgw.app.check import read_or_tell, reader_of
from mgw.app.key_check import read_key_files
from mgw.cli.arguments import add_file, add_format
from mgw.cli.output import FORMATS, Cell, print_rows
from mgw.clients.client import Client, clients_of
from mgw.config.quoting import quote, shown, shown_model
from mgw.config.settings import Config
from mgw.routing.catalog import Catalog
from mgw.routing.resolve import Resolver

COLUMNS: Final = ("id", "provider", "upstream_model", "capabilities", "targets")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    add_file(parser)
    parser.add_argument("--key", metavar="NAME", help="only models that the gateway key of this name may use")
    add_format(parser, FORMATS)


def run(said: argparse.Namespace) -> int:
    """Print the catalog as the configuration makes it, without asking a provider; return the exit status."""
    config = read_or_tell(reader_of(said.config), "mgw models")
    if config is None:
        return 1
    client = None
    if said.key is not None:
        client = _client(config, said.key)
        if client is None:
            names = ", ".join(map(shown, config.edge_auth.names)) or "there is none"
            found = quote(said.key)  # who has mixed them up has typed the key itself
            sys.stderr.write(f"mgw models: --key: expected the name of a key ({names}), found {found}\n")
            return 1
    print_rows(said.format, COLUMNS, _rows(config, client), _nothing(said))
    return 0


def _nothing(said: argparse.Namespace) -> str:
    """Say why there is no table."""
    if said.key is not None:
        return f"no models for the gateway key {shown(said.key)}"
    return (
        f"no models: {said.config} lists none under aliases or providers.NAME.models; clients can still ask "
        "for any model as PROVIDER/MODEL"
    )


def _client(config: Config, name: str) -> Client | None:
    files = read_key_files(config)
    further = () if files is None else files.keys.values()
    return next((c for c in clients_of(config.edge_auth, further=further) if c.name == name), None)


def _rows(config: Config, client: Client | None) -> list[list[Cell]]:
    catalog = Catalog(config, Resolver(config), 0)
    rows: list[list[Cell]] = []
    for entry in catalog.entries:
        provider, model = catalog.target_of(entry.id)
        if client is not None and not client.may_use(entry.id, provider, model):
            continue
        able = [name for name, is_on in entry.capabilities.items() if is_on]
        targets = config.aliases.get(entry.id, ())
        name = shown(entry.id) if targets else shown_model(entry.id)
        others = " ".join(map(shown_model, targets))
        rows.append([name, shown(provider), shown_model(model), " ".join(able) or None, others or None])
    return rows
