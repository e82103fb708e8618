"""Every path of contract 4.2 to 4.6: whose it is, who gets it, and what arrives.

The site with its channel, the pipeline and the pool are the real ones; only the sockets are in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from twisted.internet.testing import StringTransport

from mgw.routing.match import RouteTable
from mgw.routing.routes import ROUTES
from mgw.usage.event import UsageEvent
from tests.support.channels import channel_of
from tests.support.grid import ANTHROPIC, COMPAT, GEMINI, OPENAI
from tests.support.surface import CONVERSATIONS, PLANNED, SURFACE
from tests.support.surface.asked import ALIAS, ALIASES, SECOND, Asked
from tests.support.web_servers import WebServerHarness

KINDS: Final = {
    OPENAI: OPENAI,
    COMPAT: COMPAT,
    ANTHROPIC: ANTHROPIC,
    SECOND[ANTHROPIC]: ANTHROPIC,
    GEMINI: GEMINI,
    SECOND[GEMINI]: GEMINI,
}
"""By provider."""
CONFIGURATION: Final = "\n".join(
    [
        "providers:",
        *(
            f'  {name}: {{kind: {kind}, base_url: "https://{name.replace("_", "-")}.example/'
            f'{"v1beta" if kind == GEMINI else "v1"}", api_key: key-of-{name}}}'
            for name, kind in KINDS.items()
        ),
        f"defaults: {{openai_dialect: {OPENAI}, anthropic_dialect: {ANTHROPIC}, gemini_dialect: {GEMINI}}}",
        ALIASES,
    ]
)
SHOWN: Final = {
    OPENAI: "OpenAI-Beta: any",
    ANTHROPIC: "anthropic-version: 2023-06-01",
    GEMINI: "x-goog-api-client: any",
}
"""By family: the header that shows it."""
TABLE: Final = RouteTable(ROUTES)
CARRIERS: Final = {"authorization", "x-api-key", "x-goog-api-key"}
USAGE: Final[dict[str, dict[str, Any]]] = {
    OPENAI: {"usage": {"prompt_tokens": 7, "completion_tokens": 5, "input_tokens": 7, "output_tokens": 5}},
    ANTHROPIC: {"usage": {"input_tokens": 7, "output_tokens": 5}},
    GEMINI: {
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5},
        "usage": {"total_input_tokens": 7, "total_output_tokens": 5},
    },
}
MODELS: Final = [asked for asked in SURFACE if asked.names_model]
BARE: Final = [asked for asked in SURFACE if not asked.names_model]
GOOGLES: Final = [asked for asked in SURFACE if asked.family == GEMINI]


@dataclass(frozen=True)
class Came:
    """What one provider, and no other, received; what the client got; and the event."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes
    answer: bytes
    event: UsageEvent

    def value(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for key, value in self.headers if key.lower() == name]


def family_of(asked: Asked, shown: str) -> str:
    """Return whose a path is for a client that shows itself to be of a family."""
    sign, _, value = SHOWN[shown].partition(": ")
    path, _, query = asked.path.partition("?")
    return TABLE.dialect_of(path, query.encode() or None, [(sign.encode(), value.encode())]).family.value


class ManyConnectionsHarness(WebServerHarness):
    """A web server that gets many requests, each on a connection of its own."""

    def __init__(self) -> None:
        super().__init__(CONFIGURATION)

    def refused(self, asked: Asked) -> tuple[int, Any, UsageEvent | None]:
        """Send what no provider hears of: the status, the body as JSON and the event."""
        before = len(self.pipeline.endpoint.connections)
        self._ask(asked)
        assert len(self.pipeline.endpoint.connections) == before, "a provider was called"
        return self.status(), self.body(), self.observer.events[0] if self.observer.events else None

    def through(self, asked: Asked) -> Came:
        """Send what one provider answers."""
        before = len(self.pipeline.endpoint.connections)
        self._ask(asked)
        assert len(self.pipeline.endpoint.connections) == before + 1, self.received()
        head, _, body = self.connection.received.partition(b"\r\n\r\n")
        line, *rest = head.decode().split("\r\n")
        told = json.dumps(USAGE[asked.family]).encode()
        self.connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(told) + told
        )
        self.connection.close()
        assert self.received().endswith(b"\r\n\r\n" + told), self.received()
        headers = [(name, value) for name, _, value in (one.partition(": ") for one in rest)]
        return Came(line, headers, body, self.received(), self.event)

    def _ask(self, asked: Asked) -> None:
        self.leave()
        self.transport, self.channel = StringTransport(), channel_of(self.factory)
        self.channel.makeConnection(self.transport)  # type: ignore[no-untyped-call]  # Twisted's
        self.observer.events.clear()
        self.send(asked.request("edge"))


@pytest.fixture(scope="module")
def harness() -> ManyConnectionsHarness:
    """One gateway for all requests."""
    return ManyConnectionsHarness()


