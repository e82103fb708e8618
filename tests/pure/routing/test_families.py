"""Whose a path is that several families have, and what an operator has switched off."""

from __future__ import annotations

import pytest

from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from mgw.routing.match import MatchedRoute, RouteTable
from mgw.routing.route import Treatment
from mgw.routing.routes import DENIABLE, OPEN_ROUTES, ROUTES
from mgw.wire.headers import RawHeaders

TABLE = RouteTable(ROUTES)
SIGNS: dict[str, RawHeaders] = {
    "anthropic": [(b"anthropic-version", b"2023-06-01")],
    "neutral": [(b"beta-version", b"2023-06-01")],
    "google": [(b"x-goog-api-client", b"genai")],
    "openai": [(b"OpenAI-Organization", b"org-1")],
    "openai beta": [(b"openai-beta", b"agents=v1")],
    "neutral openai": [(b"alpha-project", b"proj_1")],
    "both": [(b"OpenAI-Beta", b"agents=v1"), (b"anthropic-version", b"2023-06-01")],
    "openai with a google key": [(b"OpenAI-Beta", b"agents=v1"), (b"x-goog-api-key", b"k")],
    "none": [],
}


def match(method: str, path: str, sign: str = "none", query: bytes | None = None) -> MatchedRoute:
    return TABLE.match(method, path, query, SIGNS[sign])


def refusal(method: str, path: str, sign: str = "none") -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        match(method, path, sign)
    return caught.value


@pytest.mark.parametrize(
    ("path", "sign", "name"),
    [
        ("/v1/files", "none", "files_list"),
        ("/v1/files", "anthropic", "anthropic_files_list"),
        ("/v1/files", "neutral", "anthropic_files_list"),
        ("/v1/files", "google", "gemini_files_list"),
        ("/v1/batches", "none", "batches_list"),
        ("/v1/batches", "google", "gemini_batches_list"),
        ("/v1/skills", "none", "anthropic_skills_list"),
        ("/v1/skills/skill_1/versions", "none", "anthropic_skills_versions_list"),
        ("/v1/skills/skill_1/content", "none", "skills_content"),
        ("/v1/agents", "none", "anthropic_agents_list"),
        ("/v1/agents", "google", "gemini_agents_list"),
        ("/v1/agents/sessions", "none", "agents_sessions_list"),
        ("/v1/agents/sessions", "anthropic", "anthropic_agents_retrieve"),
        ("/v1/environments", "none", "anthropic_environments_list"),
        ("/v1/vaults", "none", "vaults_list"),
        ("/v1/vaults", "anthropic", "anthropic_vaults_list"),
        ("/v1/interactions/i", "none", "gemini_interactions_retrieve"),
        ("/v1beta/files", "none", "gemini_files_list"),
        ("/v1alpha/agents", "anthropic", "gemini_agents_list"),
        ("/v1/vector_stores", "anthropic", "vector_stores_list"),
        ("/v1/memory_stores", "none", "anthropic_memory_stores_list"),
        ("/v1/skills", "openai", "skills_list"),
        ("/v1/skills/skill_1/versions", "neutral openai", "skills_versions_list"),
        ("/v1/agents/agent_1", "openai beta", "agents_retrieve"),
        ("/v1/agents", "both", "anthropic_agents_list"),
        ("/v1/agents", "openai with a google key", "gemini_agents_list"),
        ("/v1/memory_stores", "openai", "anthropic_memory_stores_list"),
        ("/v1beta/files", "openai", "gemini_files_list"),
        ("/v1/models", "openai", "openai_models"),
    ],
)
def test_a_shared_path_is_whose_the_client_shows_else_whose_the_contract_says(
    path: str, sign: str, name: str
) -> None:
    assert match("GET", path, sign).route.name == name


@pytest.mark.parametrize(
    "path", ["/v1/agents", "/v1/agents/agent_1", "/v1/environments", "/v1/environments/e"]
)
def test_the_order_of_the_rows_does_not_say_whose_a_path_is(path: str) -> None:
    for rows in (ROUTES, tuple(reversed(ROUTES))):
        assert RouteTable(rows).match("GET", path, None, []).route.family is Family.ANTHROPIC


def test_a_path_does_not_change_hands_with_the_method() -> None:
    """Reading at one vendor and deleting at another would be worse than a refusal."""
    assert match("GET", "/v1/agents/agent_1").route.family is Family.ANTHROPIC
    error = refusal("DELETE", "/v1/agents/agent_1")
    assert (error.reason, error.allow) == (Reason.WRONG_METHOD, ("GET", "POST", "HEAD"))


