"""Warnings about settings that are valid but probably a mistake.

Each begins with the path of a setting, as all warnings do.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from fnmatch import translate
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from mgw.config.body_advice import body_advice
from mgw.config.cloud_advice import cloud_advice
from mgw.config.identity_advice import identity_advice
from mgw.config.key_settings import NamedKeySettings
from mgw.config.limit_advice import limit_advice
from mgw.config.near_names import near_name
from mgw.config.problems import Path, dotted_path
from mgw.config.provider import Provider
from mgw.config.quoting import listed, quote, redact, shown
from mgw.config.removed_settings import REMOVED
from mgw.config.settings import Config
from mgw.nouns.kinds import KINDS
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Kind

_WILDCARD: Final = re.compile(r"[*?\[]")
_OF_VENDORS: Final = frozenset({"models", "projects", "publishers", "tunedmodels"})
"""What stands before a slash in ids of the vendors themselves."""
_OPENAI_AT_GOOGLE: Final = "/openai"
"""How the path of Google's OpenAI-compatible API ends."""
_HOSTS: Final = MappingProxyType(
    {urlsplit(row.base_url).netloc: row.kind for row in KINDS.values() if row.base_url is not None}
)
MOST_SCANS: Final = 100
"""Patterns that are compared with every alias; of a file with more that fit nothing, these are enough."""
_LIKE_A_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|KEYS|TOKEN|SECRET|PASSWORD)")


def advice(config: Config) -> list[str]:
    """Return all of them, in the order of the settings."""
    return [
        *(f"{name}: {REMOVED[name]}" for name in config.removed),
        *_variables_as_keys(config),
        *_keys_of_providers(config),
        *_addresses_of_others(config),
        *cloud_advice(config.providers),
        *body_advice(config),
        *_patterns_without_models(config),
        *limit_advice(config),
        *identity_advice(config.edge_auth),
        *_open_to_pages(config),
    ]


def _open_to_pages(config: Config) -> Iterator[str]:
    """Say so where pages need no key: a browser on the gateway's own machine is enough to use it."""
    if config.cors.origins and not config.edge_auth.enabled:
        whose = "any web page" if "*" in config.cors.origins else "pages of these origins"
        yield (
            f"cors.origins: edge_auth is off, so {whose} can use the providers' keys, from any browser that "
            "reaches the gateway, also on this machine"
        )


def _variables_as_keys(config: Config) -> Iterator[str]:
    """Say so where the name of an environment variable stands in place of a key."""
    keys = config.edge_auth.keys
    if any(_is_variable(key.key if isinstance(key, NamedKeySettings) else key) for key in keys):
        yield f"edge_auth.keys: a key {_LOOKS} keys_env, or key_env for a key with a name"
    if any(map(_is_variable, config.dashboard.keys)):
        yield f"dashboard.keys: a key {_LOOKS} keys_env"
    for name, provider in config.providers.items():
        if _is_variable(provider.api_key):
            yield f"{dotted_path(('providers', name, 'api_key'))}: the key {_LOOKS} api_key_env"


_LOOKS: Final = "looks like the name of an environment variable: to read the key from one, name it in"


def _is_variable(key: Secret | None) -> bool:
    return key is not None and _LIKE_A_VARIABLE.fullmatch(key.reveal()) is not None


def _keys_of_providers(config: Config) -> Iterator[str]:
    """Say so where clients have a provider's key, which opens the provider without the gateway, too."""
    of_clients = {key.reveal() for key in config.edge_auth.secrets}
    for name, provider in config.providers.items():
        if provider.api_key is not None and provider.api_key.reveal() in of_clients:
            where = dotted_path(("providers", name))
            yield f"edge_auth.keys: a key is also the key of {where}: give clients a key of their own"


def _addresses_of_others(config: Config) -> Iterator[str]:
    """Say so where an address is one of another vendor, which has another API."""
    for name, provider in config.providers.items():
        meant = _kind_at(provider)
        if meant is not None:
            host = redact(urlsplit(provider.base_url).netloc)
            where = dotted_path(("providers", name, "base_url"))
            yield f"{where}: {host} is an address of {KINDS[meant].vendor}: did you mean kind: {meant.value}?"


