"""The route table and the tree of what the gateway answers itself know the same paths.

Monitors' paths are in the table alone.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError
from mgw.routing.match import RouteTable
from mgw.routing.paths import templates_of
from mgw.routing.route import ANY_METHOD, Route
from mgw.routing.routes import LOCAL_ROUTES
from mgw.web.monitoring import MONITORED_ROUTES
from mgw.web.operations import Operations

TABLE: Final = RouteTable(LOCAL_ROUTES)
IN_TREE: Final = [route for route in LOCAL_ROUTES if route.name not in MONITORED_ROUTES]
PATHS: Final = Operations.app.url_map.bind("")
ENDPOINTS: Final = {
    "provider_health": "health",
    **dict.fromkeys(("openai_models", "anthropic_models", "gemini_models"), "models"),
    **dict.fromkeys(("openai_model", "anthropic_model", "gemini_model"), "model"),
    **dict.fromkeys(("dashboard_page", "dashboard_files", "dashboard_api", "dashboard_api_root"), "operate"),
}
"""The endpoint of each row that is in the tree."""
TEMPLATES: Final = sorted(
    {template.partition("{")[0] for route in LOCAL_ROUTES for template, _ in templates_of(route)}
)
PIECES: Final = ["/", "//", "a", "models", "%6D", "%2F", "%2f", "%0A", "%00", "%FF", "%C3%B6", "..", ":"]
METHODS: Final = ["GET", "HEAD", "POST", "PUT", "DELETE"]


@st.composite
def paths(draw: st.DrawFn) -> str:
    """Draw a path that begins as one of ours, maybe with a letter of it escaped."""
    path = draw(st.sampled_from(TEMPLATES))
    at = draw(st.integers(0, 3 * len(path)))
    if at < len(path):
        path = f"{path[:at]}%{ord(path[at]):02X}{path[at + 1 :]}"
    return path + "".join(draw(st.lists(st.sampled_from(PIECES), max_size=5)))


@given(paths(), st.sampled_from(METHODS), st.sampled_from([b"anthropic-version", b"x-goog-api-key", b"a"]))
@example("/v1/models/a%2Fb//c/", "HEAD", b"a")
@example("/v1/mode%6Cs", "GET", b"anthropic-version")
@example("/v1/models/a%0Ab", "GET", b"x-goog-api-key")
@example("/v1/dashboar%64", "PUT", b"a")
def test_the_tree_has_the_endpoint_of_every_row_that_the_table_finds(
    path: str, method: str, header: bytes
) -> None:
    try:
        matched = TABLE.match(method, path, None, [(header, b"1")])
    except GatewayError:
        return
    if matched.fault is not None or matched.route.name in MONITORED_ROUTES:
        return
    rule, arguments = PATHS.match(unquote(path), method, return_rule=True)
    assert rule.endpoint == ENDPOINTS[matched.route.name]
    assert arguments.get("model") == matched.model


@pytest.mark.parametrize("route", IN_TREE, ids=lambda route: route.name)
def test_a_row_has_the_methods_of_its_endpoint(route: Route) -> None:
    rules = [rule for rule in Operations.app.url_map.iter_rules() if rule.endpoint == ENDPOINTS[route.name]]
    assert rules
    for rule in rules:
        assert rule.methods == (None if route.method == ANY_METHOD else {route.method, "HEAD"})


def test_every_endpoint_belongs_to_a_row() -> None:
    assert {rule.endpoint for rule in Operations.app.url_map.iter_rules()} == set(ENDPOINTS.values())
    assert set(ENDPOINTS) == {route.name for route in IN_TREE}


def test_what_monitors_ask_for_is_in_the_table() -> None:
    assert {route.name for route in LOCAL_ROUTES} >= MONITORED_ROUTES
