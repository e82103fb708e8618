"""The route table: every path that the gateway serves, and how.

Source: contract 4.1 to 4.7.  A new route is a row in one of the parts and nothing else; the web server, the
documents and the tests read this table.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from mgw.nouns.vocabulary import DialectName, Modality
from mgw.routing.anthropic_routes import ANTHROPIC_ROUTES
from mgw.routing.gemini_routes import GEMINI_ROUTES
from mgw.routing.match import is_denied
from mgw.routing.media_routes import MEDIA_ROUTES
from mgw.routing.model_source import IN_PATH, NOWHERE
from mgw.routing.openai_routes import OPENAI_ROUTES
from mgw.routing.realtime_routes import REALTIME_ROUTES
from mgw.routing.route import ANY_METHOD, Route, Treatment
from mgw.routing.text_routes import TEXT_ROUTES

_PLATFORM: Final = Modality.PLATFORM
_LOCAL: Final = Treatment.LOCAL
_OPENAI: Final = DialectName.OPENAI
_ANTHROPIC: Final = DialectName.ANTHROPIC
_GEMINI: Final = DialectName.GEMINI

DASHBOARD_GROUP: Final = "dashboard"
"""The group of the dashboard's rows, by which they are switched off."""


def _dashboard(name: str, path: str) -> Route:
    """Return a row that is the dashboard's: which methods a path takes there, its own table says."""
    row = Route(name, ANY_METHOD, path, _OPENAI, _PLATFORM, NOWHERE, _LOCAL)
    return replace(row, group=DASHBOARD_GROUP, max_body_bytes=64 * 1024)


DASHBOARD_ROUTES: Final = (
    _dashboard("dashboard_page", "/ui"),
    _dashboard("dashboard_files", "/ui/{path}"),
    _dashboard("dashboard_api", "/v1/dashboard/{path}"),
    _dashboard("dashboard_api_root", "/v1/dashboard"),
)
"""What the dashboard serves, which says itself who may come in."""

LOCAL_ROUTES: Final = (
    Route("openai_models", "GET", "/v1/models", _OPENAI, _PLATFORM, NOWHERE, _LOCAL),
    Route("openai_model", "GET", "/v1/models/{model}", _OPENAI, _PLATFORM, IN_PATH, _LOCAL),
    Route("anthropic_models", "GET", "/v1/models", _ANTHROPIC, _PLATFORM, NOWHERE, _LOCAL),
    Route("anthropic_model", "GET", "/v1/models/{model}", _ANTHROPIC, _PLATFORM, IN_PATH, _LOCAL),
    Route("gemini_models", "GET", "/v1beta/models", _GEMINI, _PLATFORM, NOWHERE, _LOCAL),
    Route("gemini_model", "GET", "/v1beta/models/{model}", _GEMINI, _PLATFORM, IN_PATH, _LOCAL),
    Route("root", "GET", "/", _OPENAI, _PLATFORM, NOWHERE, _LOCAL),
    Route("healthz", "GET", "/healthz", _OPENAI, _PLATFORM, NOWHERE, _LOCAL),
    Route("readyz", "GET", "/readyz", _OPENAI, _PLATFORM, NOWHERE, _LOCAL),
    Route("provider_health", "GET", "/v1/health/providers", _OPENAI, _PLATFORM, NOWHERE, _LOCAL),
    Route("metrics", "GET", "/metrics", _OPENAI, _PLATFORM, NOWHERE, _LOCAL),
    *DASHBOARD_ROUTES,
)
"""What the gateway answers itself: the catalog, the operational routes (contract 4.5) and the dashboard.
No usage event is left behind."""

PREFLIGHT: Final = Route("preflight", "OPTIONS", "/{path}", _OPENAI, _PLATFORM, NOWHERE, _LOCAL)
"""What serves the preflights of browsers, at the paths of all other rows; it stands in no table."""

OPEN_ROUTES: Final = frozenset({"root", "healthz", "readyz"})
"""What needs no edge key (contract 3.1)."""

TRY_IT_ROUTES: Final = frozenset(
    {
        *("chat", "responses", "messages", "generate_content", "stream_generate_content"),
        *("responses_input_tokens", "messages_count_tokens", "count_tokens"),
    }
)
"""What the dashboard's page "Try it" may send to a model without a key of its own."""

GUARDED_ROUTES: Final = frozenset(route.name for route in DASHBOARD_ROUTES)
"""What checks by itself who may come in."""

ROUTES: Final = (
    *TEXT_ROUTES,
    *MEDIA_ROUTES,
    *OPENAI_ROUTES,
    *ANTHROPIC_ROUTES,
    *GEMINI_ROUTES,
    *REALTIME_ROUTES,
    *LOCAL_ROUTES,
)

DENIABLE: Final = frozenset(
    name for route in ROUTES for name in (route.name, route.group) if name and route.name not in OPEN_ROUTES
)
"""What ``routes.deny`` may name beside a family: a row, or the rows of a resource."""


def is_dashboard_api_denied(denied: Collection[str]) -> bool:
    """Whether an operator switches off the API of the dashboard."""
    api = next(route for route in DASHBOARD_ROUTES if route.name == "dashboard_api")
    return is_denied(api, denied)
