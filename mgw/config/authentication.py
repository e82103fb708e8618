"""Authentication to a provider: which settings belong to which mode (contract 3.7).

What cannot work is a problem at load, and what is left to the environment is filled in.  No file is read
here: those of keys and tokens are the business of :mod:`mgw.credentials`.
"""

from __future__ import annotations

import posixpath
import re
from types import MappingProxyType
from typing import Any, Final

from mgw.config.checks import checked_header_name
from mgw.config.environment import LoadContext
from mgw.config.oauth import OF_GRANT, RESERVED_FIELDS, ClientAuth, Grant, OAuthSettings
from mgw.config.problems import Path
from mgw.config.provider import AuthMode, GooglePlaces, Provider
from mgw.config.settings_base import set_keys
from mgw.nouns.kinds import KINDS, KindRow

GOOGLE_FILE_VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
METADATA_VARIABLE: Final = "GCE_METADATA_HOST"
METADATA_HOST: Final = "169.254.169.254"
"""Where Google's machines find their metadata server, without a name to resolve."""

CREDENTIALS: Final = MappingProxyType(
    {
        "api_key": AuthMode.API_KEY,
        "token_file": AuthMode.TOKEN_FILE,
        "oauth": AuthMode.OAUTH2,
        "service_account_file": AuthMode.SERVICE_ACCOUNT,
    }
)
"""What a provider's credential comes from, and the mode that uses it."""
GOOGLE_MODES: Final = frozenset({AuthMode.SERVICE_ACCOUNT, AuthMode.ADC})

_OF_ACCOUNTS: Final = frozenset({"credentials", "profile"})
"""Settings of ``oauth`` for the account of a subscription."""
_USED: Final = MappingProxyType(
    {
        AuthMode.API_KEY: {"api_key"},
        AuthMode.BEARER: {"api_key"},
        AuthMode.TOKEN_FILE: {"token_file"},
        AuthMode.OAUTH2: {"oauth"},
        AuthMode.SERVICE_ACCOUNT: {"service_account_file", "oauth"},
        AuthMode.ADC: {"service_account_file", "oauth"},
        AuthMode.CLIENT_BEARER: set[str](),
        AuthMode.NONE: set[str](),
    }
)
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(?::[0-9]{1,5})?")


def settle_authentication(provider: Provider, path: Path, context: LoadContext) -> dict[str, Any]:
    """Return the settings of a provider's credential as they are to be used.

    The values are those of its fields: any type.
    """
    stated = _stated(provider, path, context)
    key = provider.api_key
    if provider.api_key_env is not None and not context.is_set(provider.api_key, (*path, "api_key")):
        key = context.key_from(provider.api_key_env, (*path, "api_key_env"))
    auth = provider.auth
    if not context.report.has_problem_below((*path, "auth")):
        if auth is None and provider.pool is None:  # a pool brings its own, and says so
            auth = _implied(stated, path, context)
        elif auth is not None and (auth is not AuthMode.OAUTH2 or provider.pool is None):
            _check_mode(auth, stated, path, context)
    found: dict[str, Any] = {"auth": auth, "api_key": key}
    if provider.oauth is not None:
        found["oauth"] = _settle_oauth(provider.oauth, auth, (*path, "oauth"), context)
    if auth in GOOGLE_MODES:
        found["google"] = _google_places(provider, context)
        _check_google(provider, auth, path, context)
    return found


def _stated(provider: Provider, path: Path, context: LoadContext) -> set[str]:
    """Return which credentials the operator set, be it wrongly."""
    literal = context.is_set(provider.api_key, (*path, "api_key"))
    by_name = context.is_set(provider.api_key_env, (*path, "api_key_env"))
    if literal and by_name:
        context.report.add((*path, "api_key_env"), "api_key is also set: keep only one of them")
    found = {"api_key"} if literal or by_name else set()
    for name in ("token_file", "oauth", "service_account_file"):
        if context.is_set(getattr(provider, name), (*path, name)):
            found.add(name)
    return found