def _kind_at(provider: Provider) -> Kind | None:
    """Return the kind of the vendor that has this address, if the provider's kind cannot be meant."""
    parts, row = urlsplit(provider.base_url), KINDS[provider.kind]
    for other in KINDS.values():
        if other.host_suffix and (parts.hostname or "").endswith(other.host_suffix):
            is_other = other is not row and other.family is row.family
            return other.kind if is_other and "v1" not in parts.path.split("/") else None
    kind = _HOSTS.get(parts.netloc)
    if kind is None or KINDS[kind].family is row.family:
        return None
    serves_chat = provider.kind is Kind.OPENAI_COMPAT or parts.path.endswith(_OPENAI_AT_GOOGLE)
    return None if serves_chat else kind


def _patterns_without_models(config: Config) -> Iterator[str]:
    """Say which patterns of gateway keys and groups fit no model that can be asked for."""
    reach = _Reach(config)
    keys: list[tuple[Path, tuple[str, ...] | None]] = [
        (("edge_auth", "keys", key.position), key.models) for key in config.edge_auth.named
    ]
    groups: list[tuple[Path, tuple[str, ...] | None]] = [
        (("edge_auth", "groups", name), group.models) for name, group in config.edge_auth.groups.items()
    ]
    for place, models in (*groups, *keys):
        for sentence in _unmatched(models, reach):
            yield f"{dotted_path((*place, 'models'))}: {sentence}"


def key_file_patterns(config: Config, keys: Iterable[NamedKeySettings]) -> Iterator[str]:
    """Say which patterns of keys that have files of their own fit no model that can be asked for."""
    reach = _Reach(config)
    for key in keys:
        for sentence in _unmatched(key.models, reach):
            yield f"edge_auth.keys_dir: models of the key {shown(key.name)}: {sentence}"


def patterns_without_models(config: Config, patterns: Iterable[str]) -> list[str]:
    """Return a sentence for each of these patterns that fits no model that can be asked for."""
    return list(_unmatched(tuple(pattern.lower() for pattern in patterns), _Reach(config)))


def _unmatched(models: tuple[str, ...] | None, reach: _Reach) -> Iterator[str]:
    for pattern in models or ():
        reason = reach.why_nothing(pattern)
        if reason is not None:
            yield f"{quote(pattern)} matches no model: {reason}"


class _Reach:
    """Which models a configuration has: those of aliases, of each provider's prefix, and of defaults."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._prefixes = sorted(f"{name.lower()}/" for name in config.providers)
        self._aliases = {alias.lower() for alias in config.aliases}
        defaults = [config.providers[name] for name in dict.fromkeys(config.defaults.values())]
        self._has_defaults = bool(defaults)
        self._takes_slashes = any(map(_may_have_slashes, defaults))
        self._scans_left = MOST_SCANS

    def why_nothing(self, pattern: str) -> str | None:
        """Say why a pattern fits nothing; ``None``: it may fit something."""
        wildcard = _WILDCARD.search(pattern)
        literal = pattern if wildcard is None else pattern[: wildcard.start()]
        first, slash, _ = literal.partition("/")
        if slash:
            return None if self._takes(first) or self._fits_alias(pattern) else self._no_provider(first)
        if self._has_defaults or (wildcard is not None and self._begins_prefix(literal)):
            return None
        if self._fits_alias(pattern):
            return None
        return "without defaults, clients ask for an alias or for <provider>/<model>"

    def _takes(self, prefix: str) -> bool:
        """Whether ids of models may begin with this and a slash."""
        place = bisect_left(self._prefixes, f"{prefix}/")
        is_provider = self._prefixes[place : place + 1] == [f"{prefix}/"]
        return is_provider or self._takes_slashes or (self._has_defaults and prefix in _OF_VENDORS)

    def _begins_prefix(self, literal: str) -> bool:
        """Whether some ``<provider>/`` begins so; then what follows can be anything."""
        place = bisect_left(self._prefixes, literal)
        return any(prefix.startswith(literal) for prefix in self._prefixes[place : place + 1])

    def _fits_alias(self, pattern: str) -> bool:
        if pattern in self._aliases or not self._aliases:
            return pattern in self._aliases
        if _WILDCARD.search(pattern) is None:
            return False
        self._scans_left -= 1
        return self._scans_left < 0 or any(map(re.compile(translate(pattern)).match, self._aliases))

    def _no_provider(self, name: str) -> str:
        near = near_name(name, self._config.providers)
        if near is not None:
            return f"no provider is named {quote(name)}, did you mean {near}?"
        return f"no provider is named {quote(name)} (known: {listed(self._config.providers)})"


def _may_have_slashes(provider: Provider) -> bool:
    """Whether ids of its models may hold a slash: those of the vendors' own APIs do not."""
    return provider.base_url != KINDS[provider.kind].base_url
