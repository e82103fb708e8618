"""``mgw routes``: the paths that the gateway serves, and how it handles each."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mgw.cli.arguments import add_format
from mgw.cli.output import FORMATS, Cell, print_rows
from mgw.nouns.vocabulary import Family
from mgw.routing.match import is_denied
from mgw.routing.route import ANY_METHOD, Route, Treatment
from mgw.routing.routes import DASHBOARD_GROUP, ROUTES

COLUMNS: Final = ("method", "path", "family", "modality", "treatment", "translated_for", "name")
_TREATMENTS: Final = MappingProxyType(
    {
        Treatment.REALTIME: "websocket session",
        Treatment.LOCAL: "answered by the gateway",
        Treatment.REFUSE: "not implemented",
    }
)
"""What becomes of a request; every other one is relayed or translated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "text", nargs="?", metavar="TEXT", help="only routes with this text in their path or name"
    )
    parser.add_argument(
        "--family", choices=tuple(Family), type=Family, help="only routes for clients of this family"
    )
    parser.add_argument(
        "-c", "--config", metavar="FILE", help="leave out routes that this configuration file does not serve"
    )
    add_format(parser, FORMATS)


def run(said: argparse.Namespace) -> int:
    """Print the routes; return the exit status."""
    denied: frozenset[str] = frozenset()
    if said.config is not None:
        from mgw.app.check import read_or_tell, reader_of  # slow to import

        config = read_or_tell(reader_of(said.config), "-c")
        if config is None:
            return 1
        denied = frozenset(config.routes.deny)
        if not config.dashboard.is_served:
            denied |= {DASHBOARD_GROUP}
    text = (said.text or "").lower()
    rows = [
        _row(route)
        for route in ROUTES
        if not is_denied(route, denied)
        and said.family in (None, _family(route))
        and (text in route.path.lower() or text in route.name)
    ]
    print_rows(said.format, COLUMNS, rows, _nothing(said))
    return 0


def _nothing(said: argparse.Namespace) -> str:
    """Say why there is no table."""
    parts = [f"for {said.family} clients" if said.family else "", f"match {said.text!r}" if said.text else ""]
    meant = f"; did you mean: mgw routes -c {said.text}" if _is_file(said.text) else ""
    return " ".join(filter(None, ["no routes", *parts])) + meant


def _is_file(text: str | None) -> bool:
    return text is not None and (text.endswith((".yaml", ".yml")) or Path(text).is_file())


def _row(route: Route) -> list[Cell]:
    return [
        "any" if route.method == ANY_METHOD else route.method,
        route.path,
        _family(route),
        route.modality.value,
        _treatment(route),
        " ".join(family for family in Family if family in _others(route)) or None,
        route.name,
    ]


def _others(route: Route) -> frozenset[Family]:
    """Return for whose providers a route is translated, its own family's aside."""
    return route.translated_for - {route.family}


def _family(route: Route) -> Family | None:
    """Return whose clients use a route; what the gateway says of itself has no family, but for models."""
    return None if route.is_local and "/models" not in route.path else route.family


def _treatment(route: Route) -> str:
    found = _TREATMENTS.get(route.treatment)
    if found is not None:
        return found
    if not _others(route):
        return "relayed"
    return "relayed or translated" if route.native else "translated"
