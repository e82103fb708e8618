"""What settings ask of one another, of the environment and of the names that a file gives."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.config.blocks import required_of, stated
from mgw.config.checks import checked_name, checked_text
from mgw.config.environment import Scope, spool_below
from mgw.config.fields import FAMILY_SPELLINGS, SPEAKING
from mgw.config.listen import EndpointText, Listen, parse_listen
from mgw.config.model import (
    Config,
    EdgeAuthSettings,
    HooksSettings,
    Provider,
    RoutesSettings,
    SpoolSettings,
    TlsSettings,
)
from mgw.config.paths import Path
from mgw.config.providers import resolve_provider
from mgw.config.quoting import nearest, shown
from mgw.config.translation import TranslationSettings
from mgw.secret import Secret
from mgw.vocabulary import DEFAULT_SPELLINGS, Family

LISTEN_VARIABLE: Final = "GATEWAY_LISTEN"
CERT_VARIABLE: Final = "GATEWAY_TLS_CERT"
KEY_VARIABLE: Final = "GATEWAY_TLS_KEY"
_VOICES: Final = MappingProxyType(
    {spelling: family for spelling, family in FAMILY_SPELLINGS.items() if family in SPEAKING}
)


def resolve(config: Config, scope: Scope) -> Config:
    """Fill in what a file leaves to its surroundings.

    :raises ConfigError: with all that is wrong, what the report held before included.
    """
    listen = _listen(config.listen, scope)
    found = {
        "listen": listen,
        "providers": _providers(config, scope),
        "defaults": _defaults(config.defaults, scope),
        "aliases": _aliases(config.aliases, scope),
        "edge_auth": _edge_auth(config.edge_auth, scope),
        "routes": _routes(config.routes, scope),
        "hooks": _hooks(config.hooks, scope),
        "tls": _tls(config.tls, listen, scope),
        "spool": _spool(config.spool, scope),
        "translation": _translation(config.translation, scope),
    }
    scope.report.raise_if_any()
    return config.model_copy(update=found)


def _spool(spool: SpoolSettings, scope: Scope) -> SpoolSettings:
    if "dir" in stated(spool):
        return spool
    return spool.model_copy(update={"dir": spool_below(scope.environ)})


def _routes(routes: RoutesSettings, scope: Scope) -> RoutesSettings:
    found = []
    for position, name in enumerate(routes.deny):
        family = FAMILY_SPELLINGS.get(name)
        if family is None:
            scope.need_route(name, FAMILY_SPELLINGS, ("routes", "deny", position))
        found.append(name if family is None else family.value)
    return routes.model_copy(update={"deny": tuple(dict.fromkeys(found))})


def _providers(config: Config, scope: Scope) -> dict[str, Provider]:
    if not scope.provider_names and not scope.report.spoiled(("providers",)):
        scope.report.add(
            ("providers",), "missing, expected at least one provider, with a name, kind and base_url"
        )
    return {
        name: resolve_provider(name, provider, config.timeouts, scope)
        for name, provider in config.providers.items()
    }


def _defaults(defaults: dict[Family, str], scope: Scope) -> dict[Family, str]:
    found: dict[Family, str] = {}
    spelled: dict[Family, str] = {}
    for spelling, provider in defaults.items():
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


def _aliases(aliases: dict[str, str], scope: Scope) -> dict[str, str]:
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
    return aliases


def _edge_auth(edge_auth: EdgeAuthSettings, scope: Scope) -> EdgeAuthSettings:
    keys: list[Secret] = list(edge_auth.keys)
    by_name = ("edge_auth", "keys_env")
    if edge_auth.keys_env is not None:
        keys += scope.keys_from(edge_auth.keys_env, by_name)
    excused = scope.report.spoiled(("edge_auth", "keys")) or scope.report.spoiled(by_name)
    if edge_auth.enabled and not keys and not excused:
        scope.report.add(("edge_auth", "enabled"), "edge auth needs a key: set edge_auth.keys or keys_env")
    return edge_auth.model_copy(update={"keys": tuple(dict.fromkeys(keys))})


def _hooks(hooks: HooksSettings, scope: Scope) -> HooksSettings:
    for name, hook in hooks:
        for key in () if hook is None else required_of(type(hook)):
            path = ("hooks", name, key)
            if getattr(hook, key) is None and not scope.report.spoiled(path):
                words = (type(hook).model_fields[key].description or "").removesuffix(".")
                scope.report.add(path, f"missing, expected {words}")
    return hooks


def _listen(listen: Listen | EndpointText, scope: Scope) -> Listen | EndpointText:
    override = scope.environ.get(LISTEN_VARIABLE)
    if override:
        try:
            return parse_listen(override)
        except ValueError as error:
            scope.report.add_environment(LISTEN_VARIABLE, str(error))
    return listen


def _tls(tls: TlsSettings | None, listen: Listen | EndpointText, scope: Scope) -> TlsSettings | None:
    """Settle HTTPS: each half may come from the file or from the environment, and both are needed."""
    cert_file = scope.environ.get(CERT_VARIABLE) or (tls and tls.cert_file)
    key_file = scope.environ.get(KEY_VARIABLE) or (tls and tls.key_file)
    if isinstance(listen, EndpointText) and listen.brings_tls and (cert_file or key_file):
        scope.report.add(("tls",), "the endpoint in listen already speaks TLS: keep only one of them")
    halves = (("cert_file", cert_file, CERT_VARIABLE), ("key_file", key_file, KEY_VARIABLE))
    if tls is not None or cert_file or key_file:
        for half, value, variable in halves:
            if not value and not scope.report.spoiled(("tls", half)):
                scope.report.add(("tls", half), f"missing, TLS needs both files: set it or {variable}")
    if not cert_file or not key_file:
        return None
    return TlsSettings.model_construct(cert_file=cert_file, key_file=key_file)


def _translation(translation: TranslationSettings, scope: Scope) -> TranslationSettings:
    return translation.model_copy(update={"voices": _voices(translation.voices, scope)})


def _voices(voices: dict[Family, dict[str, str]], scope: Scope) -> dict[Family, dict[str, str]]:
    found: dict[Family, dict[str, str]] = {}
    spelled: dict[Family, str] = {}
    for spelling, names in voices.items():
        path: Path = ("translation", "voices", spelling)
        family = FAMILY_SPELLINGS.get(spelling)
        if family is None:
            scope.report.add(path, f"unknown key{nearest(spelling, _VOICES)}")
        elif family not in SPEAKING:
            scope.report.add(path, f"{family} does not support speech, expected {' or '.join(SPEAKING)}")
        elif family in spelled:
            scope.report.add(path, f"another spelling of {spelled[family]}, which is also set: keep only one")
        else:
            spelled[family] = spelling
            found[family] = _voice_names(names, path, scope)
    return found


def _voice_names(names: dict[str, str], path: Path, scope: Scope) -> dict[str, str]:
    for asked in names:
        try:
            checked_text(asked)
        except ValueError as error:
            scope.report.add((*path, asked), f"as a voice: {error}")
    return names
