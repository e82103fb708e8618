"""Each path of contract 4.2 to 4.6 over sockets, as a provider sees it; and no row that no test sees.

What happens to models, providers and families in every way is in
:mod:`tests.memory.exchange.test_specified_surface`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from mgw.errors import GatewayError
from mgw.routing.match import RouteTable
from mgw.routing.route import Route, Treatment
from mgw.routing.routes import ROUTES
from mgw.wire.headers import RawHeaders
from tests.support.deployment import EDGE, KEYS, OTHER, Deployment, key_of
from tests.support.grid import GRID
from tests.support.raw_client import RawClient
from tests.support.sdk_walk import listed, walk
from tests.support.sdk_walk.calls import SDKS
from tests.support.sdk_walk.records import Recorded
from tests.support.sdk_walk.street import PROVIDERS, Street
from tests.support.sdk_walk.upstream import recording_upstream
from tests.support.surface import CONVERSATIONS, SURFACE
from tests.support.surface.asked import ALIASES, SECOND, Asked

UNSEEN: Final = (listed.NO_HTTP, listed.RAISE_FIRST, listed.OWN_ANSWER, listed.REFUSED)
"""The methods whose requests the walk compares with nothing."""
NOT_SIMULATED: Final = {
    "gemini GET /v1beta/operations?filter=done": "it has no list of operations",
    "anthropic GET /v1/agents/sessions anthropic-version": "it takes the path for OpenAI's in any case",
}
"""What the simulator does not know, with the reason."""
TABLE: Final = RouteTable(ROUTES)


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


# Every row -----------------------------------------------------------------------------------------------


def row_of(method: str, target: str, headers: RawHeaders) -> Route | None:
    """Return the row that serves a request."""
    path, _, query = target.partition("?")
    try:
        return TABLE.match(method, path, query.encode() or None, headers).route
    except GatewayError:
        return None


def walked() -> Iterator[Recorded]:
    """Yield what the methods of the SDKs send that the walk compares."""
    with ExitStack() as stack:
        upstreams = {name: stack.enter_context(recording_upstream(name)) for name in PROVIDERS}
        street = Street(upstreams, "http://127.0.0.1:9")  # nobody calls through a gateway here
        for name, sdk in SDKS.items():
            walk_of_sdk = walk.of(name, street)
            for method in walk_of_sdk.methods:
                if not any(listed.named(method, table[name]) for table in UNSEEN):
                    for case in walk_of_sdk.cases(method):
                        yield from walk_of_sdk.direct(method, case).requests[sdk.provider]


def said(headers: tuple[str, ...]) -> RawHeaders:
    """Return written headers as the gateway reads them."""
    return [(name.encode(), value.encode()) for name, _, value in (one.partition(": ") for one in headers)]


def asked_by_hand() -> set[str]:
    """Return the rows that a request of the surface or of the support grid reaches."""
    rows = {row_of(asked.method, asked.path, said(asked.headers)) for asked in (*SURFACE, *CONVERSATIONS)}
    rows |= {row_of(row.method, row.path.replace("{model}", "m-1"), said(row.headers)) for row in GRID}
    return {row.name for row in rows if row is not None}


@pytest.mark.slow
def test_no_row_of_the_table_is_seen_by_the_table_alone() -> None:
    by_sdk = {
        row_of(one.method, one.target, [(name.encode(), value.encode()) for name, value in one.headers])
        for one in walked()
    }
    seen = asked_by_hand() | {row.name for row in by_sdk if row is not None}
    others = {
        Treatment.LOCAL,
        Treatment.REALTIME,
    }  # the latter are all in tests/memory/realtime/test_routes.py
    assert {row.name for row in ROUTES if row.treatment not in others} - seen == set()
