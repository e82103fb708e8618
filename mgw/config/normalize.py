"""Dependencies between settings, and values from the environment and a provider's kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from mgw.config.alias import AliasSettings
from mgw.config.authentication import check_client_tokens, settle_authentication
from mgw.config.auths import AUTHS, CREDENTIALS, AuthMode, keys_of
from mgw.config.aws import region_in_environment
from mgw.config.aws_hosts import regional_address
from mgw.config.aws_settings import REGION_VARIABLES, AwsSettings
from mgw.config.body_rules import check_body_rules
from mgw.config.checks import checked_name, checked_provider_name, checked_text
from mgw.config.dashboard import settle_dashboard
from mgw.config.edge_auth import check_budgets, settle_edge_auth
from mgw.config.environment import (
    CERT_VARIABLE,
    KEY_VARIABLE,
    LISTEN_VARIABLE,
    LoadContext,
    credential_store_below,
    limit_store_below,
    spool_below,
)
from mgw.config.field_types import FAMILY_SPELLINGS, SPEAKING
from mgw.config.fleet import settle_fleet
from mgw.config.header_checks import check_headers
from mgw.config.hooks import settle_hooks
from mgw.config.listed_models import check_listed_models
from mgw.config.listen import EndpointText, Listen, parse_listen
from mgw.config.prices import check_prices
from mgw.config.problems import Path
from mgw.config.provider import Provider, is_on_vertex
from mgw.config.proxy import ProxyAddress, parse_proxy
from mgw.config.quoting import listed, quote, suggestion
from mgw.config.settings import (
    Config,
    ProfileFileSettings,
    RoutesSettings,
    SpoolSettings,
    TlsSettings,
)
from mgw.config.settings_base import Settings, file_settings, set_keys
from mgw.config.translation import TranslationSettings
from mgw.nouns.kinds import KINDS, KindRow, enumerated, has_betas, kinds_where, of_chat
from mgw.nouns.vocabulary import DEFAULT_SPELLINGS, Family, Kind

BlockT = TypeVar("BlockT", bound=Settings)

_VOICES: Final = MappingProxyType(
    {spelling: family for spelling, family in FAMILY_SPELLINGS.items() if family in SPEAKING}
)
OF_CHAT: Final = ("stream_usage", "meter_streams", "max_tokens_field")
"""Settings of OpenAI's wire alone."""


def normalize(config: Config, context: LoadContext) -> Config:
    """Fill in what a file leaves to the environment and to defaults.

    :raises ConfigError: with all that is wrong, what the report held before included.
    """
    listen = _listen(config.listen, context)
    edge_auth = settle_edge_auth(config.edge_auth, context)
    found = {
        "listen": listen,
        "providers": _providers(config, context),
        "defaults": _defaults(config.defaults, context),
        "edge_auth": edge_auth,
        "dashboard": settle_dashboard(config.dashboard, config.edge_auth.groups, context),
        "routes": _routes(config.routes, context),
        "hooks": settle_hooks(config.hooks, context),
        "fleet": settle_fleet(config.fleet, context),
        "tls": _tls(config.tls, listen, context),
        "spool": _spool(config.spool, context),
        "translation": _translation(config.translation, context),
        "profiles": _profiles(config.profiles, context),
        "credential_store": _credential_store(config, context),
        "limit_store": _limit_store(config, context),
    }
    _check_aliases(config.own_aliases, context)
    check_client_tokens(config.providers, edge_auth.jwt, context)
    if config.prices is not None:
        check_prices(config.prices, context)
    elif not context.report.has_problem_below(("prices",)):
        check_budgets(edge_auth, context)
    context.report.raise_if_any()
    return config.model_copy(update=found)


def _spool(spool: SpoolSettings, context: LoadContext) -> SpoolSettings:
    if "dir" in set_keys(spool):
        return spool
    return spool.model_copy(update={"dir": spool_below(context.environ)})


def _credential_store(config: Config, context: LoadContext) -> str:
    stated = "credential_store" in set_keys(config)
    return config.credential_store if stated else credential_store_below(context.environ)


def _limit_store(config: Config, context: LoadContext) -> str:
    stated = "limit_store" in set_keys(config)
    return config.limit_store if stated else limit_store_below(context.environ)


