"""The secret of a service: who can compute it, and who agrees on it."""

from __future__ import annotations

from hashlib import sha256

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.web.service_secret import service_secret
from tests.support.configs import THREE_FAMILIES, config

ONE, OTHER, THIRD = "first-canary-0001", "second-canary-0001", "third-canary-0001"


def settings(*keys: str) -> EdgeAuthSettings:
    return config(f"{THREE_FAMILIES}\nedge_auth: {{enabled: true, keys: [{', '.join(keys)}]}}\n").edge_auth


def test_hosts_with_the_same_keys_agree_in_whatever_order_and_form_they_have_them() -> None:
    named = f"{{name: alice, sha256: {sha256(OTHER.encode()).hexdigest()}}}"
    assert service_secret(settings(ONE, OTHER)) == service_secret(settings(named, ONE))
    assert service_secret(settings(ONE, OTHER)) != service_secret(settings(ONE, THIRD))


def test_nobody_can_derive_it_from_the_only_key() -> None:
    made_up = service_secret(EdgeAuthSettings())
    assert service_secret(settings(ONE)) == service_secret(settings(OTHER)) == made_up
    assert service_secret(settings(ONE, OTHER)) != made_up
