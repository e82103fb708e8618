"""Each path of contract 4.2 to 4.6 over sockets, as a provider sees it.

What happens to models, providers and families in every way is in
:mod:`tests.memory.exchange.test_specified_surface`, and that no row goes unseen in
:mod:`tests.sockets.test_sdk_surface`.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.deployment import EDGE, KEYS, OTHER, Deployment, key_of
from tests.support.raw_client import RawClient
from tests.support.surface import SURFACE
from tests.support.surface.asked import ALIASES, SECOND, Asked

NOT_SIMULATED: Final = {
    "gemini GET /v1beta/operations?filter=done": "it has no list of operations",
    "anthropic GET /v1/agents/sessions anthropic-version": "it takes the path for OpenAI's in any case",
}
"""What the simulator does not know, with the reason."""


@pytest.fixture(scope="module")
def deployment_config() -> str:
    return ALIASES


@pytest.fixture(scope="module")
def deployment(deployment: Deployment) -> Deployment:
    """A deployment whose simulator takes any identifier for a known one."""
    deployment.simulator.settings(keep_all=True, lenient=True)
    return deployment


@pytest.mark.parametrize("asked", [pytest.param(asked, id=asked.name) for asked in SURFACE])
def test_a_provider_of_the_family_is_asked_and_knows_the_path(deployment: Deployment, asked: Asked) -> None:
    provider = SECOND[asked.family]
    sent = asked.naming(f"{provider}/m-1").choosing(provider)
    with RawClient(deployment.gateway.port) as client:
        client.send(sent.request(EDGE))
        response = client.read_response(asked.method)
    request = deployment.request()
    expected = asked.naming("m-1")
    assert (request.method, request.target, request.body) == (asked.method, expected.path, expected.body)
    kind = provider.removeprefix(OTHER)
    assert key_of(request, kind) == (KEYS[kind] if kind == provider else f"other-{KEYS[kind]}")
    assert EDGE not in repr(request)
    assert response.status == request.status
    unknown = response.status in (401, 403, 405) or b"Invalid URL" in response.body
    assert unknown == (asked.name in NOT_SIMULATED)
    assert response.status < 500
