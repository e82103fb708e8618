"""From what is written to the settings: the environment, defaults, and what one setting asks of another."""

from __future__ import annotations

from typing import Any, Final

from mgw.config.blocks import Written
from mgw.config.checks import checked_name
from mgw.config.listen import DEFAULT_LISTEN, EndpointText, Listen, parse_listen
from mgw.config.model import (
    DEFAULT_BODY_MEMORY,
    DEFAULT_DRAIN_SECONDS,
    DEFAULT_MAX_BODY_BYTES,
    Config,
    EdgeAuth,
    Hooks,
    JsonlHook,
    Provider,
    Spool,
    Timeouts,
    Tls,
)
from mgw.config.paths import shown
from mgw.config.problems import nearest
from mgw.config.providers import resolve_provider
from mgw.config.scope import Scope
from mgw.config.translation import AutoBreakpoints, Caching, ModelRow, StreamKeepalive, Translation
from mgw.config.written import WrittenEdgeAuth, WrittenFile, WrittenHooks, WrittenTls
from mgw.config.written_translation import (
    WrittenCaching,
    WrittenModelRow,
    WrittenStreamKeepalive,
    WrittenTranslation,
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
    limits = written.timeouts
    timeouts = Timeouts(**({} if limits is None else limits.model_dump(exclude_none=True)))
    providers = _providers(written, timeouts, scope)
    defaults = _defaults(written, scope)
    aliases = _aliases(written, scope)
    edge_auth = _edge_auth(written.edge_auth or WrittenEdgeAuth(), scope)
    hooks = _hooks(written.hooks or WrittenHooks(), scope)
    listen = _listen(written.listen, scope)
    tls = _tls(written.tls, listen, scope)
    memory = None if written.spool is None else written.spool.body_memory
    scope.report.raise_if_any()
    return Config(
        listen=listen,
        providers=providers,
        defaults=defaults,
        aliases=aliases,
        edge_auth=edge_auth,
        hooks=hooks,
        max_body_bytes=DEFAULT_MAX_BODY_BYTES if written.max_body_bytes is None else written.max_body_bytes,
        tls=tls,
        timeouts=timeouts,
        drain_seconds=DEFAULT_DRAIN_SECONDS if written.drain_seconds is None else written.drain_seconds,
        spool=Spool(body_memory=DEFAULT_BODY_MEMORY if memory is None else memory),
        observe_dropped_fields=bool(written.observe_dropped_fields),
        translation=_translation(written.translation),
        caching=_caching(written.caching),
        stream_keepalive=_keepalive(written.stream_keepalive),
    )


def _stated(written: Written | None) -> dict[str, Any]:  # Any: settings by name
    return {} if written is None else {key: value for key, value in written if value is not None}


def _translation(written: WrittenTranslation | None) -> Translation:
    stated = _stated(written)
    rows = stated.pop("models", ())
    return Translation(**stated, models=tuple(map(_model_row, rows)))


def _model_row(written: WrittenModelRow) -> ModelRow:
    stated = _stated(written) | {"match": written.match.lower()}
    if written.efforts is not None:
        stated["efforts"] = tuple(dict.fromkeys(written.efforts))
    return ModelRow(**stated)


def _caching(written: WrittenCaching | None) -> Caching:
    stated = _stated(None if written is None else written.auto_breakpoints)
    if "targets" in stated:
        stated["targets"] = frozenset(stated["targets"])
    return Caching(auto_breakpoints=AutoBreakpoints(**stated))


def _keepalive(written: WrittenStreamKeepalive | None) -> StreamKeepalive | None:
    return None if written is None else StreamKeepalive(**_stated(written))


def _providers(written: WrittenFile, timeouts: Timeouts, scope: Scope) -> dict[str, Provider]:
    if not scope.provider_names and not scope.report.spoiled(("providers",)):
        scope.report.add(
            ("providers",), "missing, expected at least one provider: a name with kind and base_url"
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
            scope.report.add(path, f"another spelling of {spelled[family]}, which is set too: keep one")
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
        scope.report.add(("tls",), "the endpoint of listen speaks TLS by itself: keep one of the two")
    halves = (("cert_file", cert_file, CERT_VARIABLE), ("key_file", key_file, KEY_VARIABLE))
    if written is not None or cert_file or key_file:
        for half, value, variable in halves:
            if not value and not scope.report.spoiled(("tls", half)):
                scope.report.add(("tls", half), f"missing, TLS needs both files: set it or {variable}")
    return Tls(cert_file=cert_file, key_file=key_file) if cert_file and key_file else None