PROVIDERS = {"main": Family.OPENAI, "claude": Family.ANTHROPIC, "gem": Family.GEMINI}
NAMING = RouteTable(ROUTES, providers=PROVIDERS)


@pytest.mark.parametrize(
    ("path", "provider", "sign", "name"),
    [
        ("/v1/skills", "main", "none", "skills_list"),
        ("/v1/skills", "claude", "none", "anthropic_skills_list"),
        ("/v1/files", "claude", "none", "anthropic_files_list"),
        ("/v1/files", "gem", "none", "gemini_files_list"),
        ("/v1/files", "gem", "openai", "files_list"),
        ("/v1/files", "main", "anthropic", "anthropic_files_list"),
        ("/v1/skills", "gem", "none", "anthropic_skills_list"),
        ("/v1/skills", "nobody", "none", "anthropic_skills_list"),
        ("/v1/vector_stores", "claude", "none", "vector_stores_list"),
    ],
)
@pytest.mark.parametrize("by", ["query", "header"])
def test_a_shared_path_is_the_named_providers_familys_where_no_header_shows_one(
    path: str, provider: str, sign: str, name: str, by: str
) -> None:
    headers, query = list(SIGNS[sign]), None
    if by == "header":
        headers.append((b"X-Provider", provider.encode()))
    else:
        query = b"limit=2&provider=" + provider.encode()
    assert NAMING.match("GET", path, query, headers).route.name == name
    assert NAMING.match("GET", path.replace("s", "%73"), query, headers).route.name == name


def test_the_parameter_names_the_provider_before_the_header_does() -> None:
    headers = [(b"x-provider", b"gem")]
    assert NAMING.match("GET", "/v1/files", b"provider=claude", headers).route.family is Family.ANTHROPIC


def test_a_method_that_another_family_has_says_how_it_is_reached() -> None:
    error = refusal("POST", "/v1/skills/skill_1")
    assert (error.reason, error.allow) == (Reason.WRONG_METHOD, ("DELETE", "GET", "HEAD"))
    assert error.message == (
        "/v1/skills/skill_1 takes DELETE, GET, HEAD, not POST for anthropic clients; "
        "to use a provider of openai, name it: X-Provider, or ?provider="
    )
    assert "X-Provider" not in refusal("PUT", "/v1/skills/skill_1").message


def test_an_anthropic_client_deletes_no_model_of_openais() -> None:
    assert match("DELETE", "/v1/models/gpt-mine").route.name == "models_delete"
    assert refusal("DELETE", "/v1/models/gpt-mine", "anthropic").reason is Reason.WRONG_METHOD


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v1beta/batches/b1:cancel", "gemini_batches_cancel"),
        ("POST", "/v1beta/batches/b1%3Acancel", "gemini_batches_cancel"),
        ("POST", "/v1beta/files:register", "gemini_files_register"),
        ("GET", "/v1beta/files/f:download", "gemini_files_download"),
        ("GET", "/v1beta/models/veo-3/operations/op", "gemini_models_operations_retrieve"),
        ("POST", "/v1beta/models/veo-3:predictLongRunning", "gemini_models_predict_long_running"),
        ("POST", "/v1beta/tunedModels/t:generateContent", "generate_content"),
        ("POST", "/v1beta/tunedModels/t:transferOwnership", "gemini_tuned_models_transfer_ownership"),
        ("PUT", "/upload/v1beta/environments/e/files/a/b/c.txt", "gemini_upload_environments_files_replace"),
        ("POST", "/upload/v1/files", "gemini_upload_files_create"),
        ("DELETE", "/v1/conversations/c/items/i", "conversations_below"),
        (
            "POST",
            "/v1/fine_tuning/checkpoints/ft:gpt:x/permissions",
            "fine_tuning_checkpoints_permissions_create",
        ),
    ],
)
def test_verbs_and_long_names_are_understood(method: str, path: str, name: str) -> None:
    assert match(method, path).route.name == name