def _profiles(
    profiles: dict[str, ProfileFileSettings], context: LoadContext
) -> dict[str, ProfileFileSettings]:
    for name, profile in profiles.items():
        path: Path = ("profiles", name)
        try:
            checked_name(name)
        except ValueError as error:
            context.report.add(path, f"as a profile: {error}")
        if not profile.file and not context.report.has_problem_below((*path, "file")):
            context.report.add((*path, "file"), "missing, expected an absolute path")
    return profiles


def _routes(routes: RoutesSettings, context: LoadContext) -> RoutesSettings:
    found = []
    for position, name in enumerate(routes.deny):
        family = FAMILY_SPELLINGS.get(name)
        if family is None:
            context.need_route(name, FAMILY_SPELLINGS, ("routes", "deny", position))
        found.append(name if family is None else family.value)
    return routes.model_copy(update={"deny": tuple(dict.fromkeys(found))})


def _providers(config: Config, context: LoadContext) -> dict[str, Provider]:
    if not context.provider_names and not context.report.has_problem_below(("providers",)):
        context.report.add(("providers",), "missing, expected at least one provider, with a name and a kind")
    return {
        name: normalize_provider(name, provider, config, context)
        for name, provider in config.providers.items()
    }


def _defaults(defaults: dict[Family, str], context: LoadContext) -> dict[Family, str]:
    found: dict[Family, str] = {}
    spelled: dict[Family, str] = {}
    for spelling, provider in defaults.items():
        path = ("defaults", spelling)
        family = DEFAULT_SPELLINGS.get(spelling)
        if family is None:
            context.report.add(path, f"unknown key{suggestion(spelling, DEFAULT_SPELLINGS)}")
        elif family in spelled:
            context.report.add(path, _two_spellings(spelled[family]))
        else:
            spelled[family] = spelling
            found[family] = provider
            if "/" in provider and provider.partition("/")[0] in (context.provider_names or ()):
                context.report.add(path, f"expected a provider without a model, found {quote(provider)}")
            else:
                context.need_provider(provider, path)
    return found


def _two_spellings(spelling: str) -> str:
    return f"another spelling of {spelling}, which is also set: keep only one"


def _check_aliases(aliases: dict[str, AliasSettings], context: LoadContext) -> None:
    for alias, settings in aliases.items():
        path: Path = ("aliases", alias)
        check_body_rules(settings.body, (*path, "body"), context)
        try:
            checked_name(alias)
        except ValueError as error:
            context.report.add(path, f"as an alias: {error}")
        listed_at: Path = (*path, "targets")
        if not settings.targets and not context.report.has_problem_below(listed_at):
            context.report.add(listed_at, "missing, expected a list of <provider>/<model>")
        if listed_at in context.report.marks:
            path = listed_at
        for position, target in enumerate(settings.targets or ()):
            place = (*path, position) if (*path, position) in context.report.marks else path
            provider, _, model = target.partition("/")
            if "://" in target:
                context.report.add(
                    place, "expected <provider>/<model>, found an address: it is the base_url of a provider"
                )
            elif provider and model:
                context.need_provider(provider, place)
            else:
                reason = _why_no_target(target, aliases, context)
                context.report.add(place, f"expected <provider>/<model>, found {quote(target)}{reason}")


def _why_no_target(target: str, aliases: Mapping[str, object], context: LoadContext) -> str:
    """Say what a target is that names no model of a provider."""
    if target in aliases:
        return ", which is an alias: an alias cannot refer to another one"
    if target.removesuffix("/") in (context.provider_names or ()):
        return ", which is a provider: add the model"
    known = listed(context.provider_names or ())
    return f" (providers: {known})" if known else ""


def _listen(listen: Listen | EndpointText, context: LoadContext) -> Listen | EndpointText:
    override = context.environ.get(LISTEN_VARIABLE)
    if override:
        try:
            return parse_listen(override)
        except ValueError as error:
            context.report.add_environment(LISTEN_VARIABLE, str(error))
    return listen


def _tls(tls: TlsSettings | None, listen: Listen | EndpointText, context: LoadContext) -> TlsSettings | None:
    """Settle HTTPS: each half may come from the file or from the environment, and both are needed."""
    cert_file = context.environ.get(CERT_VARIABLE) or (tls and tls.cert_file)
    key_file = context.environ.get(KEY_VARIABLE) or (tls and tls.key_file)
    if isinstance(listen, EndpointText) and listen.brings_tls and (cert_file or key_file):
        context.report.add(("tls",), "the endpoint in listen already uses TLS: keep only one of them")
    halves = (("cert_file", cert_file, CERT_VARIABLE), ("key_file", key_file, KEY_VARIABLE))
    if tls is not None or cert_file or key_file:
        for half, value, variable in halves:
            if not value and not context.report.has_problem_below(("tls", half)):
                context.report.add(("tls", half), f"missing, TLS requires both files: set it or {variable}")
    if not cert_file or not key_file:
        return None
    client_ca = None if tls is None else tls.client_ca
    return TlsSettings.model_construct(cert_file=cert_file, key_file=key_file, client_ca=client_ca)


