"""The page on tokens of identity providers: its recipes admit who they should, and its tables are complete.

The claims are those of examples on the vendors' own pages, with other names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pytest

from mgw.clients.tokens.token import parse_token
from mgw.clients.tokens.verify import TokenEntry, TokenError, VerifiedToken, verify_token
from mgw.config.jwt import JwtSettings
from mgw.config.load import parse
from mgw.nouns.token_flaw import TokenFlaw
from mgw.nouns.token_refusal import TokenRefusedError
from mgw.routing.routes import DENIABLE
from tests.support.token_issuers import TokenIssuer

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs/identity.rst").read_text(encoding="utf-8")
NOW: Final = 1000.0
PROVIDERS: Final = "providers: {claude: {kind: anthropic}, gem: {kind: gemini}}\n"


@dataclass(frozen=True)
class Recipe:
    """A token that a vendor makes, and what becomes of it.

    ``others`` are changes with which no rule admits it.
    """

    issuer: str
    claims: dict[str, Any]
    client: str
    groups: tuple[str, ...]
    others: list[dict[str, Any]]
    audience: str = "mgw"
    subject: str = "subject"
    further: list[dict[str, Any]] = field(default_factory=list)
    """Changes with which it is admitted as well."""


GITHUB: Final = {
    "environment": "production",
    "ref": "refs/heads/topic",
    "repository": "example/service",
    "repository_owner": "example",
    "repository_owner_id": "123456",
    "workflow_ref": "example/service/.github/workflows/review.yml@refs/heads/main",
}
RECIPES: Final = {
    "Kubernetes": Recipe(
        "https://kubernetes.default.svc.cluster.local",
        {"kubernetes.io": {"namespace": "ml-train", "serviceaccount": {"name": "trainer", "uid": "1"}}},
        "system:serviceaccount:ml-train:trainer",
        ("ml",),
        [{"kubernetes.io": {"namespace": "web"}}, {"kubernetes.io": {}}],
        subject="system:serviceaccount:ml-train:trainer",
    ),
    "GitHub Actions": Recipe(
        "https://token.actions.githubusercontent.com",
        GITHUB,
        "example/service",
        ("ci",),
        [
            {"repository_owner": "example2"},
            {"repository_owner_id": "654321"},
            {"environment": "staging"},
            {"environment": None, "ref": "refs/pull/1/merge"},
        ],
        further=[{"environment": None, "ref": "refs/heads/main"}],
    ),
    "GitLab": Recipe(
        "https://gitlab.com",
        {"project_path": "example/service", "ref_protected": "true", "user_login": "ann"},
        "example/service",
        ("ci",),
        [{"ref_protected": "false"}, {"project_path": "example2/service"}, {"project_path": "me/example/x"}],
        further=[{"ref_protected": "true"}],
    ),
    "Microsoft Entra": Recipe(
        "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0",
        {"oid": "aaaaaaaa-0000-1111-2222-bbbbbbbbbbbb", "roles": ["LLM.Research"], "ver": "2.0"},
        "aaaaaaaa-0000-1111-2222-bbbbbbbbbbbb",
        ("research",),
        [{"roles": ["Other"]}, {"roles": None}],
        audience="66666666-7777-8888-9999-000000000000",
    ),
    "Okta": Recipe(
        "https://example.okta.com/oauth2/aus1a2b3c4d5e6f7g8h9",
        {"groups": ["Everyone", "llm-admin"], "cid": "0oa9", "uid": "00u1"},
        "ann@example.com",
        ("research",),
        [{"groups": ["Everyone"]}, {"groups": None}],
        subject="ann@example.com",
    ),
    "Google": Recipe(
        "https://accounts.google.com",
        {"email": "trainer@my-project.iam.gserviceaccount.com", "email_verified": True, "azp": "1"},
        "trainer@my-project.iam.gserviceaccount.com",
        ("ml",),
        [{"email_verified": False}, {"email": "trainer@other-project.iam.gserviceaccount.com"}],
    ),
    "Keycloak": Recipe(
        "https://login.example.com/realms/main",
        {"preferred_username": "ann", "realm_access": {"roles": ["offline_access", "llm-research"]}},
        "ann",
        ("research",),
        [{"realm_access": {"roles": ["offline_access"]}}, {"realm_access": None}],
    ),
}


def entry_of(title: str) -> JwtSettings:
    """Return the entry of a section's configuration."""
    section = PAGE.partition(f"\n{title}\n~~~")[2]
    block = re.search(r"\n\.\. code:: yaml\n\n((?:(?:    .*)?\n)+)", section)
    assert block is not None
    config = parse(PROVIDERS + dedent(block[1]), "mgw.yaml", {}, DENIABLE)
    (entry,) = config.edge_auth.jwt
    return entry


def verified(title: str, recipe: Recipe, **changes: Any) -> VerifiedToken:
    """Check a token by the section's configuration."""
    issuer = TokenIssuer(recipe.issuer, recipe.audience)
    claims = {name: value for name, value in {**recipe.claims, **changes}.items() if value is not None}
    token = parse_token(issuer.token(recipe.subject, NOW + 300, **claims).encode())
    assert token is not None
    return verify_token(token, TokenEntry.of(entry_of(title)), issuer.key_set(), NOW)


def test_each_section_of_the_recipes_is_tried() -> None:
    recipes = PAGE.partition("\nRecipes\n---")[2]
    assert re.findall(r"^(.+)\n~{3,}$", recipes, re.MULTILINE) == list(RECIPES)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_admits_the_token_that_its_vendor_makes(title: str) -> None:
    recipe = RECIPES[title]
    for changes in [{}, *recipe.further]:
        found = verified(title, recipe, **changes)
        assert (found.value, found.groups) == (recipe.client, recipe.groups)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_admits_no_others(title: str) -> None:
    recipe = RECIPES[title]
    for changes in recipe.others:
        with pytest.raises(TokenError) as refused:
            verified(title, recipe, **changes)
        assert refused.value.flaw is TokenFlaw.NO_RULE, changes
    with pytest.raises(TokenError) as refused:
        verified(title, recipe, aud="other")
    assert refused.value.flaw is TokenFlaw.AUDIENCE


def test_a_service_of_okta_is_named_by_its_client_id() -> None:
    found = verified("Okta", RECIPES["Okta"], groups=None, cid="0oa1a2b3c4d5e6f7g8h9")
    assert found.groups == ("services",)


ROW: Final = re.compile(r"   \* - ``(\w+)``\n     - (?:.+\n(?:       .+\n)*)     - (\d+) ``(\w+)``\n")
CODES: Final = {503: "identity_provider_unavailable", 403: "access_denied", 401: "invalid_token"}


def test_the_table_has_each_reason_and_its_response() -> None:
    section = PAGE.partition("\nHow a token is checked\n---")[2].partition("\nRules\n---")[0]
    rows = {row[1]: (int(row[2]), row[3]) for row in ROW.finditer(section)}
    statuses = {flaw: TokenRefusedError(flaw, "corp", "words").reason.status for flaw in TokenFlaw}
    assert rows == {flaw.value: (status, CODES[status]) for flaw, status in statuses.items()}


def test_the_sentences_that_the_page_quotes_are_those_of_the_gateway() -> None:
    assert "the token has\nexpired: get a new one from its issuer``" in PAGE
    error = TokenRefusedError(TokenFlaw.EXPIRED, "corp", "the token has expired")
    assert error.message == "the token has expired: get a new one from its issuer"
    assert error.challenge is not None
    assert error.challenge.decode() in re.sub(r"\n", " ", PAGE)