@pytest.mark.parametrize(
    "path",
    [
        "/v1beta/files/f:unknownVerb",
        "/v1beta/cachedContents/a:b",
        "/v1beta/cachedContents/a%3Ab",
        "/v1/files/a/b",
        "/v1/files/",
        "/v1//files",
        "/v1/images",
        "/v1/organization",
        "/upload/v1beta/anything",
        "/v1/chat/deferred-completion",
        "/upload/%76%31beta/files",
        "/upload/v%31/files",
        "/v1beta/batches/:cancel",
        "/v1beta/batches/%3Acancel",
        "/v1beta/files/:download",
    ],
)
def test_what_is_not_in_the_table_is_nobodys(path: str) -> None:
    for method in ("GET", "POST"):
        assert refusal(method, path).reason is Reason.UNKNOWN_ROUTE


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/threads/%72uns", "threads_runs"),
        ("/v1/vector_stores/%66iles%2fx", None),
        ("/v1/files/f%2Fcontent", None),
        ("/v1/files/f/%63ontent", "files_content"),
    ],
)
def test_no_spelling_of_a_path_leads_past_its_own_row(path: str, name: str | None) -> None:
    """A provider decodes its path: what it would read as another route must be that route here."""
    method = "GET" if "file" in path else "POST"
    if name is None:
        assert refusal(method, path).reason is Reason.UNKNOWN_ROUTE
    else:
        assert match(method, path).route.name == name


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/v1beta/models/x:someVerb"),
        ("DELETE", "/v1beta/models/x%3AsomeVerb"),
        ("DELETE", "/v1beta/models/a/operations/b"),
        ("GET", "/v1/threads/runs"),
    ],
)
def test_what_another_row_names_is_no_identifier(method: str, path: str) -> None:
    assert refusal(method, path).reason in (Reason.UNKNOWN_ROUTE, Reason.WRONG_METHOD)


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/conversations/", "/v1/conversations/a/b/c"])
def test_nothing_below_conversations_is_anything_else(path: str) -> None:
    assert match("POST", path).route.treatment is Treatment.REFUSE


def test_no_row_shares_its_name_with_other_rows_resource() -> None:
    """Else neither could be denied alone."""
    groups = {route.group: {other.name for other in ROUTES if other.group == route.group} for route in ROUTES}
    shared = {route.name for route in ROUTES if route.name in groups and len(groups[route.name]) > 1}
    assert shared == {"conversations", "decisions"}


@pytest.mark.parametrize(
    ("denied", "method", "path", "sign"),
    [
        ("files_content", "GET", "/v1/files/f/content", "none"),
        ("files_content", "GET", "/v1/files/f/%63ontent", "none"),
        ("organization", "POST", "/v1/organization/admin_api_keys", "none"),
        ("files", "GET", "/v1/files", "anthropic"),
        ("anthropic", "GET", "/v1/files", "anthropic"),
        ("anthropic", "POST", "/v1/messages", "none"),
        ("gemini", "POST", "/v1beta/models/m:generateContent", "none"),
        ("metrics", "GET", "/metrics", "none"),
    ],
)
def test_a_denied_row_is_404_and_nobody_elses(denied: str, method: str, path: str, sign: str) -> None:
    found = RouteTable(ROUTES, (denied,)).match(method, path, None, SIGNS[sign])
    assert found.fault is not None
    assert found.fault.reason is Reason.UNKNOWN_ROUTE
    assert TABLE.match(method, path, None, SIGNS[sign]).fault is None


def test_a_path_that_is_denied_whole_has_no_methods_either() -> None:
    with pytest.raises(GatewayError) as caught:
        RouteTable(ROUTES, ("organization",)).match("PUT", "/v1/organization/users", None, [])
    assert caught.value.reason is Reason.UNKNOWN_ROUTE
    with pytest.raises(GatewayError) as caught:
        RouteTable(ROUTES, ("files_create",)).match("PUT", "/v1/files", None, [])
    assert caught.value.allow == ("GET", "HEAD")


def test_denying_a_family_leaves_the_gateways_own_routes() -> None:
    table = RouteTable(ROUTES, ("openai", "anthropic", "gemini"))
    for name in ("/metrics", "/healthz", "/v1/models"):
        assert table.match("GET", name, None, []).fault is None


def test_the_open_routes_cannot_be_denied() -> None:
    assert not DENIABLE & OPEN_ROUTES
    assert {route.name for route in ROUTES} - DENIABLE == OPEN_ROUTES


@pytest.mark.parametrize(
    ("path", "sign", "family"),
    [
        ("/v1/vector_stores/a/b/c/d", "none", Family.OPENAI),
        ("/v1/memory_stores/a/b/c/d/e", "none", Family.ANTHROPIC),
        ("/v1/interactions/a/b/c", "none", Family.GEMINI),
        ("/v1/skills/a/b/c/d/e", "anthropic", Family.ANTHROPIC),
        ("/v1/agents/agent_1", "none", Family.ANTHROPIC),
        ("/upload/v1beta/anything", "none", Family.GEMINI),
        ("/nothing", "none", Family.OPENAI),
        ("/nothing", "google", Family.GEMINI),
    ],
)
def test_an_unknown_path_is_refused_in_the_dialect_that_it_suggests(
    path: str, sign: str, family: Family
) -> None:
    assert TABLE.dialect_of(path, None, SIGNS[sign]).family is family