def _translation(translation: TranslationSettings, context: LoadContext) -> TranslationSettings:
    return translation.model_copy(update={"voices": _voices(translation.voices, context)})


def _voices(voices: dict[Family, dict[str, str]], context: LoadContext) -> dict[Family, dict[str, str]]:
    found: dict[Family, dict[str, str]] = {}
    spelled: dict[Family, str] = {}
    for spelling, names in voices.items():
        path: Path = ("translation", "voices", spelling)
        family = FAMILY_SPELLINGS.get(spelling)
        if family is None:
            context.report.add(path, f"unknown key{suggestion(spelling, _VOICES)}")
        elif family not in SPEAKING:
            context.report.add(path, f"{family} does not support speech, expected {' or '.join(SPEAKING)}")
        elif family in spelled:
            context.report.add(path, _two_spellings(spelled[family]))
        else:
            spelled[family] = spelling
            found[family] = _voice_names(names, path, context)
    return found


def _voice_names(names: dict[str, str], path: Path, context: LoadContext) -> dict[str, str]:
    for asked in names:
        try:
            checked_text(asked)
        except ValueError as error:
            context.report.add((*path, asked), f"as a voice: {error}")
    return names


def normalize_provider(name: str, provider: Provider, general: Config, context: LoadContext) -> Provider:
    """Fill in what the block of a provider leaves to its kind, the general settings and the environment."""
    path: Path = ("providers", name)
    try:
        checked_provider_name(name)
    except ValueError as error:
        context.report.add(path, str(error))
    authentication = settle_authentication(provider, path, context)
    _check_subscriptions(provider, path, context)
    proxy = _proxy(provider, path, context)
    check_headers(provider, (*path, "headers"), context)
    check_body_rules(provider.body, (*path, "body"), context)
    check_listed_models(provider.listed_models, (*path, "models"), context.report)
    if provider.kind is None:
        if not context.report.has_problem_below((*path, "kind")):
            context.report.add((*path, "kind"), f"missing, expected one of {', '.join(Kind)}")
        return provider
    _check_capabilities(provider, authentication["auth"], (*path, "capabilities"), context)
    _check_chat(provider, path, context)
    region = _region(provider, authentication.get("aws"), context)
    base_url = _base_url(provider.kind, provider.base_url, region, (*path, "base_url"), context)
    _check_version(provider.kind, base_url, provider.api_version, (*path, "api_version"), context)
    refuses = base_url == KINDS[provider.kind].base_url
    if (
        authentication["auth"] is AuthMode.NONE
        and refuses
        and not context.report.has_problem_at((*path, "auth"))
    ):
        fault = f"auth none cannot work at {base_url}, which rejects requests without a credential"
        context.report.add((*path, "auth"), fault)
    found = {
        "name": name,
        "base_url": base_url,
        **authentication,
        "proxy": proxy,
        "timeouts": _completed(provider.timeouts, general.timeouts),
        "retries": _completed(provider.retries, general.retries),
    }
    return provider.model_copy(update=found)


def _completed(own: BlockT, general: Settings) -> BlockT:
    """Return a provider's block with the general settings where it states none."""
    known, stated = file_settings(type(own)), set_keys(own)
    unstated = {key: value for key, value in general if key in known and key not in stated}
    return own.model_copy(update=unstated)


def _check_subscriptions(provider: Provider, path: Path, context: LoadContext) -> None:
    """Note what keeps subscription credentials from being used."""
    report, pool = context.report, provider.pool
    if pool is None:
        has_account = provider.oauth is not None and provider.oauth.credentials is not None
        excused = has_account or any(report.has_problem_below((*path, key)) for key in ("pool", "oauth"))
        if provider.cloak is not None and not excused:
            message = "only for subscription credentials: requires pool or oauth.credentials"
            report.add((*path, "cloak"), message)
        return
    here = (*path, "pool")
    own = set(keys_of(CREDENTIALS)) & set_keys(provider)
    if provider.auth not in (None, AuthMode.OAUTH2):
        own.add("auth")
    if own:
        report.add(here, f"the credentials come from the pool: remove {enumerated(sorted(own))}")
    for key, words in (("credentials", "a list of entries of the credential store"), ("profile", "a name")):
        if not getattr(pool, key) and not report.has_problem_below((*here, key)):
            report.add((*here, key), f"missing, expected {words}")
    if pool.profile:
        context.need_profile(pool.profile, (*here, "profile"))


