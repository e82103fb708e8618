"""A law: whatever a setting keeps secret is known to whoever hides secrets in texts."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from msgspec import Struct, structs

from mgw.config.load import parse, parse_profile
from mgw.config.profile import Profile
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.config.settings_base import Settings
from mgw.nouns.secret import Secret

CANARY = "canary-7f3a91-secret"

Planted = tuple[str, object]
"""Where a canary was planted, and the value that holds it."""


def plants_in(annotation: Any, place: str) -> Iterator[Planted]:
    """Yield values of a type, each with one canary in another place."""
    inner = get_args(annotation)
    if annotation is Secret:
        yield place, Secret(CANARY)
    elif inner:
        yield from plants_in_several(get_origin(annotation), inner, place)
    elif isinstance(annotation, type) and issubclass(annotation, Settings):
        yield from plants_in_settings(annotation, place)
    elif isinstance(annotation, type) and issubclass(annotation, Struct):
        yield from plants_in_struct(annotation, place)


def plants_in_several(origin: Any, inner: tuple[Any, ...], place: str) -> Iterator[Planted]:
    if origin is Annotated:
        yield from plants_in(inner[0], place)
    elif origin in (Union, UnionType):
        for one in inner:
            yield from plants_in(one, place)
    elif origin is dict:
        for where, value in plants_in(inner[1], f"{place}.NAME"):
            yield where, {"NAME": value}
    elif origin in (tuple, list, frozenset, set):
        for where, value in plants_in(inner[0], f"{place}.0"):
            yield where, origin([value])


def plants_in_settings(kind: type[Settings], place: str = "") -> Iterator[Planted]:
    """Yield settings with one canary each: as a secret, or as a text of a field that does not print."""
    for name, field in kind.model_fields.items():
        here = f"{place}.{name}" if place else name
        found = list(plants_in(field.annotation, here))
        if not field.repr and get_origin(field.annotation) is dict:
            found.append((f"{here}.NAME", {"NAME": CANARY}))
        for where, value in found:
            yield where, kind.model_construct(None, **{name: value})


def plants_in_struct(kind: type[Struct], place: str) -> Iterator[Planted]:
    for field in structs.fields(kind):
        for where, value in plants_in(field.type, f"{place}.{field.name}"):
            fields = {
                other.name: value if other.name == field.name else None for other in structs.fields(kind)
            }
            yield where, kind(**fields)


PLANTS = [
    pytest.param(value, id=f"{root.__name__}: {where}")
    for root in (Config, Profile)
    for where, value in plants_in_settings(root)
]
WELL_KNOWN = {
    "Config: edge_auth.keys.0",
    "Config: edge_auth.keys.0.key",
    "Config: edge_auth.keys.0.sha256",
    "Config: dashboard.keys.0",
    "Config: providers.NAME.api_key",
    "Config: providers.NAME.headers.set.NAME",
    "Config: providers.NAME.oauth.client_secret",
    "Config: providers.NAME.oauth.refresh_token",
    "Config: providers.NAME.oauth.extra.NAME",
    "Config: providers.NAME.oauth.headers.NAME",
    "Config: providers.NAME.proxy.password",
    "Config: hooks.webhook.secret",
    "Config: hooks.webhook.headers.NAME",
    "Config: hooks.otlp.headers.NAME",
    "Config: fleet.redis.url.password",
    "Profile: client_secret",
}


def test_the_walk_finds_what_everybody_knows_to_be_secret() -> None:
    assert {str(plant.id) for plant in PLANTS} >= WELL_KNOWN


@pytest.mark.parametrize("settings", PLANTS)
def test_a_secret_is_known_wherever_it_is_configured(settings: Settings) -> None:
    assert Secret(CANARY) in secrets_of(settings)


def test_a_part_of_a_secret_that_may_be_repeated_alone_is_known() -> None:
    config = parse(
        """
providers:
  main:
    kind: openai_compat
    base_url: https://host.example/v1
    auth: none
    headers: {set: {X-Auth: "Bearer canary-bearer-1", X-Team: canary-team-12}}
    proxy: "http://user:canary-proxy-1@proxy.example:3128"
hooks:
  webhook:
    url: https://hooks.example/services/T0CANARY1B/x9Yb2Kq7Lm4Np8Rt
    headers: {Authorization: "Bearer canary-hook-12"}
""",
        "mgw.yaml",
        {},
    )
    known = {secret.reveal() for secret in secrets_of(config)}
    assert known >= {
        *("canary-bearer-1", "canary-team-12", "canary-proxy-1", "canary-hook-12"),
        *("dXNlcjpjYW5hcnktcHJveHktMQ==", "x9Yb2Kq7Lm4Np8Rt"),
    }
    assert not known & {"https://host.example/v1", "hooks.example", "https", "user", "services"}


def test_texts_of_a_profile_that_may_be_credentials_are_known() -> None:
    profile = parse_profile(
        """
client_id: id
client_secret: canary-secret-1
token:
  url: https://idp.example/token
  headers: {X-Client-Secret: canary-header-1, Accept: application/json}
  parameters: {access_token: canary-field-1, audience: everybody-of-it}
headers:
  set: {X-Other-Auth: "Basic canary-basic-1", User-Agent: example-client/1}
  merge: {X-Token: [canary-merged-1]}
cloak: {headers: {X-Secret: canary-cloak-1}}
""",
        "profile.yaml",
        {},
    )
    known = {secret.reveal() for secret in secrets_of(profile)}
    assert known >= {f"canary-{what}-1" for what in ("secret", "header", "field", "basic", "merged", "cloak")}
    assert not known & {"application/json", "everybody-of-it", "example-client/1", "id"}
