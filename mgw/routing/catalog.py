"""What ``GET /v1/models`` lists, before any dialect's shape (specification 2.4, decisions part 4).

Aliases come first, then their distinct targets, then each provider's configured models.  No upstream is
asked.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.canonical.catalog import CatalogEntry
from mgw.config.model import Config, Provider
from mgw.errors import GatewayError, Reason
from mgw.routing.resolve import Resolver
from mgw.vocabulary import Capability

_SHOWN_AS: Final = MappingProxyType({Capability.TEXT: "chat"})


class Catalog:
    """The catalog of one configuration.

    :param created: unix seconds at which the configuration was read; every entry carries them.
    """

    def __init__(self, config: Config, resolver: Resolver, created: int) -> None:
        self._resolver = resolver
        self._created = created
        ids = [*config.aliases, *config.aliases.values()]
        ids += [
            f"{provider.name}/{model}" for provider in config.providers.values() for model in provider.models
        ]
        self.entries: tuple[CatalogEntry, ...] = tuple(self.entry(name) for name in dict.fromkeys(ids))
        """Every entry, without repetition."""

    def entry(self, name: str) -> CatalogEntry:
        """Return the entry of an id that resolves by alias or prefix.

        :raises GatewayError: ``UNKNOWN_MODEL`` for every other id.
        """
        found = self._resolver.named(name) or self._resolver.named(name.removeprefix("models/"))
        if found is None:
            message = f"no model is named {name[:200]!r}; ids are aliases or <provider>/<model>"
            raise GatewayError(Reason.UNKNOWN_MODEL, message, param="model")
        provider, _ = found
        return CatalogEntry(
            id=name, capabilities=_shown(provider), created=self._created, owned_by=provider.name
        )


def _shown(provider: Provider) -> dict[str, bool]:
    return {_SHOWN_AS.get(flag, flag.value): flag in provider.capabilities for flag in Capability}
