"""Azure's paths: which row each leads to, and the model that it names."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName
from mgw.routing.match import MatchedRoute, RouteTable
from mgw.routing.route import Treatment
from mgw.routing.routes import ROUTES
from mgw.routing.table import route_table
from tests.support.configs import THREE_FAMILIES, config

TABLE = route_table(config(f"{THREE_FAMILIES}\nroutes: {{azure: true}}\n"))
OFF = route_table(config(THREE_FAMILIES))
DENYING = route_table(config(f"{THREE_FAMILIES}\nroutes: {{azure: true, deny: [images]}}\n"))


def match(method: str, path: str, table: RouteTable = TABLE) -> MatchedRoute:
    return table.match(method, path, b"api-version=2024-10-21", [(b"anthropic-version", b"2023-06-01")])


@pytest.mark.parametrize("prefix", ["/openai/v1", "/openai"])
@pytest.mark.parametrize(
    ("method", "rest", "name"),
    [
        ("POST", "/chat/completions", "chat"),
        ("POST", "/responses", "responses"),
        ("GET", "/responses/resp_1", "responses_get"),
        ("GET", "/models", "openai_models"),
        ("GET", "/models/main%2Fm", "openai_model"),
        ("GET", "/files/f_1/content", "files_content"),
        ("HEAD", "/files", "files_list"),
    ],
)
def test_a_path_leads_to_openais_row_whatever_the_headers(
    prefix: str, method: str, rest: str, name: str
) -> None:
    matched = match(method, prefix + rest)
    own = OFF.match(method, f"/v1{rest}", None, [(b"openai-organization", b"o")])
    assert matched.route is own.route
    assert (matched.version, matched.model, matched.deployment) == (prefix, own.model, None)
    assert (matched.of_azure, own.of_azure) == (True, False)
    assert name.split("_", maxsplit=1)[0] in matched.route.name


@pytest.mark.parametrize(
    ("raw", "model"),
    [
        ("gpt-5", "gpt-5"),
        ("main%2Fgpt-5", "main/gpt-5"),
        ("main/gpt-5", "main/gpt-5"),
        ("chat", "chat"),
        ("a/chat", "a/chat"),
        ("%C3%A9%20%22", 'é "'),
        ("gpt-5%3Alatest", "gpt-5:latest"),
    ],
)
@pytest.mark.parametrize(
    "rest", ["/chat/completions", "/embeddings", "/audio/transcriptions", "/images/edits"]
)
def test_a_deployment_is_the_model_percent_decoded(raw: str, model: str, rest: str) -> None:
    matched = match("POST", f"/openai/deployments/{raw}{rest}")
    assert (matched.deployment, matched.version) == (model, f"/openai/deployments/{raw}")
    assert matched.route is OFF.match("POST", f"/v1{rest}", None, []).route


@given(st.text(min_size=1, max_size=20).filter(lambda name: not {".", ".."} & set(name.split("/"))))
def test_any_name_of_a_model_comes_back_from_its_escapes(name: str) -> None:
    if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name) or "\\" in name:
        return
    path = f"/openai/deployments/{quote(name, safe='')}/chat/completions"
    assert match("POST", path).deployment == name


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("POST", "/openai/deployments/m/files", Reason.UNKNOWN_ROUTE),
        ("GET", "/openai/deployments/m/models", Reason.UNKNOWN_ROUTE),
        ("POST", "/openai/deployments//chat/completions", Reason.UNKNOWN_ROUTE),
        ("POST", "/openai/deployments/m", Reason.UNKNOWN_ROUTE),
        ("POST", "/openai/deployments/completions", Reason.UNKNOWN_ROUTE),
        ("GET", "/openai/deployments/m/embeddings", Reason.WRONG_METHOD),
        ("GET", "/openai/deployments/m/chat/completions", Reason.UNKNOWN_ROUTE),
        ("POST", "/openai/models", Reason.WRONG_METHOD),
        ("POST", "/openai/messages", Reason.UNKNOWN_ROUTE),
        ("POST", "/openai/v1/messages", Reason.UNKNOWN_ROUTE),
        ("GET", "/openai/realtime", Reason.UNKNOWN_ROUTE),
        ("GET", "/openai/v1/realtime", Reason.UNKNOWN_ROUTE),
        ("GET", "/openai/dashboard/usage", Reason.UNKNOWN_ROUTE),
        ("GET", "/openai/health/providers", Reason.UNKNOWN_ROUTE),
        ("GET", "/openai/v1/responses", Reason.WRONG_METHOD),
        ("POST", "/openai/v1/v1/chat/completions", Reason.UNKNOWN_ROUTE),
        ("POST", "/openai/deployments/../chat/completions", Reason.MALFORMED),
        ("POST", "/openai/deployments/%2e%2e/chat/completions", Reason.MALFORMED),
        ("POST", "/openai/deployments/%ff/chat/completions", Reason.MALFORMED),
    ],
)
def test_anything_else_is_refused_as_openais(method: str, path: str, reason: Reason) -> None:
    with pytest.raises(GatewayError) as refused:
        match(method, path)
    assert refused.value.reason is reason
    assert TABLE.dialect_of(path, None, [(b"anthropic-version", b"1")]) is DialectName.OPENAI


@pytest.mark.parametrize("path", ["/openai/v1/embeddings", "/openai/deployments/m/embeddings", "/openai/f"])
def test_without_the_setting_there_is_none(path: str) -> None:
    with pytest.raises(GatewayError) as refused:
        match("POST", path, OFF)
    assert refused.value.reason is Reason.UNKNOWN_ROUTE
    assert not list(OFF.rows_of(path))


@pytest.mark.parametrize("prefix", ["/openai/v1", "/openai", "/openai/deployments/m"])
def test_what_is_denied_is_denied_here(prefix: str) -> None:
    matched = match("POST", f"{prefix}/images/generations", DENYING)
    assert matched.fault is not None
    assert matched.fault.reason is Reason.UNKNOWN_ROUTE
    assert not list(DENYING.rows_of(f"{prefix}/images/generations"))
    assert [route.method for route in DENYING.rows_of(f"{prefix}/embeddings")] == ["POST"]


def test_every_row_of_openais_but_sessions_has_these_paths() -> None:
    for route in ROUTES:
        path = route.path.replace("{model}", "m").replace("{path}", "p").replace("{", "").replace("}", "")
        is_one = route.dialect.family.value == "openai" and path.startswith("/v1/")
        if not is_one or route.is_local or route.treatment is Treatment.REALTIME:
            continue
        method = "GET" if route.method == "*" else route.method
        assert match(method, f"/openai{path}").route is route
        assert match(method, f"/openai{path.removeprefix('/v1')}").route is route
