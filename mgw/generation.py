"""What one configuration file became; a request keeps the generation that it began with.

A reload swaps one reference: new requests take the new generation, requests in flight finish on the old
one, and its connections close when the last of them is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import random
from time import time
from typing import Any, Final

from twisted.logger import Logger

from mgw.config.environment import refresh_tokens_below
from mgw.config.load import parse_prices, parse_profile
from mgw.config.problems import ConfigError, dotted_path
from mgw.config.profile import Profile
from mgw.config.provider import Provider
from mgw.config.proxy import ProxyAddress
from mgw.config.quoting import redact
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.config.translation import ModelRowSettings
from mgw.credentials import credentials_of
from mgw.credentials.provider import CredentialProvider
from mgw.credentials.recent_secrets import RecentSecrets
from mgw.credentials.refresh_tokens import RefreshTokenFile, RefreshTokens
from mgw.credentials.sources import CredentialSources
from mgw.credentials.subscription.registry import THREADS, Subscriptions
from mgw.credentials.subscription.rewrite import BodyRewrite
from mgw.credentials.subscription.source import SubscriptionSource
from mgw.credentials.subscription.store import CredentialStore
from mgw.credentials.token_request import REQUEST_SECONDS, TokenClient
from mgw.dialects.models import Models, OverrideRow
from mgw.kinds import KINDS
from mgw.reactor.daemon_threads import DaemonThreads
from mgw.routing.catalog import Catalog
from mgw.routing.match import RouteTable
from mgw.routing.resolve import Resolver
from mgw.routing.routes import DASHBOARD_GROUP, ROUTES
from mgw.secret import Secret
from mgw.upstream.agent import build_agent
from mgw.upstream.client import Upstream, UpstreamLimits, upstream_of
from mgw.upstream.connect import ProxyNameError
from mgw.usage.journal import FailureLog
from mgw.usage.prices import PriceTable
from mgw.vocabulary import Family

_log: Final = Logger()
_MAX_UNKNOWN_STOPS: Final = 64
"""How many are remembered; a provider that invents more is not logged any further."""
_MAX_STOP_LENGTH: Final = 64
_TOKEN_LIMITS: Final = UpstreamLimits(connect=10.0, first_byte=REQUEST_SECONDS, idle=REQUEST_SECONDS)
"""Of token endpoints, whose whole response has that long."""


@dataclass(slots=True)
class UnknownStopLog:
    """Logs each stop reason that nobody knows once; providers invent some (contract 8.21)."""

    _seen: set[tuple[str, str]] = field(default_factory=set)

    def note(self, provider: str, word: str) -> None:
        """Log a word of a provider, unless it was logged before."""
        seen = (provider, word[:_MAX_STOP_LENGTH])
        if seen in self._seen or len(self._seen) >= _MAX_UNKNOWN_STOPS:
            return
        self._seen.add(seen)
        _log.warn(
            "provider {provider} ended a response with the unknown reason {word!r}, which is treated as a "
            "normal end",
            provider=provider,
            word=seen[1],
        )


def _close(credentials: CredentialProvider) -> None:
    credentials.close()


@dataclass(slots=True)
class Generation:
    """One configuration, and all that was built from it."""

    number: int
    config: Config
    table: RouteTable
    resolver: Resolver
    catalog: Catalog
    credentials: Mapping[str, CredentialProvider]
    upstreams: Mapping[str, Upstream]
    models: Models
    """What each model takes."""
    release: Callable[[CredentialProvider], None] = _close
    """Gives a source of credentials back, which other generations may still use."""
    unknown_stops: UnknownStopLog = field(default_factory=UnknownStopLog)
    failures: FailureLog = field(default_factory=FailureLog)
    rewrites: Mapping[str, BodyRewrite] = field(default_factory=dict)
    """What the profiles of subscription credentials change in bodies, by provider."""
    prices: PriceTable | None = None
    """What models cost, where the operator says so."""
    secrets: Sequence[Secret] = field(default=(), repr=False)
    """What stands in the profiles that it names, and no log may show."""
    prepared_targets: dict[Any, Any] = field(default_factory=dict, repr=False)  # Any: of the layer above
    """What is known of requests by their path and model (:mod:`mgw.exchange.prepared_request`)."""
    tries_again: bool = field(init=False)
    """Whether some requests may be sent again, or to another target."""
    server_timing: bool = field(init=False)
    """Whether responses say how long the provider and the gateway took."""
    reads_trace: bool = field(init=False)
    """Whether a sink of usage events asks for the client's trace."""
    chance: Callable[[], float] = random
    """Returns a random number from 0 to 1."""
    in_use: int = 0
    _retired: bool = field(default=False)

    def __post_init__(self) -> None:
        providers, aliases = self.config.providers.values(), self.config.aliases.values()
        has_retries = any(
            provider.retries is not None and provider.retries.attempts for provider in providers
        )
        self.server_timing = self.config.server_timing
        self.reads_trace = self.config.hooks.otlp is not None
        self.tries_again = has_retries or any(len(targets) > 1 for targets in aliases)

    def enter(self) -> None:
        """One more request is under way."""
        self.in_use += 1

    def leave(self) -> None:
        """One request is done."""
        self.in_use -= 1
        if self._retired and not self.in_use:
            self._close()

    def retire(self) -> None:
        """No new request comes: close when those under way are done."""
        self._retired = True
        if not self.in_use:
            self._close()

    def _close(self) -> None:
        for credential in self.credentials.values():
            self.release(credential)
        for upstream in self.upstreams.values():
            upstream.close()