def each(all_asked: Iterable[Asked]) -> pytest.MarkDecorator:
    """One test for each request."""
    return pytest.mark.parametrize("asked", [pytest.param(asked, id=asked.name) for asked in all_asked])


def credential(provider: str) -> dict[str, str]:
    """The one header with a key that a provider gets."""
    key = f"key-of-{provider}"
    match KINDS[provider]:
        case "anthropic":
            return {"x-api-key": key}
        case "gemini":
            return {"x-goog-api-key": key}
    return {"authorization": f"Bearer {key}"}


def check(came: Came, asked: Asked, provider: str) -> None:
    """Check that a provider got what was asked, naming its own model."""
    expected = asked.naming("m-1")
    assert came.line == f"{asked.method} {expected.path} HTTP/1.1"
    assert came.body == expected.body
    assert came.value("host") == [f"{provider.replace('_', '-')}.example"]
    carried = {name.lower(): value for name, value in came.headers if name.lower() in CARRIERS}
    assert carried == credential(provider)
    assert "edge" not in repr(came.headers)
    assert not came.value("x-provider")
    for name, _, value in (header.partition(": ") for header in asked.headers):
        assert came.value(name.lower()) == [value]
    if asked.family == ANTHROPIC:
        assert came.value("anthropic-version") == ["2023-06-01"]
    event = came.event
    assert (event.dialect, event.provider, event.http_status) == (asked.family, provider, 200)
    assert (event.modality, event.transport) == (asked.modality, "http")


@each(SURFACE)
def test_a_path_belongs_to_its_family_and_arrives_byte_for_byte(
    harness: ManyConnectionsHarness, asked: Asked
) -> None:
    came = harness.through(asked.naming("m-1"))
    check(came, asked, asked.family)
    model = came.event.model
    assert came.event.upstream_model == (None if model is None else model.removeprefix("models/"))
    assert (came.event.tokens_in, came.event.tokens_out) == ((7, 5) if asked.tells else (None, None))


@each(MODELS)
@pytest.mark.parametrize("prefixed", [True, False], ids=["prefix", "alias"])
def test_a_model_is_replaced_where_it_stands_and_chooses_the_provider(
    harness: ManyConnectionsHarness, asked: Asked, *, prefixed: bool
) -> None:
    provider = SECOND[asked.family]
    sent = asked.naming(f"{provider}/m-1" if prefixed else ALIAS[asked.family])
    check(harness.through(sent if asked.chooses else sent.choosing(provider)), asked, provider)


@each(BARE)
def test_without_a_model_the_client_says_which_provider_it_means(
    harness: ManyConnectionsHarness, asked: Asked
) -> None:
    provider = SECOND[asked.family]
    check(harness.through(asked.choosing(provider)), asked, provider)


@each(asked for asked in SURFACE if not asked.chooses or not asked.names_model)
def test_no_provider_of_another_family_gets_it(harness: ManyConnectionsHarness, asked: Asked) -> None:
    for other in SECOND.keys() - {asked.family}:
        if not asked.headers and family_of(asked, other) == other:
            continue  # see below
        status, _, event = harness.refused(asked.naming("m-1").choosing(other))
        assert status == 400
        assert event is not None
        assert (event.dialect, event.status) == (asked.family, "rejected")


@each(asked for asked in SURFACE if not asked.headers and not asked.names_model)
def test_a_named_provider_of_another_family_that_has_the_path_gets_it(
    harness: ManyConnectionsHarness, asked: Asked
) -> None:
    """Or nobody does, where that family has no such method on it."""
    for other in SECOND.keys() - {asked.family}:
        if family_of(asked, other) != other:
            continue
        sent = asked.choosing(SECOND[other])
        try:
            came = harness.through(sent)
        except AssertionError:
            status, _, event = harness.refused(sent)
            assert (status, event) == (405, None)
        else:
            assert came.line.endswith(" HTTP/1.1")
            assert came.value("host") == [f"{SECOND[other].replace('_', '-')}.example"]


@each(GOOGLES)
@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_geminis_paths_are_served_under_each_version(
    harness: ManyConnectionsHarness, asked: Asked, version: str
) -> None:
    came = harness.through(asked.naming("m-1").in_version(version))
    check(came, asked, GEMINI)


@each(CONVERSATIONS)
def test_conversations_are_not_implemented_for_any_kind(
    harness: ManyConnectionsHarness, asked: Asked
) -> None:
    for provider in KINDS:
        status, said, event = harness.refused(asked.choosing(provider))
        assert (status, said["error"]["code"]) == (501, "not_implemented")
        assert event is not None
        assert (event.dialect, event.http_status) == (OPENAI, 501)


@each(PLANNED)
def test_what_is_only_planned_is_nobodys(harness: ManyConnectionsHarness, asked: Asked) -> None:
    status, said, event = harness.refused(asked)
    assert (status, event) == (404, None)
    assert ("status" in said["error"]) == (asked.family == GEMINI)