def _implied(stated: set[str], path: Path, context: LoadContext) -> AuthMode | None:
    """Return the mode that the credentials imply; the newer ones are said in words."""
    if "api_key" in stated and "token_file" in stated:
        message = "a provider has one credential: keep either token_file or api_key"
        context.report.add((*path, "token_file"), message)
    elif "oauth" in stated:
        context.report.add((*path, "oauth"), "add auth: oauth2, which uses this block")
    elif "service_account_file" in stated:
        message = "add auth: service_account or adc, which use this file"
        context.report.add((*path, "service_account_file"), message)
    elif "token_file" in stated:
        return AuthMode.TOKEN_FILE
    return AuthMode.API_KEY if "api_key" in stated else None


def _check_mode(auth: AuthMode, stated: set[str], path: Path, context: LoadContext) -> None:
    fault = _fault(auth, stated, context)
    if fault is not None:
        context.report.add((*path, "auth"), fault)


def _fault(auth: AuthMode, stated: set[str], context: LoadContext) -> str | None:
    """Say what keeps a mode and the credentials beside it from working together."""
    others = [name for name in CREDENTIALS if name in stated - _USED[auth]]
    missing = not stated & _USED[auth]
    match auth:
        case AuthMode.CLIENT_BEARER if others:
            return "auth client_bearer sends the client's own token: remove the provider's credential"
        case AuthMode.NONE if others:
            return "auth none sends no credential: remove the provider's key or token"
        case AuthMode.API_KEY | AuthMode.BEARER if others:
            instead = CREDENTIALS[others[0]]
            return f"auth {auth} takes api_key or api_key_env, found {others[0]} (to use it: auth: {instead})"
        case AuthMode.API_KEY | AuthMode.BEARER if missing:
            return f"auth {auth} requires api_key or api_key_env, found neither"
        case AuthMode.SERVICE_ACCOUNT if "service_account_file" not in stated and not others:
            named = context.environ.get(GOOGLE_FILE_VARIABLE)
            needs = f"service_account_file, or the variable {GOOGLE_FILE_VARIABLE}, found neither"
            return None if named else f"auth {auth} requires {needs}"
        case AuthMode.TOKEN_FILE | AuthMode.OAUTH2 if missing and not others:
            (name,) = _USED[auth]
            return f"auth {auth} requires {name}"
    if others:
        used = "service_account_file" if auth in GOOGLE_MODES else next(iter(_USED[auth]))
        other = "the api_key" if others[0] == "api_key" else others[0]
        return f"auth {auth} uses only {used}: remove {other}"
    return None


def _settle_oauth(
    oauth: OAuthSettings, auth: AuthMode | None, path: Path, context: LoadContext
) -> OAuthSettings:
    stated = set_keys(oauth) | {
        name for name in OAuthSettings.model_fields if context.report.has_problem_below((*path, name))
    }
    found: dict[str, Any] = {}
    for name in ("client_id", "client_secret", "refresh_token"):
        by_name = getattr(oauth, f"{name}_env")
        if name in stated and f"{name}_env" in stated:
            context.report.add((*path, f"{name}_env"), f"{name} is also set: keep only one of them")
        elif by_name is not None:
            secret = context.key_from(by_name, (*path, f"{name}_env"))
            found[name] = secret.reveal() if secret is not None and name == "client_id" else secret
    settled = oauth.model_copy(update=found)
    _check_names(settled, path, context)
    if auth in GOOGLE_MODES:
        for name in sorted(stated - {"scopes"}):
            context.report.add((*path, name), f"auth {auth} uses only oauth.scopes: remove it")
        return settled
    if auth is not AuthMode.OAUTH2:
        return settled
    if stated & _OF_ACCOUNTS:
        _check_account(settled, stated, path, context)
        return settled
    grant = _grant(oauth, stated)
    _check_grant(grant, stated, path, context)
    if oauth.client_auth is ClientAuth.BASIC:
        _need(("client_id", "client_secret"), "client_auth basic", stated, path, context)
    return settled.model_copy(update={"grant": grant})


def _check_account(
    oauth: OAuthSettings, stated: set[str] | frozenset[str], path: Path, context: LoadContext
) -> None:
    """Note what keeps the account of a subscription from being used."""
    for name in sorted(stated - _OF_ACCOUNTS):
        message = "subscription tokens come from the credential store: remove this setting"
        context.report.add((*path, name), message)
    for name in sorted(_OF_ACCOUNTS - stated):
        context.report.add((*path, name), "missing: credentials and profile require each other")
    if oauth.profile is not None:
        context.need_profile(oauth.profile, (*path, "profile"))


