"""THE table: every path that the gateway serves, and how.

Source: contract 4.1 to 4.7.  A new route is a row in one of the parts and nothing else; the web server, the
documents and the tests read this table.
"""

from __future__ import annotations

from typing import Final

from mgw.routing.anthropic_routes import ANTHROPIC_ROUTES
from mgw.routing.gemini_routes import GEMINI_ROUTES
from mgw.routing.media_routes import MEDIA_ROUTES
from mgw.routing.openai_routes import OPENAI_ROUTES
from mgw.routing.realtime_routes import REALTIME_ROUTES
from mgw.routing.route import ModelAt, Route, Treatment
from mgw.routing.text_routes import TEXT_ROUTES
from mgw.vocabulary import DialectName, Modality

_PLATFORM: Final = Modality.PLATFORM
_PATH: Final = ModelAt.PATH
_NOWHERE: Final = ModelAt.NOWHERE
_LOCAL: Final = Treatment.LOCAL
_OPENAI: Final = DialectName.OPENAI
_ANTHROPIC: Final = DialectName.ANTHROPIC
_GEMINI: Final = DialectName.GEMINI

LOCAL_ROUTES: Final = (
    Route("openai_models", "GET", "/v1/models", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("openai_model", "GET", "/v1/models/{model}", _OPENAI, _PLATFORM, _PATH, _LOCAL),
    Route("anthropic_models", "GET", "/v1/models", _ANTHROPIC, _PLATFORM, _NOWHERE, _LOCAL),
    Route("anthropic_model", "GET", "/v1/models/{model}", _ANTHROPIC, _PLATFORM, _PATH, _LOCAL),
    Route("gemini_models", "GET", "/v1beta/models", _GEMINI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("gemini_model", "GET", "/v1beta/models/{model}", _GEMINI, _PLATFORM, _PATH, _LOCAL),
    Route("root", "GET", "/", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("healthz", "GET", "/healthz", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("readyz", "GET", "/readyz", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("provider_health", "GET", "/v1/health/providers", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("metrics", "GET", "/metrics", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
)
"""What the gateway answers itself: the catalog and the operational routes (contract 4.5).  No usage event is
left behind."""

OPEN_ROUTES: Final = frozenset({"root", "healthz", "readyz"})
"""What needs no edge key (contract 3.1)."""

ROUTES: Final = (
    *TEXT_ROUTES,
    *MEDIA_ROUTES,
    *OPENAI_ROUTES,
    *ANTHROPIC_ROUTES,
    *GEMINI_ROUTES,
    *REALTIME_ROUTES,
    *LOCAL_ROUTES,
)

EXPRESS_ROUTES: Final = frozenset(route.name for route in ROUTES if route.is_express)
"""What is served without Klein, unless the operator wants it otherwise (``express``)."""

DENIABLE: Final = frozenset(
    name for route in ROUTES for name in (route.name, route.group) if name and route.name not in OPEN_ROUTES
)
"""What ``routes.deny`` may name beside a family: a row, or the rows of a resource."""
