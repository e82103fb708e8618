"""Authentication to a provider: which settings belong to which mode (contract 3.7).

What cannot work is a problem at load, and what is left to the environment is filled in.  No file is read
here: those of keys and tokens are the business of :mod:`mgw.credentials`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from mgw.config.auths import (
    AUTHS,
    CREDENTIALS,
    GOOGLE_FILE_VARIABLE,
    AuthMode,
    GooglePlaces,
    forms,
    keys_of,
)
from mgw.config.aws import settle_aws
from mgw.config.checks import checked_header_name
from mgw.config.environment import LoadContext
from mgw.config.oauth import (
    IN_PLACE_OF_FILES,
    OF_ASSERTIONS,
    OF_GRANT,
    RESERVED_FIELDS,
    ClientAuth,
    Grant,
    OAuthSettings,
    forms_of,
)
from mgw.config.problems import Path
from mgw.config.provider import Provider
from mgw.config.settings_base import block_in, set_keys
from mgw.nouns.kinds import KINDS, KindRow
from mgw.nouns.secret import Secret

METADATA_VARIABLE: Final = "GCE_METADATA_HOST"
METADATA_HOST: Final = "169.254.169.254"
"""Where Google's machines find their metadata server, without a name to resolve."""

GOOGLE_MODES: Final = frozenset({AuthMode.SERVICE_ACCOUNT, AuthMode.ADC})

_OF_ACCOUNTS: Final = frozenset({"credentials", "profile"})
"""Settings of ``oauth`` for the account of a subscription."""
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(?::[0-9]{1,5})?")


def settle_authentication(provider: Provider, path: Path, context: LoadContext) -> dict[str, Any]:
    """Return the settings of a provider's credential as they are to be used.

    The values are those of its fields: any type.
    """
    stated = _stated(provider, path, context)
    keys = _keys(provider, path, context)
    auth = provider.auth
    if not context.report.has_problem_below((*path, "auth")):
        if auth is None and provider.pool is None:  # a pool brings its own, and says so
            auth = _implied(stated, path, context)
        elif auth is not None and (auth is not AuthMode.OAUTH2 or provider.pool is None):
            _check_mode(auth, stated, path, context)
    found: dict[str, Any] = {"auth": auth, **keys}
    if provider.oauth is not None:
        found["oauth"] = _settle_oauth(provider.oauth, auth, (*path, "oauth"), context)
    if auth in GOOGLE_MODES:
        found["google"] = _google_places(provider, context)
        _check_google(provider, auth, path, context)
    _check_kind(provider, auth, path, context)
    return found | settle_aws(provider, auth, path, context)


def _check_kind(provider: Provider, auth: AuthMode | None, path: Path, context: LoadContext) -> None:
    """Note what the hosts of a kind cannot be sent, or must not."""
    if provider.kind is None or context.report.has_problem_below((*path, "auth")):
        return
    row = KINDS[provider.kind]
    excused = provider.pool is not None or any(
        context.report.has_problem_below((*path, key)) for key in keys_of(CREDENTIALS)
    )
    if row.needs_credential and auth is None and not excused:
        wanted = "auth: aws, or api_key or api_key_env" if row.takes_keys else "auth"
        reason = f"credentials of clients are not sent to hosts of kind {row.kind}"
        context.report.add((*path, "auth"), f"missing, expected {wanted}: {reason}")
    if not row.takes_keys and auth is AuthMode.API_KEY:
        message = f"hosts of kind {row.kind} take tokens, not API keys: expected auth: adc or another"
        context.report.add((*path, "auth"), message)


def _stated(provider: Provider, path: Path, context: LoadContext) -> dict[str, str]:
    """Return which credentials the operator set, be it wrongly, and the key of each."""
    found: dict[str, str] = {}
    for name in CREDENTIALS:
        keys = [key for key in forms(name) if context.is_set(getattr(provider, key), (*path, key))]
        for other in keys[1:]:
            context.report.add((*path, other), f"{keys[0]} is also set: keep only one of them")
        if keys:
            found[name] = keys[0]
    return found


def _keys(provider: Provider, path: Path, context: LoadContext) -> dict[str, Secret | None]:
    """Return the credentials that variables hold."""
    found: dict[str, Secret | None] = {}
    for name in CREDENTIALS:
        by_name = f"{name}_env"
        variable = getattr(provider, by_name, None)
        if variable is not None and not context.is_set(getattr(provider, name), (*path, name)):
            found[name] = context.key_from(variable, (*path, by_name))
    return found


def _implied(stated: Mapping[str, str], path: Path, context: LoadContext) -> AuthMode | None:
    """Return the mode that the credentials imply; the newer ones are said in words."""
    implied = [name for name in stated if AUTHS[CREDENTIALS[name]].is_implied]
    newer = next((name for name in stated if name not in implied), None)
    if len(implied) > 1:
        message = f"a provider has one credential: keep either {implied[1]} or {implied[0]}"
        context.report.add((*path, stated[implied[1]]), message)
    elif newer is not None:
        context.report.add((*path, stated[newer]), _asks_for_auth(newer))
    return CREDENTIALS[implied[0]] if implied else None


def _asks_for_auth(name: str) -> str:
    """Say which values of ``auth`` use a credential that stands without one."""
    modes = [mode for mode, row in AUTHS.items() if name in row.uses]
    is_block = block_in(Provider.model_fields[name].annotation) is not None
    noun = "block" if is_block else "file" if name.endswith("_file") else "setting"
    return f"add auth: {' or '.join(modes)}, which use{'s' if len(modes) == 1 else ''} this {noun}"


