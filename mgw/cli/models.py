"""``mgw models``: the models that a configuration offers, and where requests for them go."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from mgw.check import read_or_tell, reader_of
from mgw.cli.output import FORMATS, Cell, write_rows
from mgw.clients.client import Client, ClientRegistry
from mgw.config.quoting import quote, shown, shown_model
from mgw.config.settings import Config
from mgw.routing.catalog import Catalog
from mgw.routing.resolve import Resolver

COLUMNS: Final = ("id", "provider", "upstream_model", "capabilities", "targets")


def add_arguments(parser: argparse.ArgumentParser, default_file: str) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "-c", "--config", metavar="FILE", default=default_file, help="the configuration file (%(default)s)"
    )
    parser.add_argument("--key", metavar="NAME", help="only models that the gateway key of this name may use")
    parser.add_argument("--format", choices=FORMATS, default="table", help="(%(default)s)")


def report(said: argparse.Namespace) -> int:
    """Print the catalog as the configuration makes it, without asking a provider; return the exit status."""
    config = read_or_tell(reader_of(said.config))
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
    sys.stdout.write(write_rows(said.format, COLUMNS, _rows(config, client)))
    return 0


def _client(config: Config, name: str) -> Client | None:
    clients = ClientRegistry().clients_of(config.edge_auth).values()
    return next((client for client in clients if client.name == name), None)


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