def _check_names(settled: OAuthSettings, path: Path, context: LoadContext) -> None:
    """Note fields and headers that are not the operator's to set."""
    for name in RESERVED_FIELDS.intersection(settled.extra):
        context.report.add((*path, "extra", name), "this field has its own setting or is set by the grant")
    for name in settled.headers:
        try:
            checked_header_name(name)
        except ValueError as error:
            context.report.add((*path, "headers", name), str(error))


def _grant(oauth: OAuthSettings, stated: set[str] | frozenset[str]) -> Grant:
    if oauth.grant is not None:
        return oauth.grant
    has_refresh_token = "refresh_token" in stated or "refresh_token_env" in stated
    return Grant.REFRESH_TOKEN if has_refresh_token else Grant.CLIENT_CREDENTIALS


NEEDED_BY_GRANT: Final = MappingProxyType(
    {
        Grant.CLIENT_CREDENTIALS: ("client_id", "client_secret"),
        Grant.REFRESH_TOKEN: ("refresh_token", "client_id"),
        Grant.TOKEN_EXCHANGE: ("subject_token_file",),
        Grant.JWT_BEARER: ("assertion_file",),
    }
)


def _check_grant(grant: Grant, stated: set[str] | frozenset[str], path: Path, context: LoadContext) -> None:
    if context.report.has_problem_at((*path, "grant")):
        return
    foreign = [name for name, owner in OF_GRANT.items() if name in stated and owner is not grant]
    for name in foreign:
        message = f"used only with grant {OF_GRANT[name]}, found grant {grant}"
        context.report.add((*path, name), message)
    if foreign:
        return
    _need(("token_url",), "auth oauth2", stated, path, context)
    _need(NEEDED_BY_GRANT[grant], f"grant {grant}", stated, path, context)
    secret = {"client_secret", "client_secret_env"} & stated
    if secret and not {"client_id", "client_id_env"} & stated and grant not in _with_client_id():
        context.report.add((*path, min(secret)), "client_secret requires client_id")


def _with_client_id() -> set[Grant]:
    return {grant for grant, names in NEEDED_BY_GRANT.items() if "client_id" in names}


def _need(
    names: tuple[str, ...], what: str, stated: set[str] | frozenset[str], path: Path, context: LoadContext
) -> None:
    """Note the first of these settings that is not there, in either of its forms."""
    for name in names:
        if name in stated or f"{name}_env" in stated or context.report.has_problem_below((*path, name)):
            continue
        either = f" or {name}_env" if f"{name}_env" in OAuthSettings.model_fields else ""
        context.report.add(path, f"{what} requires {name}{either}")
        return


def _google_places(provider: Provider, context: LoadContext) -> GooglePlaces:
    """Say where Google's credentials may be, in the order of its own libraries."""
    environ = context.environ
    config = environ.get("CLOUDSDK_CONFIG") or posixpath.join(environ.get("HOME") or "/", ".config/gcloud")
    host = environ.get(METADATA_VARIABLE) or METADATA_HOST
    if not _HOST.fullmatch(host):
        context.report.add_environment(METADATA_VARIABLE, "expected a host name, with a port if it has one")
    return GooglePlaces(
        key_file=provider.service_account_file or environ.get(GOOGLE_FILE_VARIABLE) or None,
        setting="service_account_file" if provider.service_account_file else GOOGLE_FILE_VARIABLE,
        well_known_file=posixpath.join(config, "application_default_credentials.json"),
        metadata_host=host,
    )


def refuses_google(row: KindRow) -> bool:
    """Say whether the kind's usual address is one where a token of Google's is worth nothing."""
    return row.base_url is not None and "googleapis.com" not in row.base_url


def _check_google(provider: Provider, auth: AuthMode, path: Path, context: LoadContext) -> None:
    """Refuse addresses where a token of Google's is worth nothing."""
    if provider.kind is None or context.report.has_problem_at((*path, "auth")):
        return
    vendor = KINDS[provider.kind].base_url
    if refuses_google(KINDS[provider.kind]) and provider.base_url in (None, vendor):
        message = f"auth {auth} sends a Google token, which {vendor} does not accept: set base_url"
        context.report.add((*path, "auth"), message)
