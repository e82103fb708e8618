"""Token endpoints in memory: the test sees every request and answers when it likes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from treq.client import HTTPClient
from twisted.internet.task import Clock

from mgw.config.proxy import ProxyAddress
from mgw.credentials.recent_secrets import RecentSecrets
from mgw.credentials.sources import CredentialSources
from mgw.credentials.subscription.registry import Subscriptions
from mgw.credentials.token_client import HttpTokenClient
from mgw.credentials.token_request import MAX_RESPONSE_BYTES, TokenClient
from mgw.exchange.offload import run_inline
from mgw.upstream.agent import UpstreamAgent, client_over
from mgw.upstream.client import Upstream
from mgw.usage import receiver as receivers
from mgw.usage.receiver import Receiver
from tests.support.upstreams import LIMITS, MemoryEndpoint, ProviderConnection

TOKEN_URL = "http://idp.example/token"
WALL = 1_800_000_000.0
"""What the calendar says when the clock begins."""
_REASONS = {200: "OK", 302: "Found", 400: "Bad Request", 401: "Unauthorized", 500: "Server Error"}


@dataclass(frozen=True)
class TokenPost:
    """One request as an endpoint got it."""

    head: bytes
    body: bytes
    connection: ProviderConnection = field(repr=False)

    @property
    def form(self) -> dict[str, str]:
        """The fields; none stands twice."""
        pairs = parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=bool(self.body))
        assert len(dict(pairs)) == len(pairs), "a field stands twice"
        return dict(pairs)

    @property
    def line(self) -> bytes:
        """Method and target."""
        return self.head.partition(b" HTTP/")[0]

    def header(self, name: bytes) -> bytes | None:
        """The value of a header, which stands at most once."""
        lines = [line.partition(b": ") for line in self.head.split(b"\r\n")[1:]]
        found = [value for key, _, value in lines if key.lower() == name]
        assert len(found) <= 1
        return found[0] if found else None

    def answer(self, body: object, status: int = 200, headers: str = "") -> None:
        """Answer it: bytes go as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Some')}\r\nContent-Length: {len(data)}\r\n"
        self.connection.send(f"{head}Connection: close\r\n{headers}\r\n".encode() + data)
        self.connection.close()

    def answer_token(self, token: str, **more: object) -> None:
        """Answer it with a token that is good for an hour, unless ``more`` says otherwise."""
        self.answer({"access_token": token, "token_type": "Bearer", "expires_in": 3600, **more})

    def refuse(self, error: str = "invalid_grant", status: int = 400) -> None:
        """Answer it with an error of OAuth."""
        self.answer({"error": error, "error_description": "canary-description"}, status)


@dataclass
class TokenHosts:
    """All hosts that an agent reaches, by their origins."""

    clock: Clock = field(default_factory=Clock)
    endpoints: dict[str, MemoryEndpoint] = field(default_factory=dict)
    client: TokenClient = field(init=False)
    proxies: list[ProxyAddress | None] = field(default_factory=list)
    """What clients were opened for."""
    sources: CredentialSources = field(init=False)
    """Sources of credentials that ask these hosts."""

    def __post_init__(self) -> None:
        recent = RecentSecrets()
        self.client = HttpTokenClient(self.http(MAX_RESPONSE_BYTES), self.clock, recent=recent)
        seconds = self.clock.seconds

        def wall() -> float:
            return WALL + seconds()

        subscriptions = Subscriptions(self.clock, wall, run_inline, lambda: 0.5, recent=recent)
        self.sources = CredentialSources(
            self.clock, self._open_client, subscriptions, seconds, wall, recent=recent
        )

    def http(self, max_bytes: int) -> HTTPClient:
        """Return treq's client for these hosts, which reads so much of a body."""
        return client_over(UpstreamAgent(self._upstream_at, max_bytes))

    def receiver(self, seconds: float) -> Receiver:
        """Return what posts usage events to these hosts."""
        return Receiver(*self.sink_client(seconds), self.clock, seconds)

    def sink_client(self, _: float) -> tuple[HTTPClient, Callable[[], None]]:
        """Return a client of a usage sink, as its tools do."""
        return self.http(receivers.MAX_RESPONSE_BYTES), lambda: None

    def _open_client(self, proxy: ProxyAddress | None) -> TokenClient:
        self.proxies.append(proxy)
        return self.client

    def endpoint(self, origin: str = "http://idp.example") -> MemoryEndpoint:
        """What makes the connections to a host."""
        return self.endpoints.setdefault(origin, MemoryEndpoint())

    def posts(self, origin: str = "http://idp.example") -> list[TokenPost]:
        """The requests that a host got, oldest first; there is one on each connection."""
        found = []
        for connection in self.endpoint(origin).connections:
            head, _, body = connection.received.partition(b"\r\n\r\n")
            if head:
                found.append(TokenPost(head, body, connection))
        return found

    def newest(self, origin: str = "http://idp.example") -> TokenPost:
        """The request that came last."""
        return self.posts(origin)[-1]

    def _upstream_at(self, origin: str) -> Upstream:
        return Upstream(origin, origin, LIMITS, self.endpoint(origin), self.clock)
