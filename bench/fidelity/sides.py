"""The gateways that are compared, before the same provider: ours and, when asked for, LiteLLM's proxy."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from bench.fidelity.upstream import CHAT, CONTENTS, MESSAGES, RESPONSES, Provider
from bench.processes import Server, free_port, serving, serving_gateway
from bench.rivals import LITELLM_PROGRAM, START_SECONDS, litellm_serve

PATHS: Final = {
    CHAT: "/v1/chat/completions",
    RESPONSES: "/v1/responses",
    MESSAGES: "/v1/messages",
    CONTENTS: "/v1beta/models/{model}:{method}",
}
_KEY: Final = "bench-client-key"
_CONFIG: Final = """\
listen: 127.0.0.1:$port
providers:
  openai: {kind: openai, base_url: "http://127.0.0.1:$upstream/v1", api_key: bench-upstream-key}
  anthropic: {kind: anthropic, base_url: "http://127.0.0.1:$upstream/v1", api_key: bench-upstream-key}
  gemini: {kind: gemini, base_url: "http://127.0.0.1:$upstream/v1beta", api_key: bench-upstream-key}
edge_auth: {enabled: true, keys: [bench-client-key]}
observe_dropped_fields: true
translation: {responses: {enabled: true}}
"""
_LITELLM: Final = """\
model_list:
  - model_name: openai-m
    litellm_params: {model: openai/m, api_base: "http://127.0.0.1:$upstream/v1", api_key: k}
  - model_name: anthropic-m
    litellm_params: {model: anthropic/m, api_base: "http://127.0.0.1:$upstream", api_key: k}
  - model_name: gemini-m
    litellm_params: {model: gemini/m, api_base: "http://127.0.0.1:$upstream/v1beta", api_key: k}
litellm_settings: {drop_params: true, num_retries: 0}
router_settings: {disable_cooldowns: true, num_retries: 0}
general_settings: {master_key: bench-client-key}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a gateway answered."""

    status: int
    dropped: str
    """What it reports as dropped, in its header."""
    body: bytes


@dataclass(slots=True)
class Side:
    """A gateway, asked over one connection."""

    name: str
    server: Server
    prefix: str
    """What is between a provider's name and that of its model."""
    _connection: http.client.HTTPConnection | None = None

    def model(self, provider: str) -> str:
        """Return what a client calls the model of a provider."""
        return f"{provider}{self.prefix}m"

    def ask(self, wire: str, model: str, body: bytes, *, is_stream: bool = False) -> Answer:
        """Send a request, and read its answer to its end."""
        method = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
        headers = {"Authorization": f"Bearer {_KEY}", "Content-Type": "application/json"}
        if wire == MESSAGES:
            headers["anthropic-version"] = "2023-06-01"
        path = PATHS[wire].format(model=model, method=method)
        try:
            return self._answer(path, body, headers)
        except (OSError, http.client.HTTPException):
            self._connection = None
            return self._answer(path, body, headers)

    def _answer(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        return Answer(response.status, response.getheader("X-Gateway-Dropped-Fields", ""), response.read())


@contextmanager
def sides(folder: Path, upstream: Provider, *, with_rivals: bool) -> Iterator[list[Side]]:
    """Start them."""
    with ExitStack() as running:
        gateway = serving_gateway(folder, _CONFIG, upstream=str(upstream.port))
        found = [Side("mgw", running.enter_context(gateway), "/")]
        if with_rivals:
            found.append(Side("LiteLLM", running.enter_context(_litellm(folder, upstream)), "-"))
        yield found


@contextmanager
def _litellm(folder: Path, upstream: Provider) -> Iterator[Server]:
    config, port = folder / "litellm.yaml", free_port()
    config.write_text(Template(_LITELLM).substitute(upstream=upstream.port))
    command = litellm_serve(LITELLM_PROGRAM, config, port)
    with serving("litellm", command, folder, port, "/health/liveliness", START_SECONDS) as server:
        yield server