def _check_mode(auth: AuthMode, stated: Mapping[str, str], path: Path, context: LoadContext) -> None:
    row = AUTHS[auth]
    others = [name for name in stated if name not in (*row.uses, *row.takes)]
    fault = _superfluous(auth, others[0]) if others else _missing(auth, stated, context)
    if fault is not None:
        context.report.add((*path, "auth"), fault)


def _superfluous(auth: AuthMode, other: str) -> str:
    """Say that a mode cannot use a credential beside it."""
    row = AUTHS[auth]
    if row.alone:
        return f"auth {auth} {row.alone}"
    used = keys_of(row.uses)
    if len(row.uses) == 1 < len(used):
        instead = CREDENTIALS[other]
        return f"auth {auth} takes {' or '.join(used)}, found {forms(other)[0]} (to use it: auth: {instead})"
    article = "the " if len(forms(other)) > 1 else ""
    only = " and ".join(" or ".join(forms(name)) for name in row.uses)
    return f"auth {auth} uses only {only}: remove {article}{forms(other)[0]}"


def _missing(auth: AuthMode, stated: Mapping[str, str], context: LoadContext) -> str | None:
    """Say what a mode cannot do without."""
    row = AUTHS[auth]
    missing = next((name for name in row.uses if name not in stated), None)
    if missing is None or not row.is_needed:
        return None
    wanted = " or ".join(forms(missing))
    if row.variable is not None:
        if context.environ.get(row.variable):
            return None
        wanted += f", or the variable {row.variable}"
    return f"auth {auth} requires {wanted}{', found neither' if ' or ' in wanted else ''}"


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
    found["extra"] = _extra(oauth, (*path, "extra"), context)
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


def check_client_tokens(
    providers: Mapping[str, Provider], issuers: Collection[object], context: LoadContext
) -> None:
    """Note providers that get tokens in exchange for those of clients, where no client can have one.

    :param issuers: the entries of issuers whose tokens are accepted.
    """
    if issuers or context.report.has_problem_below(("edge_auth", "jwt")):
        return
    for name, provider in providers.items():
        for setting in IN_PLACE_OF_FILES.values():
            if provider.oauth is not None and getattr(provider.oauth, setting) is not None:
                message = "requires edge_auth.jwt, which says which tokens of clients are accepted"
                context.report.add(("providers", name, "oauth", setting), message)


def _extra(oauth: OAuthSettings, path: Path, context: LoadContext) -> dict[str, str]:
    """Return the further form fields with their values."""
    found: dict[str, str] = {}
    for name, value in oauth.extra.items():
        if isinstance(value, str):
            found[name] = value
        else:
            secret = context.text_from(value.variable, (*path, name), str)
            found[name] = "" if secret is None else secret.reveal()
    return found


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
    has_own = set(OF_ASSERTIONS) if settled.assertion_file is not None else set()
    for name in (RESERVED_FIELDS | has_own).intersection(settled.extra):
        context.report.add((*path, "extra", name), "this field has its own setting or is set by the grant")
    for name in settled.headers:
        try:
            checked_header_name(name)
        except ValueError as error:
            context.report.add((*path, "headers", name), str(error))


def _grant(oauth: OAuthSettings, stated: set[str] | frozenset[str]) -> str:
    if oauth.grant is not None:
        return oauth.grant
    has_refresh_token = "refresh_token" in stated or "refresh_token_env" in stated
    return Grant.REFRESH_TOKEN if has_refresh_token else Grant.CLIENT_CREDENTIALS


NEEDED_BY_GRANT: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        Grant.CLIENT_CREDENTIALS: ("client_id", "client_secret"),
        Grant.REFRESH_TOKEN: ("refresh_token", "client_id"),
        Grant.TOKEN_EXCHANGE: ("subject_token_file",),
        Grant.JWT_BEARER: ("assertion_file",),
    }
)


def _check_grant(grant: str, stated: set[str] | frozenset[str], path: Path, context: LoadContext) -> None:
    for file, instead in IN_PLACE_OF_FILES.items():
        if {file, instead} <= stated:
            context.report.add((*path, instead), f"{file} is also set: keep only one of them")
    if context.report.has_problem_at((*path, "grant")):
        return
    foreign = [name for name, owners in OF_GRANT.items() if name in stated and grant not in owners]
    for name in foreign:
        message = f"used only with grant {' or '.join(OF_GRANT[name])}, found grant {grant}"
        context.report.add((*path, name), message)
    if foreign:
        return
    _need(("token_url",), "auth oauth2", stated, path, context)
    secret = {"client_secret", "client_secret_env"} & stated
    if grant == Grant.CLIENT_CREDENTIALS and "assertion_file" in stated:
        _need(("client_id",), "assertion_file", stated, path, context)
        if secret:
            message = "assertion_file takes the place of the secret: keep only one of them"
            context.report.add((*path, min(secret)), message)
        return
    _need(NEEDED_BY_GRANT.get(grant, ()), f"grant {grant}", stated, path, context)
    if secret and not {"client_id", "client_id_env"} & stated and grant not in _with_client_id():
        context.report.add((*path, min(secret)), "client_secret requires client_id")


def _with_client_id() -> set[str]:
    return {grant for grant, names in NEEDED_BY_GRANT.items() if "client_id" in names}


def _need(
    names: tuple[str, ...], what: str, stated: set[str] | frozenset[str], path: Path, context: LoadContext
) -> None:
    """Note the first of these settings that is not there, in any of its forms."""
    for name in names:
        forms = forms_of(name)
        if not any(form in stated or context.report.has_problem_below((*path, form)) for form in forms):
            context.report.add(path, f"{what} requires {' or '.join(forms)}")
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
