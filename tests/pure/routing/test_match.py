"""From method and raw path to the row that serves it."""

from __future__ import annotations

import re

import pytest

from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName
from mgw.routing.match import MatchedRoute, RouteTable
from mgw.routing.route import ANY_METHOD, Route
from mgw.routing.routes import ROUTES
from mgw.wire.headers import RawHeaders

TABLE = RouteTable(ROUTES)
NONE: frozenset[bytes] = frozenset()


def headers_of(names: frozenset[bytes]) -> RawHeaders:
    return [(name.title(), b"any") for name in names]


def match(method: str, path: str, query: bytes | None = None, names: frozenset[bytes] = NONE) -> MatchedRoute:
    return TABLE.match(method, path, query, headers_of(names))


def fault_of(method: str, path: str) -> GatewayError | None:
    """Why a path is refused, with a row or without."""
    try:
        return match(method, path).fault
    except GatewayError as error:
        return error


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_row_is_found_under_its_own_path(route: Route) -> None:
    names = {
        DialectName.ANTHROPIC: frozenset({b"anthropic-version"}),
        DialectName.GEMINI: frozenset({b"x-goog-api-key"}),
        DialectName.OPENAI: frozenset({b"openai-organization"}),
    }.get(route.dialect, NONE)
    method = "PATCH" if route.method == ANY_METHOD else route.method
    assert match(method, re.sub(r"\{\w+\}", "some", route.path), None, names).route is route


@pytest.mark.parametrize("version", ["v1beta", "v1", "v1alpha"])
def test_gemini_is_served_under_each_version(version: str) -> None:
    found = match("POST", f"/{version}/models/gem-x:generateContent")
    assert (found.route.name, found.version, found.model) == ("generate_content", f"/{version}", "gem-x")


@pytest.mark.parametrize(
    ("raw", "model"),
    [
        ("gem/pro", "gem/pro"),
        ("gem%2Fpro", "gem/pro"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("a%3Ab", "a:b"),
        ("%C3%A9", "é"),
        ("llama3:8b", "llama3:8b"),
    ],
)
def test_a_model_in_the_path_may_hold_slashes_and_escapes(raw: str, model: str) -> None:
    found = match("POST", f"/v1beta/models/{raw}:streamGenerateContent")
    assert (found.route.name, found.model) == ("stream_generate_content", model)


def test_an_escaped_colon_before_the_verb_is_the_verb() -> None:
    assert match("POST", "/v1beta/models/gem-x%3AcountTokens").route.name == "count_tokens"


def test_a_model_in_the_path_that_is_not_utf8_is_refused() -> None:
    fault = fault_of("POST", "/v1beta/models/%ff:generateContent")
    assert fault is not None
    assert fault.reason is Reason.MALFORMED


@pytest.mark.parametrize(
    ("names", "query", "name"),
    [
        (frozenset({b"anthropic-version"}), None, "anthropic_models"),
        (frozenset({b"anthropic-version", b"x-goog-api-key"}), None, "anthropic_models"),
        (frozenset({b"x-goog-api-key"}), None, "gemini_models"),
        (frozenset({b"x-goog-api-client"}), None, "gemini_models"),
        (NONE, b"pageSize=3&key=abc", "gemini_models"),
        (NONE, b"monkey=abc", "openai_models"),
        (NONE, None, "openai_models"),
    ],
)
def test_a_shared_path_goes_to_the_family_that_the_client_shows(
    names: frozenset[bytes], query: bytes | None, name: str
) -> None:
    assert match("GET", "/v1/models", query, names).route.name == name


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/v1",
        "/v1/chat",
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1beta/models/m:generateImages",
    ],
)
def test_an_unknown_path_is_404(path: str) -> None:
    with pytest.raises(GatewayError) as refusal:
        match("POST", path)
    assert refusal.value.reason is Reason.UNKNOWN_ROUTE


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/messages", ("POST",)),
        ("DELETE", "/healthz", ("GET", "HEAD")),
        ("GET", "/v1beta/models/m:generateContent", ("POST",)),
    ],
)
def test_a_wrong_method_is_405_and_says_what_the_path_takes(
    method: str, path: str, allow: tuple[str, ...]
) -> None:
    with pytest.raises(GatewayError) as refusal:
        match(method, path)
    assert (refusal.value.reason, refusal.value.allow) == (Reason.WRONG_METHOD, allow)


