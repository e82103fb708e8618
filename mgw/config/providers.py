"""What the settings of one provider ask of one another, and what its kind and the environment add."""

from __future__ import annotations

from typing import Final

from mgw.config.blocks import stated, written
from mgw.config.checks import checked_header_name, checked_provider_name
from mgw.config.environment import Scope
from mgw.config.model import AuthMode, CapabilitiesSettings, Provider, TimeoutsSettings
from mgw.config.paths import Path
from mgw.kinds import KINDS, enumerated, kinds_where, of_chat
from mgw.secret import Secret
from mgw.vocabulary import Kind

OF_CHAT: Final = ("stream_usage", "max_tokens_field")
"""Settings of OpenAI's wire alone."""


def resolve_provider(name: str, provider: Provider, general: TimeoutsSettings, scope: Scope) -> Provider:
    """Fill in what the block of a provider leaves to its surroundings."""
    path: Path = ("providers", name)
    try:
        checked_provider_name(name)
    except ValueError as error:
        scope.report.add(path, str(error))
    auth, key = _credential(provider, path, scope)
    _check_headers(provider, (*path, "headers"), scope)
    if provider.kind is None:
        if not scope.report.spoiled((*path, "kind")):
            scope.report.add((*path, "kind"), f"missing, expected one of {', '.join(Kind)}")
        return provider
    _check_capabilities(provider.kind, provider.own_capabilities, (*path, "capabilities"), scope)
    _check_chat(provider, path, scope)
    base_url = _base_url(provider.kind, provider.base_url, (*path, "base_url"), scope)
    _check_version(provider.kind, base_url, provider.api_version, (*path, "api_version"), scope)
    refuses = base_url == KINDS[provider.kind].base_url
    if auth is AuthMode.NONE and refuses and not scope.report.holds((*path, "auth")):
        fault = f"auth none cannot work at {base_url}, which refuses requests without a credential"
        scope.report.add((*path, "auth"), fault)
    unstated = {
        limit: value
        for limit, value in general
        if limit in written(type(provider.timeouts)) and limit not in stated(provider.timeouts)
    }
    found = {
        "name": name,
        "base_url": base_url,
        "auth": auth,
        "api_key": key,
        "timeouts": provider.timeouts.model_copy(update=unstated),
    }
    return provider.model_copy(update=found)


def _credential(provider: Provider, path: Path, scope: Scope) -> tuple[AuthMode | None, Secret | None]:
    """Settle how the gateway shows itself, and with what key (contract 3.7)."""
    literal = scope.stated(provider.api_key, (*path, "api_key"))
    by_name = scope.stated(provider.api_key_env, (*path, "api_key_env"))
    has_file = scope.stated(provider.token_file, (*path, "token_file"))
    key = provider.api_key
    if literal and by_name:
        scope.report.add((*path, "api_key_env"), "api_key is also set: keep only one of them")
    if provider.api_key_env is not None and not literal:
        key = scope.key_from(provider.api_key_env, (*path, "api_key_env"))
    if scope.report.spoiled((*path, "auth")):
        return None, key
    has_key = literal or by_name
    fault = _fault(provider.auth, has_key=has_key, has_file=has_file)
    if fault is not None:
        scope.report.add((*path, "auth") if provider.auth else (*path, "token_file"), fault)
    if provider.auth is not None:
        return provider.auth, key
    if has_file:
        return AuthMode.TOKEN_FILE, None
    return (AuthMode.API_KEY, key) if has_key else (None, None)


def _fault(auth: AuthMode | None, *, has_key: bool, has_file: bool) -> str | None:
    """Say what keeps a mode and the credentials beside it from working together."""
    match auth:
        case None:
            both = has_key and has_file
            return "a provider has one credential: keep either token_file or the api_key" if both else None
        case AuthMode.API_KEY | AuthMode.BEARER:
            if has_file:
                return (
                    f"auth {auth} takes api_key or api_key_env, found token_file (for that: auth token_file)"
                )
            return None if has_key else f"auth {auth} needs api_key or api_key_env, found neither"
        case AuthMode.TOKEN_FILE:
            if has_key:
                return "auth token_file uses only token_file: remove the api_key"
            return None if has_file else "auth token_file needs token_file, found none"
        case AuthMode.CLIENT_BEARER:
            own = has_key or has_file
            return (
                "auth client_bearer sends the client's own token: remove the provider's credential"
                if own
                else None
            )
        case AuthMode.NONE:
            own = has_key or has_file
            return "auth none sends no credential: remove the provider's key or token" if own else None


def _base_url(kind: Kind, url: str | None, path: Path, scope: Scope) -> str:
    if url is not None:
        return url
    usual = KINDS[kind].base_url
    if usual is None and not scope.report.spoiled(path):
        scope.report.add(
            path, f"missing, expected the address of the host: there is no default for kind {kind}"
        )
    return usual or ""


def _check_version(kind: Kind, base_url: str, version: str | None, path: Path, scope: Scope) -> None:
    """Report a version that would go nowhere, and one that calls cannot do without."""
    row = KINDS[kind]
    if version is not None and row.version_parameter is None:
        scope.report.add(path, f"providers of kind {kind} take no version in the query: put it into base_url")
    needed = row.unversioned is not None and row.unversioned.search(base_url) is not None
    if needed and version is None and not scope.report.spoiled(path):
        scope.report.add(
            path,
            f"missing, but calls to this base_url need a version: write api_version: {row.sample_version}, "
            "or another that the provider has",
        )


def _check_capabilities(kind: Kind, own: CapabilitiesSettings, path: Path, scope: Scope) -> None:
    for capability in KINDS[kind].impossible:
        if getattr(own, capability):
            scope.report.add((*path, capability.value), f"a provider of kind {kind} cannot do {capability}")


def _check_chat(provider: Provider, path: Path, scope: Scope) -> None:
    """Note settings that only OpenAI's wire has where the provider speaks another."""
    row = KINDS[provider.kind]
    if not of_chat(row):
        kinds = enumerated(kinds_where(of_chat))
        for key in OF_CHAT:
            if key in stated(provider):
                scope.report.add((*path, key), f"only for the kinds {kinds}, found with kind {row.kind}")
    if "extra_fields" in stated(provider) and not row.takes_extra_fields:
        kinds = enumerated(kinds_where(lambda row: row.takes_extra_fields))
        message = f"only for the kind {kinds}, found with kind {row.kind}"
        scope.report.add((*path, "extra_fields"), message)


def _check_headers(provider: Provider, path: Path, scope: Scope) -> None:
    edits = provider.headers
    key_header = None if provider.kind is None else KINDS[provider.kind].key_header.decode().lower()
    seen: dict[str, str] = {}
    for name in edits.set:
        here = (*path, "set", name)
        try:
            checked_header_name(name)
        except ValueError as error:
            scope.report.add(here, str(error))
        else:
            if name.lower() == key_header:
                scope.report.add(here, f"{name} carries the provider's key: set its api_key instead")
        if name.lower() in seen:
            scope.report.add(here, f"the same header as {seen[name.lower()]}: keep only one")
        seen[name.lower()] = name
    for name in edits.remove:
        if name in seen or name in edits.forward:
            scope.report.add((*path, "remove"), f"{name} is also set or forwarded: keep only one")
