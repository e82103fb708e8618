"""What one configuration file became; a request keeps the generation that it began with.

A reload swaps one reference: new requests take the new generation, requests in flight finish on the old
one, and its connections close when the last of them is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from random import random
from time import monotonic
from typing import Any, Final, cast

from msgspec import Struct
from twisted.internet.task import deferLater
from twisted.logger import Logger

from mgw.config.problems import value_or_error
from mgw.config.provider import Provider
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.credentials.build import CredentialFiles, build_credentials, read_credential_files
from mgw.credentials.on_behalf import OnBehalfOf
from mgw.credentials.provider import CallerToken, CredentialProvider
from mgw.credentials.signed_again import SignedAgain
from mgw.credentials.sources import CredentialSources
from mgw.credentials.subscription.rewrite import BodyRewrite, rewrites_of
from mgw.credentials.subscription.source import providers_without_account
from mgw.dialects.models import Models, override_of
from mgw.identity.issuer_files import unusable_key_files
from mgw.memo.request_memo import RequestMemo
from mgw.nouns.secret import Secret
from mgw.routing.body_rules import BodyRules
from mgw.routing.catalog import Catalog
from mgw.routing.match import RouteTable
from mgw.routing.resolve import Resolver
from mgw.routing.table import route_table
from mgw.upstream.build import Authorities, build_upstream, read_all_authorities, unusable_authorities
from mgw.upstream.client import Upstream
from mgw.usage.journal import FailureLog, UnknownStopLog
from mgw.usage.limit_warnings import WarningLog
from mgw.usage.prices import PriceTable, read_prices

_log: Final = Logger()
SLICE_SECONDS: Final = 0.01
"""How long a generation is built without letting anybody else go on."""


def _warn_of_prefix(prefix: str, provider: str, default: str) -> None:
    _log.warn(
        "a request names the model {prefix!r}, but no provider has this name: did you mean {meant!r}? It was "
        "sent to the default provider {default}",
        prefix=f"{prefix}/…",
        meant=f"{provider}/…",
        default=default,
    )


def _close(credentials: CredentialProvider) -> None:
    credentials.close()


@dataclass(slots=True, eq=False, repr=False)
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
    limit_warnings: WarningLog = field(default_factory=WarningLog)
    signed_again: SignedAgain = field(default_factory=SignedAgain)
    """How often requests were sent once more because of how they were signed."""
    rewrites: Mapping[str, BodyRewrite] = field(default_factory=dict)
    """What the profiles of subscription credentials change in bodies, by provider."""
    prices: PriceTable | None = None
    """What models cost, where the operator says so."""
    secrets: Sequence[Secret] = ()
    """What stands in the profiles that it names, and no log may show."""
    configured_secrets: Sequence[Secret] = ()
    """What stands in the configuration itself."""
    source_secrets: Callable[[], Sequence[Secret]] = tuple
    """Returns the credentials that sources got, and those of late."""
    memo: RequestMemo = field(default_factory=RequestMemo)
    """What is remembered of the requests that it has served."""
    tries_again: bool = field(init=False)
    """Whether some requests may be sent again, or to another target."""
    server_timing: bool = field(init=False)
    """Whether responses say how long the provider and the gateway took."""
    error_messages: bool = field(init=False)
    """Whether events and warnings say why providers refuse, in their own words."""
    reads_trace: bool = field(init=False)
    """Whether a sink of usage events asks for the client's trace."""
    signs: bool = field(init=False)
    """Whether some providers get signed requests, whose bodies must have been hashed."""
    is_on_behalf: bool = field(init=False)
    """Whether some providers are asked with tokens of each caller's own."""
    body_rules: BodyRules | None = field(init=False)
    """What the operator changes in bodies of requests; ``None``: nothing."""
    chance: Callable[[], float] = random
    """Returns a random number from 0 to 1."""
    in_use: int = 0
    _retired: bool = field(default=False)

    def __post_init__(self) -> None:
        providers, aliases = self.config.providers.values(), self.config.aliases.values()
        has_retries = any(
            provider.retries is not None and provider.retries.attempts for provider in providers
        )
        self.body_rules = BodyRules.of(self.config)
        self.server_timing = self.config.server_timing
        self.error_messages = self.config.hooks.error_messages
        self.reads_trace = self.config.hooks.otlp is not None
        self.signs = any(source.signs for source in self.credentials.values())
        self.is_on_behalf = any(isinstance(source, OnBehalfOf) for source in self.credentials.values())
        for name, upstream in self.upstreams.items():
            upstream.use_shapes(self.memo.shapes_of(name))
        self.tries_again = has_retries or any(len(targets) > 1 for targets in aliases)

    def credentials_for(self, provider: str, token: CallerToken | None) -> CredentialProvider:
        """Return the source of a provider's credentials, for the caller with this token or without one."""
        source = self.credentials[provider]
        return source.for_caller(token) if isinstance(source, OnBehalfOf) else source

    def known_secrets(self) -> list[Secret]:
        """Return all that it was configured with, and what its sources of credentials know."""
        return [*self.configured_secrets, *self.secrets, *self.source_secrets()]

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
        self.memo.close()
        if not self.in_use:
            self._close()

    def _close(self) -> None:
        for credential in self.credentials.values():
            self.release(credential)
        for upstream in self.upstreams.values():
            upstream.close()