def build_generation(
    number: int,
    config: Config,
    reactor: Any,  # Any: a reactor has no one type
    created: int,
    sources: CredentialSources,
) -> Generation:
    """Build what a configuration asks for.

    :param created: unix seconds that the entries of the catalog carry.
    :param sources: of credentials, which outlive it.
    :raises ValueError: files that it names cannot be read, or do not hold what they should; a line for each.
    """
    resolver = Resolver(config)
    upstreams: dict[str, Upstream] = {}
    problems: list[str] = []
    for name, provider in config.providers.items():
        try:
            upstreams[name] = _upstream(provider, reactor)
        except ValueError as error:
            problems.append(str(error))
    profiles = read_profiles(config, os.environ, problems)
    rewrites = _rewrites(config, profiles, problems)
    credentials = _credentials(config, profiles, sources, problems)
    prices = _prices(config, problems)
    if problems:
        for credential in credentials.values():
            sources.release(credential)
        raise ValueError("\n".join(problems))

    def without_account() -> frozenset[str]:
        return frozenset(
            name
            for name, source in credentials.items()
            if isinstance(source, SubscriptionSource) and not source.has_usable
        )

    catalog = Catalog(config, resolver, created, without_account)
    models = Models(_override(row) for row in config.translation.models)
    table = _route_table(denied_routes(config), frozenset(families_of(config).items()))
    release = sources.release
    return Generation(
        number,
        config,
        table,
        resolver,
        catalog,
        credentials,
        upstreams,
        models,
        release,
        rewrites=rewrites,
        prices=prices,
        secrets=[secret for profile in profiles.values() for secret in secrets_of(profile)],
    )


def _credentials(
    config: Config, profiles: Mapping[str, Profile], sources: CredentialSources, problems: list[str]
) -> dict[str, CredentialProvider]:
    """Return the credentials of each provider, and note why there are none."""
    found: dict[str, CredentialProvider] = {}
    for name, provider in config.providers.items():
        try:
            if provider.profile is None:
                found[name] = credentials_of(provider, sources)
            elif provider.profile in profiles:
                profile, store = profiles[provider.profile], config.credential_store
                client = sources.client(provider.proxy)
                found[name] = sources.subscriptions.source(provider, profile, store, client)
        except ValueError as error:
            problems.append(str(error))
    return found


def build_sources(reactor: Any) -> CredentialSources:  # Any: as above
    """Return what keeps the credentials that outlive a generation, with threads for the files of stores."""
    recent = RecentSecrets()

    def open_client(proxy: ProxyAddress | None) -> TokenClient:
        agent = build_agent(reactor, _TOKEN_LIMITS, proxy=proxy)
        return TokenClient(agent, reactor, agent.close, recent)

    threads = DaemonThreads(reactor, "mgw-credentials", THREADS)
    subscriptions = Subscriptions(reactor, time, threads.defer, random, recent=recent)
    directory = Path(refresh_tokens_below(os.environ))

    def open_file(name: str) -> RefreshTokenFile:
        return RefreshTokenFile(CredentialStore(directory / f"{name}.json"), threads.defer, reactor, time)

    tokens = RefreshTokens(open_file)
    return CredentialSources(reactor, open_client, subscriptions, refresh_tokens=tokens, recent=recent)


