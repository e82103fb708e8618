"""``GET /v1/dashboard/profiles``: the gateway, its providers, aliases, models and logins.

A table of prices is searched row by row, and a page asks every few seconds.  So what was found is kept as
long as the configuration is in use, and one answer searches for a bounded time: what it does not reach, the
next one does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

from msgspec.structs import asdict

from mgw import __version__
from mgw.config.auths import AuthMode
from mgw.config.provider import Provider
from mgw.credentials.provider import CredentialProvider
from mgw.credentials.state import AccountState, CredentialState, State
from mgw.dashboard.responses import Query
from mgw.generation import Generation
from mgw.nouns.kinds import KINDS
from mgw.usage.event import NANODOLLARS, timestamp
from mgw.usage.price_row import PriceRow
from mgw.usage.prices import PriceTable

Json = dict[str, Any]  # Any: JSON
MAX_MODELS: Final = 1_000
"""How many entries of the catalog are shown."""
MAX_COMPARISONS: Final = 100_000
"""The most comparisons of a model with a row in one answer, which take about a tenth of a second."""
_SECONDS_PER_DAY: Final = 86_400
Price = dict[str, float]


@runtime_checkable
class _Describable(Protocol):
    def describe(self, wall: float) -> CredentialState: ...


@dataclass(slots=True, eq=False, repr=False)
class ModelPrices:
    """Remembers which price each model of one configuration has."""

    _table: PriceTable | None = None
    _found: dict[tuple[str, str], Price | None] = field(default_factory=dict)
    _left: int = 0
    _wall: float = 0.0

    def begin(self, table: PriceTable | None, wall: float) -> None:
        """Begin an answer.

        :param table: of the configuration in use; ``None``: it has no prices.
        :param wall: Unix seconds; what was found on another day of UTC is forgotten.
        """
        if table is not self._table or wall // _SECONDS_PER_DAY != self._wall // _SECONDS_PER_DAY:
            self._table = table
            self._found = {}
        self._wall = wall
        self._left = MAX_COMPARISONS

    def price(self, provider: str, model: str) -> Price | None:
        """Return what a model costs; ``None``: nobody said it, or this answer has no time left to look.

        :param model: as it is sent to the provider.
        """
        table, key = self._table, (provider, model)
        if table is None or key in self._found:
            return self._found.get(key)
        if self._left <= 0:
            return None
        self._left -= table.patterns or 1
        row = table.row(provider, model, self._wall)
        self._found[key] = None if row is None else _in_dollars(row)
        return self._found[key]


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Profiles:
    """Describes the gateway as it is now.

    :param facts: how busy the process is: ``draining``, ``in_flight``, ``sessions`` and ``max_sessions``.
    :param health: what is known of a provider's requests, by its name.
    :param logins: the entries of the credential store that one can log in to.
    """

    generation: Callable[[], Generation]
    wall: Callable[[], float]
    facts: Callable[[], Mapping[str, Any]]  # Any: JSON
    auth: Callable[[], str]
    health: Callable[[str], Mapping[str, Any] | None] | None = None  # Any: JSON
    logins: Callable[[], Sequence[Mapping[str, Any]]] | None = None  # Any: JSON
    _started: float = field(init=False)
    _loaded: tuple[int, float] = (0, 0.0)
    """The number of the configuration that is in use, and since when."""
    _prices: ModelPrices = field(default_factory=ModelPrices)

    def __post_init__(self) -> None:
        self._started = self.wall()

    def follow(self) -> None:
        """Note when another configuration has come into use."""
        number = self.generation().number
        if number != self._loaded[0]:
            self._loaded = (number, self.wall())

    def answer(self, query: Query) -> Json:  # noqa: ARG002  nothing can be asked for
        """Return everything."""
        generation = self.generation()
        config = generation.config
        self._prices.begin(generation.prices, self.wall())
        found: Json = {
            "service": "mgw",
            "version": __version__,
            "started": timestamp(self._started),
            "generation": generation.number,
            "loaded": timestamp(self._loaded[1]),
            **self.facts(),
            "usage_source": "memory" if config.hooks.sqlite is None else "sqlite",
            "prices": generation.prices is not None,
            "auth": self.auth(),
            "providers": [self._provider(one, generation) for one in config.providers.values()],
            "aliases": [{"name": name, "targets": list(of)} for name, of in config.aliases.items()],
            "models": [
                self._model(entry.id, generation) for entry in generation.catalog.entries[:MAX_MODELS]
            ],
        }
        if self.logins is not None:
            found["logins"] = list(self.logins())
        return found

    def _provider(self, provider: Provider, generation: Generation) -> Json:
        config = generation.config
        found: Json = {
            "name": provider.name,
            "kind": provider.kind.value,
            "family": KINDS[provider.kind].family.value,
            "base_url": _bare(provider.base_url),
            "defaults": [family.value for family, name in config.defaults.items() if name == provider.name],
            "capabilities": sorted(capability.value for capability in provider.capabilities),
        }
        health = None if self.health is None else self.health(provider.name)
        if health is not None:
            found["health"] = health
        found["credentials"] = _credentials(provider, generation.credentials[provider.name], self.wall())
        return found

    def _model(self, name: str, generation: Generation) -> Json:
        """Return an entry of the catalog."""
        entry = generation.catalog.entry(name)
        provider, model = generation.catalog.target_of(name)
        capabilities = sorted(capability for capability, on in entry.capabilities.items() if on)
        found: Json = {
            "id": name,
            "provider": provider,
            "upstream_model": model,
            "capabilities": capabilities,
        }
        price = self._prices.price(provider, model)
        if price is not None:
            found["price"] = price
        return found


def _credentials(provider: Provider, source: CredentialProvider, wall: float) -> Json:
    """Return what may be seen of a credential."""
    if isinstance(source, _Describable):
        state = source.describe(wall)
    else:
        state = CredentialState(State.READY if provider.auth is AuthMode.NONE else State.UNKNOWN)
    found: Json = {"mode": _mode(provider), "state": state.state.value}
    if state.key_hash:
        found["key_hash"] = state.key_hash
    if state.expires is not None:
        found["expires"] = timestamp(state.expires)
    if provider.subscriptions and provider.pool is None:
        found["entry"] = provider.subscriptions[0]
    if state.accounts:
        found["accounts"] = [_account(account) for account in state.accounts]
    return found


def _mode(provider: Provider) -> str:
    """Name how a credential is had, in the words of the configuration."""
    if provider.subscriptions:
        return "pool" if provider.pool is not None else "oauth2"
    if provider.auth is None:
        return "client" if provider.api_key is None else "api_key"
    return provider.auth.value


def _account(account: AccountState) -> Json:
    found: Json = {"name": account.name, "state": account.state.value}
    if account.rests_until is not None:
        found["rests_until"] = timestamp(account.rests_until)
    if account.expires is not None:
        found["expires"] = timestamp(account.expires)
    return found


def _bare(url: str) -> str:
    """Return an address without user, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _in_dollars(row: PriceRow) -> Price:
    prices = asdict(row.prices)
    return {name: price / NANODOLLARS for name, price in prices.items() if price is not None}