def _proxy(provider: Provider, path: Path, context: LoadContext) -> ProxyAddress | None:
    if provider.proxy_env is None:
        return provider.proxy
    by_name = (*path, "proxy_env")
    if context.is_set(provider.proxy, (*path, "proxy")):
        context.report.add(by_name, "proxy is also set: keep only one of them")
        return None
    return context.address_from(provider.proxy_env, by_name, parse_proxy)


def _region(provider: Provider, aws: AwsSettings | None, context: LoadContext) -> str | None:
    """Return the region that the address is to have, where it stands in the addresses of a kind."""
    if KINDS[provider.kind].regional_url is None or provider.base_url is not None:
        return None
    return region_in_environment(context) if aws is None else aws.region


def _base_url(kind: Kind, url: str | None, region: str | None, path: Path, context: LoadContext) -> str:
    if url is not None:
        return url
    row = KINDS[kind]
    usual = row.base_url
    if row.regional_url is not None and region is not None:
        usual = regional_address(row.regional_url, region)
    asked = (path, *((*path[:-1], key) for key in ("auth", "aws") if row.regional_url is not None))
    if usual is None and not any(map(context.report.has_problem_below, asked)):
        reason = f"there is no default for kind {kind}"
        if row.regional_url is not None:
            reason += f" unless {' or '.join(REGION_VARIABLES)} names the region"
        context.report.add(path, f"missing, expected the address of the host: {reason}")
    return usual or ""


def _check_version(kind: Kind, base_url: str, version: str | None, path: Path, context: LoadContext) -> None:
    """Report a version that would go nowhere, and one that calls cannot do without."""
    row = KINDS[kind]
    if version is not None and row.version_parameter is None:
        context.report.add(
            path, f"providers of kind {kind} have no version in the query: put it into base_url"
        )
    needed = row.unversioned is not None and row.unversioned.search(base_url) is not None
    if needed and version is None and not context.report.has_problem_below(path):
        context.report.add(
            path,
            f"missing, but calls to this base_url need a version: write api_version: {row.sample_version}, "
            "or another that the provider has",
        )


def _check_capabilities(provider: Provider, auth: AuthMode | None, path: Path, context: LoadContext) -> None:
    kind, own, row = provider.kind, provider.own_capabilities, KINDS[provider.kind]
    for capability in row.impossible:
        if getattr(own, capability):
            context.report.add(
                (*path, capability.value),
                f"a provider of kind {kind} cannot do {capability}: set it to false or leave it out",
            )
    for capability in row.impossible_on_vertex if is_on_vertex(row, provider.base_url) else ():
        if getattr(own, capability):
            context.report.add(
                (*path, capability.value),
                f"{capability} does not work on Vertex AI (publishers/google in base_url): "
                "set it to false or leave it out",
            )
    for capability in () if auth is None else AUTHS[auth].impossible - row.impossible:
        if getattr(own, capability):
            context.report.add(
                (*path, capability.value),
                f"{capability} does not work with auth {auth}: set it to false or leave it out",
            )


def _check_chat(provider: Provider, path: Path, context: LoadContext) -> None:
    """Note settings that only one wire has where the provider speaks another."""
    row = KINDS[provider.kind]
    if not of_chat(row):
        kinds = enumerated(kinds_where(of_chat))
        for key in OF_CHAT:
            if key in set_keys(provider):
                context.report.add((*path, key), f"only for the kinds {kinds}, found with kind {row.kind}")
    rare: tuple[tuple[str, Callable[[KindRow], object]], ...] = (
        ("extra_fields", lambda row: row.takes_extra_fields),
        ("speaks", lambda row: row.may_lack_an_api),
        ("chat_template", lambda row: row.has_chat_template),
        ("betas", has_betas),
    )
    for key, fits in rare:
        if key in set_keys(provider) and not fits(row):
            fitting = kinds_where(fits)
            only = f"only for the kind{'s' if len(fitting) > 1 else ''} {enumerated(fitting)}"
            context.report.add((*path, key), f"{only}, found with kind {row.kind}")
