"""One simulator, one gateway with edge auth before it, and the SDKs before both.

The gateway has a provider of each kind, named after it (:data:`tests.support.grid.KINDS`), all of them the
simulator; everything is on that may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anthropic
import openai
from google import genai

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.grid import ANTHROPIC, CAPABILITIES, COMPAT, GEMINI, KINDS
from tests.support.simulator import SeenRequest, SimulatorProcess, start_simulator

EDGE: Final = "edge-canary-1"
KEYS: Final = {kind: f"canary-of-{kind}" for kind in KINDS}
"""The key of each provider."""
OTHER: Final = "other_"
"""Before a kind: its second provider, where a deployment has one."""
_HEADERS: Final = {ANTHROPIC: "x-api-key", GEMINI: "x-goog-api-key"}
_ON: Final = ", ".join(f"{name}: true" for name in CAPABILITIES)
_BASE: Final = """
defaults: {openai_dialect: openai, anthropic_dialect: anthropic, gemini_dialect: gemini}
observe_dropped_fields: true
"""


def providers(url: str) -> str:
    """Return the configuration, without edge auth."""
    lines = ["providers:"]
    for kind in KINDS:
        base, flags = f"{url}/{'v1beta' if kind == GEMINI else 'v1'}", _ON if kind == COMPAT else ""
        rest = f'kind: {kind}, base_url: "{base}", capabilities: {{{flags}}}'
        lines.append(f"  {kind}: {{{rest}, api_key: {KEYS[kind]}}}")
        if kind in (ANTHROPIC, GEMINI):
            lines.append(f"  {OTHER}{kind}: {{{rest}, api_key: other-{KEYS[kind]}}}")
    return "\n".join(lines) + _BASE


def key_of(request: SeenRequest, kind: str) -> str | None:
    """Return the key that a request carried in the way of a kind."""
    value = request.value(_HEADERS.get(kind, "authorization"))
    return None if value is None else value.removeprefix("Bearer ")


@dataclass
class Deployment:
    """The processes, and the clients of the gateway."""

    simulator: SimulatorProcess
    gateway: GatewayProcess
    key: str = EDGE
    """What the clients say they are."""
    by_openai: openai.OpenAI = field(init=False)
    by_anthropic: anthropic.Anthropic = field(init=False)
    by_gemini: genai.Client = field(init=False)
    direct: openai.OpenAI = field(init=False)
    """OpenAI's client of the simulator itself."""
    _seen: int = 0

    def __post_init__(self) -> None:
        url = self.gateway.url
        self.by_openai = openai.OpenAI(base_url=f"{url}/v1", api_key=self.key, max_retries=0)
        self.by_anthropic = anthropic.Anthropic(base_url=url, api_key=self.key, max_retries=0)
        self.by_gemini = genai.Client(api_key=self.key, http_options={"base_url": url})
        self.direct = openai.OpenAI(base_url=f"{self.simulator.url}/v1", api_key="k-canary", max_retries=0)

    def chosen(self, provider: str) -> openai.OpenAI:
        """Return OpenAI's client, which says in a header which provider it means."""
        return self.by_openai.with_options(default_headers={"X-Provider": provider})

    def event(self) -> dict[str, Any]:  # an event's fields
        """Return the one event since the last time."""
        (event,) = self.events(1)
        return event

    def events(self, count: int) -> list[dict[str, Any]]:
        """Return the events since the last time, which are ``count``."""
        found = self.gateway.events(self._seen + count)[self._seen :]
        self._seen += len(found)
        assert len(found) == count, found
        return found

    def request(self) -> SeenRequest:
        """Return the one request that the simulator has seen since it was cleared, and clear it."""
        (request,) = self.simulator.requests()
        self.simulator.clear()
        return request


@contextmanager
def start_deployment(more: str = "", *, edge_auth: bool = True) -> Iterator[Deployment]:
    """Start all of it; it ends with the block.

    :param more: what stands in the gateway's configuration beside the rest.
    """
    edge = f"edge_auth: {{enabled: true, keys: [{EDGE}]}}\n" if edge_auth else ""
    with start_simulator() as simulator, start_gateway(providers(simulator.url) + edge + more) as gateway:
        yield Deployment(simulator, gateway)