def read_profiles(config: Config, environ: Mapping[str, str], problems: list[str]) -> dict[str, Profile]:
    """Read the profiles that a configuration names, and note what is wrong with them."""
    found: dict[str, Profile] = {}
    for name, settings in config.profiles.items():
        try:
            text = Path(settings.file).read_bytes().decode("utf-8", "surrogateescape")
            found[name] = parse_profile(text, settings.file, environ)
        except OSError as error:
            where = dotted_path(("profiles", name, "file"))
            problems.append(f"{where}: {redact(settings.file)} cannot be read: {error.strerror}")
        except ConfigError as error:
            problems += str(error).splitlines()
    return found


def _prices(config: Config, problems: list[str]) -> PriceTable | None:
    """Return what models cost, as the configuration or a file of it says; note what is wrong there."""
    prices = config.prices
    if prices is None or prices.file is None:
        return None if prices is None else PriceTable(prices.rows)
    try:
        text = Path(prices.file).read_bytes().decode("utf-8", "surrogateescape")
        return PriceTable(parse_prices(text, prices.file, config.providers))
    except OSError as error:
        problems.append(f"prices.file: {redact(prices.file)} cannot be read: {error.strerror}")
    except ConfigError as error:
        problems += str(error).splitlines()
    return None


def _rewrites(config: Config, profiles: Mapping[str, Profile], problems: list[str]) -> dict[str, BodyRewrite]:
    """Return what profiles change in the bodies of requests, by provider."""
    found: dict[str, BodyRewrite] = {}
    for name, provider in config.providers.items():
        profile = None if provider.profile is None else profiles.get(provider.profile)
        if profile is None or not profile.rewrites_bodies:
            continue
        if KINDS[provider.kind].family is Family.GEMINI:
            where = dotted_path(("providers", name))
            problems.append(
                f"{where}: its profile has tools or cloak.system, and requests to providers of kind "
                f"{provider.kind} cannot be changed so"
            )
        found[name] = BodyRewrite(profile, provider.cloak or profile.cloak.mode)
    return found


@lru_cache(maxsize=2)
def _route_table(denied: tuple[str, ...], families: frozenset[tuple[str, Family]]) -> RouteTable:
    """Return what finds routes: the one from before where the configuration says the same of them.

    A worker then has that of the process that it was forked from, in memory that all of them share.
    """
    return RouteTable(ROUTES, denied, dict(families))


def denied_routes(config: Config) -> tuple[str, ...]:
    """Return the names of routes, groups and families that answer 404."""
    return config.routes.deny if config.dashboard.enabled else (*config.routes.deny, DASHBOARD_GROUP)


def families_of(config: Config) -> dict[str, Family]:
    """Return the family of each provider, by its name."""
    return {name: KINDS[provider.kind].family for name, provider in config.providers.items()}


def _upstream(provider: Provider, reactor: Any) -> Upstream:  # Any: as above
    where = dotted_path(("providers", provider.name))
    try:
        return upstream_of(provider, reactor)
    except OSError as error:
        reason = f"{redact(str(error.filename))} cannot be read: {error.strerror}"
    except ProxyNameError as error:
        raise ValueError(f"{where}.proxy: {error}") from None
    except ValueError as error:
        if provider.ca_file is None:
            raise ValueError(f"{where}.base_url: {error}") from None
        reason = f"{redact(provider.ca_file)} contains no PEM certificate"
    raise ValueError(f"{where}.ca_file: {reason}")


def _override(row: ModelRowSettings) -> OverrideRow:
    """Say an operator's row to the table of models, where what is not stated is inherited."""
    stated = {name: value for name, value in row if value is not None}
    for name in ("budget", "default", "max_output"):  # false there says that it takes none, or is unknown
        if stated.get(name) is False:
            stated[name] = None
    return OverrideRow(**stated)
