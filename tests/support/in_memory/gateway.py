"""A gateway with everything on, in memory: edge keys, metering, metrics, events, usage and access lines.

It is the service that an operator runs, on a reactor without sockets; its lines go to ``/dev/null``.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from mgw.app.service import GatewayService
from mgw.config.load import parse
from mgw.credentials.aws.keys import AwsKeys
from mgw.credentials.provider import CredentialProvider
from mgw.credentials.renewed_token import RenewedToken
from mgw.credentials.token_request import TokenResponse
from mgw.nouns.secret import Secret
from mgw.ops.logs import LogFile
from mgw.web.pending_keys import KeysOfIssuers
from tests.support.in_memory.reactor import LinesAtOnce, MemoryConnection, MemoryReactor
from tests.support.signing_source import SigningSource

EDGE_KEY = "bench-edge-key"
PORTS = {"chat": 4001, "anthropic": 4002, "gemini": 4003, "token": 4004, "signed": 4005}
"""Where the provider of each wire is; the last two are of chat: the token of one comes from an endpoint, and
requests to the other are signed."""

_CONFIG = """
providers:
  up:
    kind: openai_compat
    base_url: "http://127.0.0.1:4001/v1"
    api_key: bench-upstream-key
    capabilities: {{realtime: true}}
  claude: {{kind: anthropic, base_url: "http://127.0.0.1:4002/v1", api_key: bench-upstream-key}}
  google: {{kind: gemini, base_url: "http://127.0.0.1:4003/v1beta", api_key: bench-upstream-key}}
  tok: {{kind: openai_compat, base_url: "http://127.0.0.1:4004/v1", auth: bearer, api_key: bench-key}}
  aws: {{kind: openai_compat, base_url: "http://127.0.0.1:4005/v1", auth: bearer, api_key: bench-key}}
edge_auth: {{enabled: true, keys: [{key}]}}
hooks:
  jsonl: {{output: "{events}"}}
"""


_KEYS = AwsKeys("AKIDBENCH00000000001", Secret("bench-secret"), Secret("bench-session-token"))


async def _fetch_token() -> TokenResponse:
    return TokenResponse(Secret("bench-upstream-token"), 3600.0)


class MemoryGateway:
    """The gateway, and the connection of one client.

    :param folder: where its process log and its events go, as ``mgw.log`` and ``usage.jsonl``; nowhere if
        none is given.
    :param settings: more of its configuration.
    :param key: the key of its client, as the configuration has it.
    """

    def __init__(self, folder: Path | None = None, settings: str = "", key: str = f'"{EDGE_KEY}"') -> None:
        events = os.devnull if folder is None else str(folder / "usage.jsonl")
        log = os.devnull if folder is None else str(folder / "mgw.log")
        config = parse(_CONFIG.format(key=key, events=events) + settings, "mgw.yaml", {})
        self.reactor = MemoryReactor()
        self._service = GatewayService(config, lambda: config, self.reactor, LogFile(log), LinesAtOnce)
        before = signal.getsignal(signal.SIGHUP)
        self._service.startService()
        signal.signal(signal.SIGHUP, before)
        self.client = self.connect()
        self._use_source("tok", RenewedToken(_fetch_token, "bench"))
        self._use_source("aws", SigningSource(_KEYS, provider="aws"))

    def use_issuer_keys(self, keys: KeysOfIssuers) -> None:
        """Have the keys of issuers from somebody who has them at once."""
        tokens = self._service.gateway.server.gate.tokens
        assert tokens is not None, "the configuration has an issuer"
        tokens.keys = keys

    def connect(self) -> MemoryConnection:
        """Connect one more client."""
        return MemoryConnection(self._service.gateway.channels.buildProtocol(None))

    def provider(self, wire: str) -> MemoryConnection:
        """Return the newest connection to the provider of that wire."""
        return self.reactor.connections[PORTS[wire]]

    def _use_source(self, provider: str, source: CredentialProvider) -> None:
        """Have a provider's credential come from a source that asks nobody."""
        credentials: Any = self._service.gateway.server.generation.credentials  # Any: others only read it
        credentials[provider] = source

    def close(self) -> None:
        """Stop it, with everything written."""
        self.client.close()
        done: list[object] = []
        _ = self._service.stopService().addBoth(done.append)
        while not done:
            self.reactor.turn(1.0)
