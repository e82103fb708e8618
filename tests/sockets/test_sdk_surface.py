"""Every method of the official SDKs: an upstream receives through the gateway what it receives directly.

And no row of the route table is seen by the table alone: an SDK or a test asks for each.

The methods are found in the SDKs themselves, so a version of one that brings another shows up here.  What is
not compared, and what may differ, stand with their reasons in ``tests/support/sdk_walk`` (``listed`` and
``differences``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import openai
import pytest
from google import genai
from openai.resources.evals import Evals

from mgw.nouns.errors import GatewayError
from mgw.routing.match import RouteTable
from mgw.routing.route import Route, Treatment
from mgw.routing.routes import ROUTES
from mgw.wire.headers import RawHeaders
from tests.support.fork_server import start_program
from tests.support.grid import GRID
from tests.support.sdk_walk import listed, walk
from tests.support.sdk_walk.asynchronous import SAMPLES
from tests.support.sdk_walk.calls import SDKS, Outcome, run
from tests.support.sdk_walk.cases import Case
from tests.support.sdk_walk.differences import of_calls, of_requests
from tests.support.sdk_walk.records import Recorded
from tests.support.sdk_walk.street import CLIENT_KEY, LIMITED_KEY, PROVIDERS, Street, open_street
from tests.support.sdk_walk.walk import Walk
from tests.support.surface import CONVERSATIONS, SURFACE

RESOURCES = walk.resources()
ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "tests/support/sdk_walk/planted"
TABLE = RouteTable(ROUTES)
UNCOMPARED = (listed.NO_HTTP, listed.RAISE_FIRST, listed.OWN_ANSWER, listed.REFUSED)


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    """The upstreams, and a gateway before them."""
    with open_street() as opened:
        yield opened


@pytest.fixture(scope="module")
def walks(street: Street) -> Mapping[str, Walk]:
    """The walk of each SDK."""
    return {name: walk.of(name, street) for name in SDKS}


def compared(walked: Walk, resource: str) -> list[str]:
    """Return the methods of a resource, or of all, that send the same through the gateway."""
    sdk = walked.sdk.name
    return [
        name
        for name in (walked.below(resource) if resource else walked.methods)
        if not any(listed.named(name, table[sdk]) for table in UNCOMPARED)
    ]


def listed_in(walked: Walk, table: listed.Reasons) -> list[str]:
    """Return the methods that a table lists."""
    return [name for name in walked.methods if listed.named(name, table[walked.sdk.name])]


def none_of(differences: Iterator[str]) -> None:
    """Fail with all differences, a line for each."""
    found = list(differences)
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize("resource", RESOURCES)
def test_a_method_sends_the_same_through_the_gateway(walks: Mapping[str, Walk], resource: str) -> None:
    sdk, _, name = resource.partition(".")
    walked = walks[sdk]
    none_of(what for method in compared(walked, name) for what in walked.differences(method))


@pytest.mark.parametrize("resource", RESOURCES)
def test_a_prefix_of_a_model_names_the_provider_and_stays_here(
    walks: Mapping[str, Walk], resource: str
) -> None:
    sdk, _, name = resource.partition(".")
    walked = walks[sdk]
    methods = compared(walked, name)
    none_of(what for method in methods for what in walked.differences_with_prefix(method))


@pytest.mark.slow
def test_a_key_with_models_sends_the_same() -> None:
    with open_street(key=LIMITED_KEY) as limited:
        walks = [walk.of(name, limited) for name in SDKS]
        none_of(
            what for walked in walks for name in compared(walked, "") for what in walked.differences(name)
        )


# Every row -----------------------------------------------------------------------------------------------


def row_of(method: str, target: str, headers: RawHeaders) -> Route | None:
    """Return the row that serves a request."""
    path, _, query = target.partition("?")
    try:
        return TABLE.match(method, path, query.encode() or None, headers).route
    except GatewayError:
        return None


def asked_by_sdks(walks: Mapping[str, Walk]) -> Iterator[Recorded]:
    """Yield what the methods send whose requests are compared."""
    for walked in walks.values():
        for name in compared(walked, ""):
            for case in walked.cases(name):
                yield from walked.direct(name, case).requests[walked.sdk.provider]


def said(headers: tuple[str, ...]) -> RawHeaders:
    """Return written headers as the gateway reads them."""
    return [(name.encode(), value.encode()) for name, _, value in (one.partition(": ") for one in headers)]


def asked_by_hand() -> set[str]:
    """Return the rows that a request of the surface or of the support grid reaches."""
    rows = {row_of(asked.method, asked.path, said(asked.headers)) for asked in (*SURFACE, *CONVERSATIONS)}
    rows |= {row_of(row.method, row.path.replace("{model}", "m-1"), said(row.headers)) for row in GRID}
    return {row.name for row in rows if row is not None}


@pytest.mark.slow
def test_no_row_of_the_table_is_seen_by_the_table_alone(walks: Mapping[str, Walk]) -> None:
    by_sdk = {
        row_of(one.method, one.target, [(name.encode(), value.encode()) for name, value in one.headers])
        for one in asked_by_sdks(walks)
    }
    seen = asked_by_hand() | {row.name for row in by_sdk if row is not None}
    others = {
        Treatment.LOCAL,
        Treatment.REALTIME,
    }  # the latter are all in tests/memory/realtime/test_routes.py
    assert {row.name for row in ROUTES if row.treatment not in others} - seen == set()


# What the walk leaves out --------------------------------------------------------------------------------


@pytest.mark.parametrize("sdk", SDKS)
def test_the_walk_misses_no_resource(walks: Mapping[str, Walk], sdk: str) -> None:
    found = {f"{sdk}.{name.partition('.')[0]}" for name in walks[sdk].methods}
    assert found == {resource for resource in RESOURCES if resource.startswith(f"{sdk}.")}


@pytest.mark.parametrize("sdk", SDKS)
def test_what_is_listed_is_there(walks: Mapping[str, Walk], sdk: str) -> None:
    methods = walks[sdk].methods
    tables = (*UNCOMPARED, walk.SPECIAL)
    keys = {key for table in tables for key in table[sdk]}
    assert not [key for key in keys if not any(listed.named(method, {key: ""}) for method in methods)]


@pytest.mark.parametrize("sdk", SDKS)
def test_a_method_of_another_mode_sends_nothing(walks: Mapping[str, Walk], sdk: str) -> None:
    walked = walks[sdk]
    for name in listed_in(walked, listed.RAISE_FIRST):
        for case in walked.cases(name):
            outcome = walked.direct(name, case)
            assert isinstance(outcome.error, ValueError), name
            assert not any(outcome.requests.values()), name


@pytest.mark.parametrize("sdk", SDKS)
def test_no_upstream_sees_a_client_that_asks_for_the_catalog(walks: Mapping[str, Walk], sdk: str) -> None:
    walked = walks[sdk]
    for name in listed_in(walked, listed.OWN_ANSWER):
        for case in walked.cases(name):
            direct = walked.direct(name, case).requests[walked.sdk.provider]
            sent = {value for one in direct for key, value in one.headers if key.lower() == "user-agent"}
            outcome = walked.through(name, case)
            for came in (one for requests in outcome.requests.values() for one in requests):
                assert came.header("user-agent") not in sent, (name, came)  # a live list asks by itself


def refusals(walked: Walk, table: listed.Reasons) -> set[tuple[int, str | None]]:
    """Return how the gateway refuses the methods of a table, none of which an upstream hears of."""
    found = set()
    for name in listed_in(walked, table):
        for case in walked.cases(name):
            outcome = walked.through(name, case)
            assert not any(outcome.requests.values()), name
            assert isinstance(outcome.error, openai.APIStatusError), name
            found.add((outcome.error.status_code, outcome.error.code))
    return found


def test_what_is_ruled_out_is_a_501_that_no_upstream_hears_of(walks: Mapping[str, Walk]) -> None:
    assert refusals(walks["openai"], listed.REFUSED) == {(501, "not_implemented")}


@pytest.mark.parametrize("sdk", SDKS)
def test_the_asynchronous_clients_send_the_same(street: Street, sdk: str) -> None:
    sample, provider = SAMPLES[sdk], PROVIDERS[SDKS[sdk].provider]

    def called(origin: str) -> Outcome:
        nothing = Case("", lambda model: {})
        return run(lambda: asyncio.run(sample(origin, CLIENT_KEY)), nothing, street.watched())

    direct, through = called(street.upstreams[provider.name].url), called(street.gateway)
    assert direct.error is None
    assert through.error is None
    none_of(of_calls(direct.requests[provider.name], through.requests, provider))


@pytest.mark.parametrize("version", ["v1alpha", "v1beta"])
def test_gemini_is_asked_under_the_version_of_its_base_address(street: Street, version: str) -> None:
    client = genai.Client(
        api_key=CLIENT_KEY, http_options={"base_url": street.gateway, "api_version": version}
    )
    outcome = run(client.files.get, Case("", lambda _: {"name": "files/file-1"}), street.watched())
    assert [one.target for one in outcome.requests["gem"]] == ["/v1/files/file-1"]


def test_wrong_rows_are_found_and_no_others() -> None:
    environ = {"PYTHONPATH": f"{PLANTED}:{ROOT}"}  # the folder's sitecustomize spoils the route table
    with open_street(environ, start_program) as spoiled:
        walked = walk.of("openai", spoiled)
        found = {name for name in compared(walked, "evals") if any(walked.differences(name))}
    assert found == {"evals.create", "evals.retrieve"}


def test_a_method_that_is_new_is_found(street: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    def renew(self: Evals) -> object:
        return self._post("/renewals", cast_to=object)

    def remember(self: Evals) -> None:
        """Send nothing."""

    monkeypatch.setattr(Evals, "renew", renew, raising=False)
    monkeypatch.setattr(Evals, "remember", remember, raising=False)
    walked = walk.of("openai", street)
    found = {name for name in compared(walked, "evals") if any(walked.differences(name))}
    assert found == {"evals.renew", "evals.remember"}


SENT = Recorded(
    "POST", "/v1/files?a=1", (("Content-Type", "text/plain"), ("Authorization", "Bearer mine")), b"ab"
)
CAME = replace(SENT, headers=(SENT.headers[0], ("authorization", PROVIDERS["main"].credential)))
WITH_CLIENTS_KEY = replace(CAME, target=f"/v1/files?a=1&key={CLIENT_KEY}")


@pytest.mark.parametrize(
    ("came", "words"),
    [
        pytest.param(CAME, [], id="nothing"),
        pytest.param(replace(CAME, method="PUT"), ["the method"], id="method"),
        pytest.param(replace(CAME, target="/v1/files?a=%31"), ["the target"], id="target"),
        pytest.param(replace(CAME, body=b"a b"), ["the body"], id="body"),
        pytest.param(replace(CAME, headers=CAME.headers[1:]), ["text/plain is lost"], id="header lost"),
        pytest.param(
            replace(CAME, headers=(*CAME.headers, ("X-A", "1"))), ["X-A: 1 is new"], id="header new"
        ),
        pytest.param(
            replace(CAME, headers=(*CAME.headers, ("Accept-Encoding", "br"))), ["offers br"], id="coding"
        ),
        pytest.param(SENT, ["the credential"], id="credential"),
        pytest.param(WITH_CLIENTS_KEY, ["the target", "own key came along"], id="key of the client"),
    ],
)
def test_each_difference_between_requests_is_told(came: Recorded, words: list[str]) -> None:
    found = list(of_requests(SENT, came, PROVIDERS["main"]))
    assert len(found) == len(words), found
    assert all(word in what for word, what in zip(words, found, strict=True)), found


@pytest.mark.parametrize(
    "through",
    [
        pytest.param({"main": [], "claude": []}, id="nobody"),
        pytest.param({"main": [], "claude": [CAME]}, id="another provider"),
        pytest.param({"main": [CAME, CAME], "claude": []}, id="twice"),
        pytest.param({"main": [CAME], "claude": [CAME]}, id="two providers"),
    ],
)
def test_a_request_that_is_not_where_it_belongs_is_told(through: Mapping[str, list[Recorded]]) -> None:
    assert list(of_calls([SENT], through, PROVIDERS["main"]))
