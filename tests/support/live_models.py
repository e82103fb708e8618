"""Live lists of models over providers in memory."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from mgw.credentials.provider import ClientKey
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.ops.live_models import LiveModels, Models
from tests.support.configs import THREE_FAMILIES
from tests.support.deferreds import result_of
from tests.support.probes import Providers

ONE = 'providers: {main: {kind: openai, base_url: "http://main.example/v1", api_key: sk-canary}}'
CLAUDE = 'providers: {claude: {kind: anthropic, base_url: "http://c.example/v1", api_key: sk-canary}}'
KEYLESS = """
providers:
  main: {kind: openai, base_url: "http://main.example/v1"}
  claude: {kind: anthropic, base_url: "http://claude.example/v1"}
  other: {kind: openai_compat, base_url: "http://other.example/v1"}
defaults: {openai_dialect: main, anthropic_dialect: claude}
"""


class LiveModelsHarness(Providers):
    """Live lists over providers in memory."""

    def __init__(self, text: str = THREE_FAMILIES) -> None:
        super().__init__(text)
        self.failures: list[str] = []
        self.lists = LiveModels(self.probe, self.failures.append)

    def ask(self, key: ClientKey | None = None, family: Family | None = None) -> Deferred[Any]:
        return Deferred.fromCoroutine(self.lists.ask(self.generation, key, family))

    def dials(self, name: str) -> int:
        return len(self.requests(name))


def ids(asked: Deferred[dict[str, Models]]) -> dict[str, list[str]]:
    return {name: [model.id for model in models] for name, models in result_of(asked).items()}


def key(value: str, family: Family = Family.OPENAI, scheme: bytes | None = b"Bearer") -> ClientKey:
    return ClientKey(Secret(value), scheme, family)