def test_head_is_served_where_get_is() -> None:
    assert match("HEAD", "/").route.name == "root"


@pytest.mark.parametrize(
    ("path", "names", "dialect"),
    [
        ("/v1/messages/unknown", NONE, DialectName.ANTHROPIC),
        ("/v1beta/unknown", NONE, DialectName.GEMINI),
        ("/v1/models/x:generateImages", NONE, DialectName.GEMINI),
        ("/v1/unknown", frozenset({b"anthropic-version"}), DialectName.ANTHROPIC),
        ("/v1/unknown", frozenset({b"x-goog-api-client"}), DialectName.GEMINI),
        ("/v1/chat/unknown", NONE, DialectName.OPENAI),
        ("/v1/chat/unknown", frozenset({b"anthropic-version"}), DialectName.OPENAI),
        ("/v1/embeddings", frozenset({b"x-goog-api-key"}), DialectName.OPENAI),
        ("/anything", NONE, DialectName.OPENAI),
    ],
)
def test_a_refusal_speaks_the_dialect_that_the_path_suggests(
    path: str, names: frozenset[bytes], dialect: DialectName
) -> None:
    assert TABLE.dialect_of(path, None, headers_of(names)) is dialect


def test_names_of_rows_are_unique() -> None:
    names = [route.name for route in ROUTES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../v1/chat/completions",
        "/v1/./messages",
        "/v1/%2e%2e/nothing",
        "/nothing/..%2fv1/messages",
        "/v1/chat/completions/%2E",
        "/v1beta/models/a%2F..%2Fb:generateContent",
        "/v1/models/..",
        "/v1/a%00b",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_path_that_may_be_read_as_another_is_malformed_whether_or_not_it_has_a_row(
    method: str, path: str
) -> None:
    fault = fault_of(method, path)
    assert fault is not None
    assert fault.reason is Reason.MALFORMED


@pytest.mark.parametrize("version", ["v1beta", "v1", "v1alpha"])
def test_googles_sdk_dials_tuned_models_beside_the_others(version: str) -> None:
    found = match("POST", f"/{version}/tunedModels/mine-1:generateContent")
    assert (found.route.name, found.version, found.model) == (
        "generate_content",
        f"/{version}",
        "tunedModels/mine-1",
    )


def test_other_collections_are_no_models() -> None:
    for path in ("/v1beta/corpora/x:generateContent", "/v1beta/tunedModels:generateContent"):
        with pytest.raises(GatewayError) as refusal:
            match("POST", path)
        assert refusal.value.reason is Reason.UNKNOWN_ROUTE


@pytest.mark.parametrize("version", ["v1beta", "v1", "v1alpha"])
@pytest.mark.parametrize("colon", [":", "%3A", "%3a"])
@pytest.mark.parametrize(
    ("method", "verb", "name"),
    [
        ("GET", "bidiGenerateContent", "gemini_bidi"),
        ("POST", "generateContent", "generate_content"),
        ("POST", "streamGenerateContent", "stream_generate_content"),
        ("POST", "countTokens", "count_tokens"),
    ],
)
def test_a_path_whose_model_is_empty_is_refused_as_that(
    method: str, version: str, colon: str, verb: str, name: str
) -> None:
    found = match(method, f"/{version}/models/{colon}{verb}")
    assert (found.route.name, found.version) == (name, f"/{version}")
    assert found.fault is not None
    assert found.fault.reason is Reason.MALFORMED
    assert found.fault.message == f"the model is empty: write /models/<model>:{verb}"


def test_a_path_without_a_model_and_of_no_row_is_what_it_was() -> None:
    assert match("GET", "/v1beta/models/:nonsense").fault is None
    fault = fault_of("POST", "/v1beta/models/:nonsense")
    assert fault is not None
    assert fault.reason is Reason.UNKNOWN_ROUTE
    fault = fault_of("DELETE", "/v1beta/models/:generateContent")
    assert fault is not None
    assert fault.reason is Reason.WRONG_METHOD
