"""Providers in memory, each with connections of its own, as the gateway's own questions meet them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from twisted.internet.task import Clock

from mgw.exchange.upstream_headers import provider_headers
from mgw.generation import Generation
from mgw.ops.probes import ProviderProbe
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline
from tests.support.upstreams import MemoryEndpoint, ProviderConnection, upstream_to

LISTS: dict[str, object] = {
    "main": {"object": "list", "data": [{"id": "gpt-c", "created": 7}, {"id": "gpt-live", "created": 9}]},
    "host": {"data": [{"id": "meta/llama"}]},
    "claude": {
        "data": [{"id": "claude-live", "display_name": "Claude", "created_at": "2026-01-02T03:04:05Z"}],
        "has_more": False,
    },
    "gem": {"models": [{"name": "models/gemini-live", "displayName": "Gemini"}]},
    "mute": {"data": []},
}
"""What each of :data:`THREE_FAMILIES` lists."""
STATUSES = {200: b"OK", 401: b"Unauthorized", 404: b"Not Found", 503: b"Service Unavailable"}


@dataclass
class Providers:
    """A generation whose providers are played by the test."""

    text: str = THREE_FAMILIES
    pipeline: Pipeline | None = None
    """Where the generation comes from, in place of the text."""
    clock: Clock = field(init=False)
    endpoints: dict[str, MemoryEndpoint] = field(default_factory=dict)
    generation: Generation = field(init=False)
    probe: ProviderProbe = field(init=False)

    def __post_init__(self) -> None:
        pipeline = self.pipeline or Pipeline(self.text)
        self.clock = pipeline.clock
        self.generation = pipeline.generation
        self.probe = ProviderProbe(self.clock, provider_headers)
        names = self.generation.config.providers
        self.endpoints = {name: MemoryEndpoint() for name in names}
        self.generation.upstreams = {
            name: upstream_to(provider, self.endpoints[name], self.clock, pipeline.wires)
            for name, provider in names.items()
        }

    def connection(self, name: str) -> ProviderConnection:
        """The newest connection to a provider."""
        return self.endpoints[name].connections[-1]

    def target(self, name: str) -> str:
        """What a provider was asked for last: path and query."""
        return self.requests(name)[-1].split(b" ")[1].decode()

    def requests(self, name: str) -> list[bytes]:
        """The heads of all requests that reached a provider."""
        heads = [
            connection.received.split(b"\r\n\r\n")[:-1] for connection in self.endpoints[name].connections
        ]
        return [head for of_connection in heads for head in of_connection]

    def headers(self, name: str) -> dict[str, str]:
        """The headers of a provider's last request, names in lower case."""
        lines = self.requests(name)[-1].decode().split("\r\n")[1:]
        pairs = [line.partition(": ") for line in lines]
        assert len({pair[0].lower() for pair in pairs}) == len(pairs), "a header stands twice"
        return {name.lower(): value for name, _, value in pairs}

    def respond(self, name: str, body: object, status: int = 200) -> None:
        """Have a provider answer its last request; text goes as it is, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = b"HTTP/1.1 %d %s\r\nContent-Length: %d\r\n\r\n" % (status, STATUSES[status], len(data))
        self.connection(name).send(head + data)

    def all_say(self, *but: str) -> None:
        """Have every provider but these list its models."""
        for name, body in LISTS.items():
            if name not in but:
                self.respond(name, body)

    def settled(self) -> tuple[int, int, int]:
        """What is still held: timers of limits, users of the generation, connections under way.

        A connection at rest has a timer of its own.
        """
        upstreams = self.generation.upstreams.values()
        active = sum(upstream.active for upstream in upstreams)
        resting = sum(upstream.idle for upstream in upstreams)
        return len(self.clock.getDelayedCalls()) - resting, self.generation.in_use, active
