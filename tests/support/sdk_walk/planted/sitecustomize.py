"""Plant wrong rows in the route table of every Python that finds this folder first in its path.

The one use is to see the walk find them (``tests/sockets/test_sdk_surface.py``): Python imports a module of
this name by itself, and so before the gateway reads its table.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from mgw.nouns.vocabulary import DialectName
from mgw.routing import routes
from mgw.routing.route import Call

WRONG: Final[dict[str, dict[str, Any]]] = {  # fields of a row, by name
    "evals_retrieve": {"dialect": DialectName.ANTHROPIC},
    "evals_create": {"call": Call("/evals/other")},
}

vars(routes)["ROUTES"] = tuple(replace(row, **WRONG.get(row.name, {})) for row in routes.ROUTES)
