"""A wrong base address is named in the 404, for the SDKs of every family."""

from __future__ import annotations

import pytest

from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from mgw.routing.match import RouteTable
from mgw.routing.routes import ROUTES

TABLE = RouteTable(ROUTES)

WRONG = [
    ("/chat/completions", "/v1/chat/completions", "add /v1 to the end", "OpenAI's SDKs", Family.OPENAI),
    ("/v1/v1/chat/completions", "/v1/chat/completions", "remove /v1 from", "OpenAI's SDKs", Family.OPENAI),
    ("/v1/chat/completions/", "/v1/chat/completions", "remove the slash", "OpenAI's SDKs", Family.OPENAI),
    ("/v1//chat/completions", "/v1/chat/completions", "remove the slash", "OpenAI's SDKs", Family.OPENAI),
    ("//chat/completions", "/v1/chat/completions", "add /v1 to the end", "OpenAI's SDKs", Family.OPENAI),
    ("/responses", "/v1/responses", "add /v1 to the end", "OpenAI's SDKs", Family.OPENAI),
    ("/v1/v1/messages", "/v1/messages", "remove /v1 from", "Anthropic's SDKs", Family.ANTHROPIC),
    ("/messages", "/v1/messages", "add /v1 to the end", "Anthropic's SDKs", Family.ANTHROPIC),
    ("//v1/messages", "/v1/messages", "remove the slash", "Anthropic's SDKs", Family.ANTHROPIC),
    (
        "/v1/messages/count_tokens/",
        "/v1/messages/count_tokens",
        "remove the slash",
        "Anthropic's",
        Family.ANTHROPIC,
    ),
    (
        "/v1/v1beta/models/gemini-2.5-pro:generateContent",
        "/v1beta/models/gemini-2.5-pro:generateContent",
        "remove /v1 from",
        "Google's SDKs",
        Family.GEMINI,
    ),
    (
        "/v1beta/v1beta/models/g:streamGenerateContent",
        "/v1beta/models/g:streamGenerateContent",
        "remove /v1beta from",
        "Google's SDKs",
        Family.GEMINI,
    ),
    (
        "/models/g:generateContent",
        "/v1beta/models/g:generateContent",
        "add /v1beta",
        "Google's",
        Family.GEMINI,
    ),
]


@pytest.mark.parametrize(("path", "meant", "advice", "whose", "family"), WRONG)
def test_a_path_that_would_be_served_says_which_base_address_to_set(
    path: str, meant: str, advice: str, whose: str, family: Family
) -> None:
    with pytest.raises(GatewayError) as caught:
        TABLE.match("POST", path, None, [])
    assert caught.value.reason is Reason.UNKNOWN_ROUTE
    message = caught.value.message
    assert message.startswith(f"no such endpoint: {path}; for {meant}, {advice}")
    assert whose in message
    assert TABLE.dialect_of(path, None, []).family is family


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/nothing", "/v1", "/v1/", "/v2/chat/completions", "//", "/x/"]
)
def test_any_other_path_gets_no_hint(path: str) -> None:
    with pytest.raises(GatewayError) as caught:
        TABLE.match("POST", path, None, [])
    assert caught.value.message == f"no such endpoint: {path}"


def test_what_is_denied_is_not_hinted_at() -> None:
    table = RouteTable(ROUTES, {"openai"})
    with pytest.raises(GatewayError) as caught:
        table.match("POST", "/chat/completions", None, [])
    assert caught.value.message == "no such endpoint: /chat/completions"


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/events", "/v1/ui"])
def test_a_path_that_resembles_one_of_the_dashboard_says_what_its_group_says(path: str) -> None:
    with pytest.raises(GatewayError) as refused:
        RouteTable(ROUTES, reasons={"dashboard": "it is elsewhere"}).match("GET", path, None, [])
    assert refused.value.message == f"no such endpoint: {path}; it is elsewhere"


def test_where_there_is_no_dashboard_the_reason_is_said() -> None:
    table = RouteTable(ROUTES, denied=frozenset({"dashboard"}), reasons={"dashboard": "the dashboard is off"})
    with pytest.raises(GatewayError) as refused:
        table.match("GET", "/dashboard", None, [])
    assert refused.value.message == "no such endpoint: /dashboard; the dashboard is off"
