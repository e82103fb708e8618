"""THE table: every path that the gateway serves, and how.

Source: contract 4.1 to 4.7.  A new route is a row in one of the parts and nothing
else; the HTTP face, the documents and the tests read this table.
"""

from __future__ import annotations

from typing import Final

from mgw.routing.anthropic_admin_routes import ANTHROPIC_ADMIN_ROUTES
from mgw.routing.anthropic_routes import ANTHROPIC_ROUTES
from mgw.routing.gemini_routes import GEMINI_ROUTES
from mgw.routing.media_routes import MEDIA_ROUTES
from mgw.routing.openai_admin_routes import OPENAI_ADMIN_ROUTES
from mgw.routing.openai_routes import OPENAI_ROUTES
from mgw.routing.own_routes import OPEN_ROUTES, OWN_ROUTES
from mgw.routing.text_routes import TEXT_ROUTES

__all__ = ["DENIABLE", "OPEN_ROUTES", "OWN_ROUTES", "ROUTES", "TEXT_ROUTES"]

ROUTES: Final = (
    *TEXT_ROUTES,
    *MEDIA_ROUTES,
    *OPENAI_ROUTES,
    *OPENAI_ADMIN_ROUTES,
    *ANTHROPIC_ROUTES,
    *ANTHROPIC_ADMIN_ROUTES,
    *GEMINI_ROUTES,
    *OWN_ROUTES,
)

DENIABLE: Final = frozenset(
    name for route in ROUTES for name in (route.name, route.group) if name and route.name not in OPEN_ROUTES
)
"""What ``routes.deny`` may name beside a family: a row, or the rows of a resource."""
