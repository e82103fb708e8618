"""Models that providers list, for ``GET /v1/models?live=1`` (contract 4.18).

All are asked at once, each within three seconds.  One that fails is left out and counted, and not asked again
for 15 seconds; what one has listed serves for a minute, and for nobody with another credential.  However many
clients ask at the same time, a provider is asked once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TimedOut

from mgw.canonical.catalog import ListedModel
from mgw.credentials.provider import CallerToken, ClientKey, Credential, CredentialProvider
from mgw.credentials.renewed_token import token_digest
from mgw.generation import Generation
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from mgw.ops.probes import ModelListRequest, ProviderProbe, probe_errors
from mgw.reactor.single_flight import SingleFlight, gather
from mgw.wire.json_document import has_more_values

LIMIT_SECONDS: Final = 3.0
CACHE_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 15.0
"""How long a provider that failed is not asked again, with the same credential."""
MAX_FAILURES: Final = 1000
"""How many failures are remembered; beyond it the oldest are forgotten."""
PAGE_MODELS: Final = 1000
MAX_PAGES: Final = 20
MAX_MODELS: Final = 20_000
MAX_OBJECTS: Final = 100_000
MAX_VALUES: Final = 400_000
"""How many JSON values one page may hold: some vendors say much of each model."""
MAX_TEXT: Final = 512
"""A model whose id and name are longer together is left out: no vendor has one."""
MAX_CACHED_MODELS: Final = 100_000
"""How many models all lists together may hold; beyond it the oldest lists go."""

Models = tuple[ListedModel, ...]
_Key = tuple[int, str, str, str]
"""The generation's number, the provider's name, the hash of the credential that it was asked with, and of the
caller's token where that credential is the caller's own: their hashes are all the same."""


class _CachedModels(Struct, frozen=True):
    models: Models
    since: float


class _ListError(ValueError):
    """A response that is no complete list."""


@dataclass(slots=True)
class LiveModels:
    """The providers' own lists, asked for when a client wants them.

    :param on_failure: told the name of each provider that could not be read.
    """

    probe: ProviderProbe
    on_failure: Callable[[str], None]
    _flights: SingleFlight[Models] = field(default_factory=SingleFlight, repr=False)
    _cache: dict[_Key, _CachedModels] = field(default_factory=dict, repr=False)
    """The lists that are still good, the oldest first."""
    _failed_at: dict[_Key, float] = field(default_factory=dict, repr=False)
    """When each provider failed, the oldest first."""

    async def ask(
        self,
        generation: Generation,
        client_key: ClientKey | None,
        family: Family | None = None,
        token: CallerToken | None = None,
    ) -> Mapping[str, Models]:
        """Return what each provider lists that has a list, as far as it is known in time.

        :param client_key: the client's own credential, which goes to the default provider of its family at
            most: it was not meant for every host that has no key of its own.
        :param family: whose providers are asked; ``None``: all.
        :param token: the caller's, for the providers that are asked on behalf of callers; without one, they
            are left out.
        """
        names = [
            name
            for name, provider in generation.config.providers.items()
            if (family is None or provider.row.family is family) and generation.upstreams[name].wire.has_list
        ]
        generation.enter()
        try:
            found = await gather(
                self._list(generation, name, _allowed_key(generation, name, client_key), token)
                for name in names
            )
        finally:
            generation.leave()
        return dict(zip(names, found, strict=True))

    async def _list(
        self, generation: Generation, name: str, client_key: ClientKey | None, token: CallerToken | None
    ) -> Models:
        began = self._now()
        source = generation.credentials_for(name, token)
        credential = await self._credential(source, name, client_key)
        if credential is None:
            return ()
        self._drop_expired()
        is_own = token is not None and source is not generation.credentials[name]
        caller = token_digest(token.value) if token is not None and is_own else ""
        key = (generation.number, name, credential.key_hash, caller)
        cached = self._cache.get(key)
        if cached is not None and self._now() - cached.since < CACHE_SECONDS:
            return cached.models
        if key in self._failed_at:
            return ()
        request = self.probe.request(generation, name, credential, source)
        left = max(0.0, began + LIMIT_SECONDS - self._now())
        return await self._flights.run(key, partial(self._fetch, key, request, left))

    async def _credential(
        self, source: CredentialProvider, name: str, client_key: ClientKey | None
    ) -> Credential | None:
        obtaining = Deferred.fromCoroutine(source.obtain(client_key))
        try:
            return await obtaining.addTimeout(LIMIT_SECONDS, self.probe.clock)
        except TimedOut:
            self.on_failure(name)
        except GatewayError as error:
            if error.reason is not Reason.NO_PROVIDER_KEY:  # that is no failure: there is none to ask with
                self.on_failure(name)
        return None

    async def _fetch(self, key: _Key, request: ModelListRequest, seconds: float) -> Models:
        request.generation.enter()
        try:
            reading = Deferred.fromCoroutine(_read_all_pages(request))
            models = await reading.addTimeout(seconds, self.probe.clock)
        except probe_errors(TimedOut, ValueError):
            self._note_failure(key)
            self.on_failure(request.provider.name)
            return ()
        finally:
            request.generation.leave()
        self._store(key, models)
        return models

    def _store(self, key: _Key, models: Models) -> None:
        self._cache.pop(key, None)
        self._cache[key] = _CachedModels(models, self._now())
        held = sum(len(cached.models) + 1 for cached in self._cache.values())
        for old, cached in list(self._cache.items()):
            if held <= MAX_CACHED_MODELS:
                break
            del self._cache[old]
            held -= len(cached.models) + 1
        self._drop_expired()

    def _note_failure(self, key: _Key) -> None:
        self._failed_at.pop(key, None)
        self._failed_at[key] = self._now()
        if len(self._failed_at) > MAX_FAILURES:
            del self._failed_at[next(iter(self._failed_at))]

    def _drop_expired(self) -> None:
        now = self._now()
        for old, since in list(self._failed_at.items()):
            if now - since < RETRY_SECONDS:
                break
            del self._failed_at[old]
        for old, cached in list(self._cache.items()):
            if now - cached.since < CACHE_SECONDS:
                break
            del self._cache[old]

    def _now(self) -> float:
        return self.probe.clock.seconds()


def _allowed_key(generation: Generation, name: str, client_key: ClientKey | None) -> ClientKey | None:
    """Return the client's own credential where it may go to a provider."""
    if client_key is None or generation.config.defaults.get(client_key.family) != name:
        return None
    return client_key


async def _read_all_pages(request: ModelListRequest) -> Models:
    """Read a provider's list to its end.

    :raises ValueError: there is none, or none that is readable and within bounds.
    """
    lister = request.lister
    models: list[ListedModel] = []
    page: str | None = None
    for _ in range(MAX_PAGES):
        result = await request.send(lister.query(PAGE_MODELS, page))
        if result.status != 200 or result.body is None:
            raise _ListError
        if has_more_values(result.body, MAX_OBJECTS, MAX_VALUES):
            raise _ListError
        found = lister.read(result.body)
        models += (
            model for model in found.models if len(model.id) + len(model.display_name or "") <= MAX_TEXT
        )
        page = found.next_page
        if len(models) > MAX_MODELS:
            raise _ListError
        if page is None:
            return tuple(models)
    raise _ListError