class ConfiguredFiles(Struct, frozen=True):
    """What files hold; in place of what cannot be used stands why, as a :class:`ValueError`.

    Files that are reread while in use are not among them.  Reading the others may take seconds (a large file
    of prices, a thousand ``ca_file``), so a reload does it in a thread.
    """

    credentials: CredentialFiles
    authorities: Authorities
    prices: PriceTable | ValueError | None
    issuer_problems: tuple[str, ...]
    """A line for each file of an issuer that cannot be used."""


class Parts(Struct, frozen=True):
    """What can be made of a configuration without the reactor."""

    config: Config
    files: ConfiguredFiles
    resolver: Resolver
    catalog: Catalog
    models: Models
    table: RouteTable
    credentials: dict[str, CredentialProvider]
    """The credentials by provider; there are none yet."""
    secrets: Sequence[Secret]
    """What stands in the configuration."""


def make_parts(config: Config, environ: Mapping[str, str], created: int) -> Parts:
    """Read the files that a configuration names, and make of it what takes long; this blocks.

    :param created: unix seconds that the entries of the catalog carry.
    """
    resolver = Resolver(config, _warn_of_prefix)
    credentials: dict[str, CredentialProvider] = {}
    authorities = read_all_authorities(config)
    return Parts(
        config,
        ConfiguredFiles(
            read_credential_files(config, environ),
            authorities,
            value_or_error(read_prices, config),
            (*unusable_key_files(config.edge_auth.jwt), *unusable_authorities(config.edge_auth, authorities)),
        ),
        resolver,
        Catalog(config, resolver, created, partial(providers_without_account, credentials)),
        Models(override_of(row) for row in config.translation.models),
        route_table(config),
        credentials,
        secrets_of(config),
    )


def build_generation(
    number: int,
    config: Config,
    reactor: Any,  # Any: a reactor has no one type
    created: int,
    sources: CredentialSources,
    environ: Mapping[str, str] = os.environ,
) -> Generation:
    """Build what a configuration asks for at once, before there are requests: this blocks.

    :param created: unix seconds that the entries of the catalog carry.
    :param environ: the environment, for the files that it names.
    :param sources: of credentials, which outlive it.
    :raises ValueError: files that it names cannot be read, or do not hold what they should; a line for each.
    """
    steps = _steps(number, make_parts(config, environ, created), reactor, sources)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Generation, end.value)


async def build_in_slices(
    number: int,
    parts: Parts,
    reactor: Any,  # Any: as above
    sources: CredentialSources,
) -> Generation:
    """Build what a configuration asks for while requests are served; see :func:`build_generation`."""
    if any(provider.subscriptions for provider in parts.config.providers.values()):
        await sources.subscriptions.read_ahead(parts.config.credential_store)
    with closing(_steps(number, parts, reactor, sources)) as steps:
        while True:
            until = monotonic() + SLICE_SECONDS
            try:
                next(steps)
                while monotonic() < until:
                    next(steps)
            except StopIteration as end:
                return cast(Generation, end.value)
            await deferLater(reactor, 0)


def _steps(
    number: int,
    parts: Parts,
    reactor: Any,  # Any: as above
    sources: CredentialSources,
) -> Generator[None, None, Generation]:
    """Build what a configuration asks for, one provider after the other; whoever gives up closes it."""
    config, files, credentials = parts.config, parts.files, parts.credentials
    upstreams: dict[str, Upstream] = {}
    problems: list[str] = []
    try:
        for name, provider in config.providers.items():
            try:
                upstreams[name] = build_upstream(provider, reactor, files.authorities)
            except ValueError as error:
                problems.append(str(error))
            yield
        problems += files.credentials.profile_problems
        rewrites = rewrites_of(config, files.credentials.profiles, problems)
        for provider in config.providers.values():
            _add_credentials(provider, parts, sources, problems)
            yield
        if isinstance(files.prices, ValueError):
            problems += str(files.prices).splitlines()
        problems += files.issuer_problems
        if problems:
            raise ValueError("\n".join(problems))
    except BaseException:  # also that it was closed
        for credential in credentials.values():
            sources.release(credential)
        raise
    return _join(number, parts, upstreams, rewrites, sources)


def _add_credentials(
    provider: Provider, parts: Parts, sources: CredentialSources, problems: list[str]
) -> None:
    """Build the credentials of a provider, or note why there are none."""
    try:
        found = build_credentials(provider, parts.config.credential_store, parts.files.credentials, sources)
    except ValueError as error:
        problems.append(str(error))
    else:
        if found is not None:
            parts.credentials[provider.name] = found


def _join(
    number: int,
    parts: Parts,
    upstreams: Mapping[str, Upstream],
    rewrites: Mapping[str, BodyRewrite],
    sources: CredentialSources,
) -> Generation:
    files = parts.files
    return Generation(
        number,
        parts.config,
        parts.table,
        parts.resolver,
        parts.catalog,
        parts.credentials,
        upstreams,
        parts.models,
        sources.release,
        signed_again=sources.signed_again,
        rewrites=rewrites,
        prices=None if isinstance(files.prices, ValueError) else files.prices,
        configured_secrets=parts.secrets,
        source_secrets=sources.secrets,
        secrets=files.credentials.secrets(),
    )
