"""From what is written to the settings: the environment, defaults, and what one setting asks of another."""

from __future__ import annotations

from typing import Any, Final

from mgw.config.checks import checked_name
from mgw.config.fields import FAMILY_SPELLINGS
from mgw.config.listen import DEFAULT_LISTEN, EndpointText, Listen, parse_listen
from mgw.config.model import (
    Config,
    EdgeAuth,
    HealthChecks,
    Hooks,
    JsonlHook,
    Provider,
    Routes,
    Spool,
    Timeouts,
    Tls,
)
from mgw.config.providers import resolve_provider
from mgw.config.quoting import nearest, shown
from mgw.config.resolve_translation import (
    resolve_caching,
    resolve_keepalive,
    resolve_translation,
    stated_in,
)
from mgw.config.scope import Scope
from mgw.config.state import spool_below
from mgw.config.written import (
    WrittenEdgeAuth,
    WrittenFile,
    WrittenHooks,
    WrittenRoutes,
    WrittenSpool,
    WrittenTls,
)
from mgw.secret import Secret
from mgw.vocabulary import DEFAULT_SPELLINGS, Family

LISTEN_VARIABLE: Final = "GATEWAY_LISTEN"
CERT_VARIABLE: Final = "GATEWAY_TLS_CERT"
KEY_VARIABLE: Final = "GATEWAY_TLS_KEY"


def resolve(written: WrittenFile, scope: Scope) -> Config:
    """Resolve a whole file.

    :raises ConfigError: with all that is wrong, what the report held before included.
    """
    timeouts = Timeouts(**stated_in(written.timeouts))
    listen = _listen(written.listen, scope)
    resolved: dict[str, Any] = {  # Any: settings by name
        "listen": listen,
        "providers": _providers(written, timeouts, scope),
        "defaults": _defaults(written, scope),
        "aliases": _aliases(written, scope),
        "edge_auth": _edge_auth(written.edge_auth or WrittenEdgeAuth(), scope),
        "trusted_proxies": tuple(dict.fromkeys(written.trusted_proxies or ())),
        "routes": _routes(written.routes, scope),
        "health_checks": HealthChecks(**stated_in(written.health_checks)),
        "hooks": _hooks(written.hooks or WrittenHooks(), scope),
        "tls": _tls(written.tls, listen, scope),
        "timeouts": timeouts,
        "spool": _spool(written.spool, scope),
        "translation": resolve_translation(written.translation, scope),
        "caching": resolve_caching(written.caching),
        "stream_keepalive": resolve_keepalive(written.stream_keepalive),
    }
    scope.report.raise_if_any()
    as_written = {key: value for key, value in stated_in(written).items() if key not in resolved}
    return Config(**as_written, **resolved)


def _spool(written: WrittenSpool | None, scope: Scope) -> Spool:
    return Spool(**({"dir": spool_below(scope.environ)} | stated_in(written)))


def _routes(written: WrittenRoutes | None, scope: Scope) -> Routes:
    found = []
    for position, name in enumerate((written.deny if written else None) or ()):
        family = FAMILY_SPELLINGS.get(name)
        if family is None:
            scope.need_route(name, FAMILY_SPELLINGS, ("routes", "deny", position))
        found.append(name if family is None else family.value)
    return Routes(deny=tuple(dict.fromkeys(found)))


def _providers(written: WrittenFile, timeouts: Timeouts, scope: Scope) -> dict[str, Provider]:
    if not scope.provider_names and not scope.report.spoiled(("providers",)):
        scope.report.add(
            ("providers",), "missing, expected at least one provider, with a name, kind and base_url"
        )
    found = {
        name: resolve_provider(name, provider, timeouts, scope)
        for name, provider in (written.providers or {}).items()
    }
    return {name: provider for name, provider in found.items() if provider is not None}


def _defaults(written: WrittenFile, scope: Scope) -> dict[Family, str]:
    found: dict[Family, str] = {}
    spelled: dict[Family, str] = {}
    for spelling, provider in (written.defaults or {}).items():
        path = ("defaults", spelling)
        family = DEFAULT_SPELLINGS.get(spelling)
        if family is None:
            scope.report.add(path, f"unknown key{nearest(spelling, DEFAULT_SPELLINGS)}")
        elif family in spelled:
            scope.report.add(path, f"another spelling of {spelled[family]}, which is also set: keep only one")
        else:
            spelled[family] = spelling
            found[family] = provider
            scope.need_provider(provider, path)
    return found


def _aliases(written: WrittenFile, scope: Scope) -> dict[str, str]:
    aliases = written.aliases or {}
    for alias, target in aliases.items():
        path = ("aliases", alias)
        try:
            checked_name(alias)
        except ValueError as error:
            scope.report.add(path, f"as an alias: {error}")
        provider, _, model = target.partition("/")
        if provider and model:
            scope.need_provider(provider, path)
        else:
            scope.report.add(path, f"expected <provider>/<model>, found {shown(target)}")
    return dict(aliases)


def _edge_auth(written: WrittenEdgeAuth, scope: Scope) -> EdgeAuth:
    keys: list[Secret] = list(written.keys or ())
    by_name = ("edge_auth", "keys_env")
    if written.keys_env is not None:
        keys += scope.keys_from(written.keys_env, by_name)
    enabled = bool(written.enabled)
    excused = scope.report.spoiled(("edge_auth", "keys")) or scope.report.spoiled(by_name)
    if enabled and not keys and not excused:
        scope.report.add(("edge_auth", "enabled"), "edge auth needs a key: set edge_auth.keys or keys_env")
    return EdgeAuth(enabled=enabled, keys=tuple(dict.fromkeys(keys)))


def _hooks(written: WrittenHooks, scope: Scope) -> Hooks:
    if written.jsonl is None:
        return Hooks()
    if written.jsonl.output is None:
        path = ("hooks", "jsonl", "output")
        if not scope.report.spoiled(path):
            scope.report.add(path, "missing, expected stdout, stderr or the path of a file")
        return Hooks()
    return Hooks(jsonl=JsonlHook(output=written.jsonl.output))


def _listen(written: Listen | EndpointText | None, scope: Scope) -> Listen | EndpointText:
    override = scope.environ.get(LISTEN_VARIABLE)
    if override:
        try:
            return parse_listen(override)
        except ValueError as error:
            scope.report.add_environment(LISTEN_VARIABLE, str(error))
    return DEFAULT_LISTEN if written is None else written


def _tls(written: WrittenTls | None, listen: Listen | EndpointText, scope: Scope) -> Tls | None:
    """Settle HTTPS: each half may come from the file or from the environment, and both are needed."""
    block = written or WrittenTls()
    cert_file = scope.environ.get(CERT_VARIABLE) or block.cert_file
    key_file = scope.environ.get(KEY_VARIABLE) or block.key_file
    if isinstance(listen, EndpointText) and listen.brings_tls and (cert_file or key_file):
        scope.report.add(("tls",), "the endpoint in listen already speaks TLS: keep only one of them")
    halves = (("cert_file", cert_file, CERT_VARIABLE), ("key_file", key_file, KEY_VARIABLE))
    if written is not None or cert_file or key_file:
        for half, value, variable in halves:
            if not value and not scope.report.spoiled(("tls", half)):
                scope.report.add(("tls", half), f"missing, TLS needs both files: set it or {variable}")
    return Tls(cert_file=cert_file, key_file=key_file) if cert_file and key_file else None
