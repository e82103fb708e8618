"""The street of the walk: a recording upstream for each provider, and a gateway before them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.support.fork_server import Start, fork_program
from tests.support.gateway import start_gateway
from tests.support.sdk_walk.calls import Sdk
from tests.support.sdk_walk.differences import CLIENT_SECRET, Provider
from tests.support.sdk_walk.upstream import Upstream, recording_upstream

CLIENT_KEY: Final = f"edge-{CLIENT_SECRET}"
"""What the clients call themselves, and what opens the gateway."""
LIMITED_KEY: Final = f'{{name: limited, key: {CLIENT_KEY}, models: ["*"]}}'
"""The same key, whose requests are read as those of a key that may use some models only."""

_OPENAI, _ANTHROPIC, _GEMINI = "openai-", "anthropic-", "x-goog-"

PROVIDERS: Final[Mapping[str, Provider]] = {
    provider.name: provider
    for provider in (
        Provider("decoy", "authorization", "Bearer sk-canary-decoy", (_ANTHROPIC, _GEMINI)),
        Provider("main", "authorization", "Bearer sk-canary-main", (_ANTHROPIC, _GEMINI)),
        Provider(
            "claude", "x-api-key", "sk-ant-canary", (_OPENAI, _GEMINI), (("anthropic-version", "2023-06-01"),)
        ),
        Provider("gem", "x-goog-api-key", "AIza-canary", (_OPENAI, _ANTHROPIC)),
    )
}
_KINDS: Final = {"decoy": "openai_compat", "main": "openai", "claude": "anthropic", "gem": "gemini"}


@dataclass(frozen=True)
class Street:
    """Where to call."""

    upstreams: Mapping[str, Upstream]
    gateway: str

    def direct(self, sdk: Sdk) -> Any:
        """Return a client that calls its upstream."""
        return sdk.client(self.upstreams[sdk.provider].url, CLIENT_KEY)

    def through(self, sdk: Sdk) -> Any:
        """Return a client that calls the gateway."""
        return sdk.client(self.gateway, CLIENT_KEY)

    def watched(self) -> Sequence[Upstream]:
        """Return all upstreams."""
        return tuple(self.upstreams.values())


@contextmanager
def open_street(
    environ: Mapping[str, str] | None = None, start: Start = fork_program, key: str = CLIENT_KEY
) -> Iterator[Street]:
    """Run the upstreams and a gateway; where it is not forked, its environment may plant something in it.

    :param key: the clients' key, as it is configured.
    """
    with ExitStack() as stack:
        upstreams = {name: stack.enter_context(recording_upstream(name)) for name in PROVIDERS}
        gateway = stack.enter_context(start_gateway(_configuration(upstreams, key), environ, start=start))
        yield Street(upstreams, gateway.url)


def _configuration(upstreams: Mapping[str, Upstream], client_key: str) -> str:
    lines = ["providers:"]
    for name, provider in PROVIDERS.items():
        key = provider.credential.removeprefix("Bearer ")
        lines.append(
            f'  {name}: {{kind: {_KINDS[name]}, base_url: "{upstreams[name].url}/v1", api_key: {key}}}'
        )
    lines += [
        "defaults: {openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}",
        f"edge_auth: {{enabled: true, keys: [{client_key}]}}",
    ]
    return "\n".join(lines) + "\n"
