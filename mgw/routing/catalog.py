"""The content of ``GET /v1/models``, before a dialect formats it (contract 4.17).

Aliases come first, then their distinct targets, then each provider's configured models, then what upstreams
list, where they were asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.canonical.catalog import CatalogEntry, ListedModel, ModelMetadata
from mgw.config.listed_models import CatalogSettings
from mgw.config.provider import Provider
from mgw.config.settings import Config
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Capability
from mgw.routing.resolve import REQUIRED, Resolver
from mgw.routing.routes import ROUTES

_SERVED: Final = frozenset(REQUIRED.get(route.modality) for route in ROUTES)
"""What some route is for: a catalog promises nothing else, whatever the provider can do."""
_SHOWN_AS: Final = MappingProxyType({Capability.TEXT: "chat"})


class Catalog:
    """The catalog of one configuration.

    :param created: unix seconds at which the configuration was read; every entry carries them.
    :param without_credential: returns the names of providers that have no credential to use at present: their
        models are not listed (contract 4.17).
    """

    def __init__(
        self,
        config: Config,
        resolver: Resolver,
        created: int,
        without_credential: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._resolver = resolver
        self._providers = config.providers
        self._aliases = config.aliases
        self._created = created
        ids = [*config.aliases, *(target for targets in config.aliases.values() for target in targets)]
        ids += [
            f"{provider.name}/{model}" for provider in config.providers.values() for model in provider.models
        ]
        self._metadata = _metadata_of(config)
        self._entries = tuple(self.entry(name) for name in dict.fromkeys(ids))
        self._without_credential = without_credential

    @property
    def entries(self) -> tuple[CatalogEntry, ...]:
        """Every entry, without repetition.  No upstream was asked."""
        hidden = self._without_credential()
        if not hidden:
            return self._entries
        return tuple(entry for entry in self._entries if entry.owned_by not in hidden)

    def entry(self, name: str) -> CatalogEntry:
        """Return the entry of an id that resolves by alias or prefix.

        :raises GatewayError: ``UNKNOWN_MODEL`` for every other id.
        """
        provider, _ = self._find(name)
        metadata = self._metadata.get(name) or self._metadata.get(name.removeprefix("models/"))
        return CatalogEntry(name, _shown(provider), self._created, provider.name, metadata=metadata)

    def _find(self, name: str) -> tuple[Provider, str]:
        found = self._resolver.find(name) or self._resolver.find(name.removeprefix("models/"))
        if found is None:
            message = f"no model is named {name[:200]!r}; use an alias or <provider>/<model>"
            raise GatewayError(Reason.UNKNOWN_MODEL, message, param="model")
        return found

    def target_of(self, name: str) -> tuple[str, str]:
        """Return the provider and its model that an id of an entry stands for.

        :raises GatewayError: as :meth:`entry` does.
        """
        found = self._find(name)
        return found[0].name, found[1]

    def with_live(self, live: Mapping[str, Iterable[ListedModel]]) -> tuple[CatalogEntry, ...]:
        """Return every entry, and behind them what providers list themselves, in the configuration's order.

        An entry that a provider lists too stays where it is, with what the provider says of it.

        :param live: by provider, what it lists.
        """
        found = {entry.id: entry for entry in self.entries}
        hidden = self._without_credential()
        for name, provider in self._providers.items():
            if name in hidden:
                continue
            shown = _shown(provider)
            for model in live.get(name, ()):
                model_id = f"{name}/{model.id}"
                if not model.id or model_id in self._aliases:  # an alias of that name means another model
                    continue
                entry = found.get(model_id) or CatalogEntry(model_id, shown, self._created, name)
                found[model_id] = replace(
                    entry, created=model.created or entry.created, display_name=model.display_name
                )
        return tuple(found.values())


def _metadata_of(config: Config) -> dict[str, ModelMetadata]:
    """Return what the configuration says about models, by the ids of their entries."""
    listed: dict[str, CatalogSettings] = {
        f"{provider.name}/{model.id}": model
        for provider in config.providers.values()
        for model in provider.listed_models
    }
    listed |= config.own_aliases  # an alias of that name means another model
    return {
        name: ModelMetadata(said.display_name, said.description, said.context_window, said.max_output)
        for name, said in listed.items()
        if said.has_metadata
    }


def _shown(provider: Provider) -> dict[str, bool]:
    can = provider.capabilities
    return {_SHOWN_AS.get(flag, flag.value): flag in can and flag in _SERVED for flag in Capability}
