"""The settings of one provider, what they ask of one another, and what its kind and the environment add."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Final

from pydantic import ConfigDict, Field, WithJsonSchema

from mgw.config.checks import checked_header_name, checked_provider_name
from mgw.config.environment import LoadContext
from mgw.config.field_types import (
    BaseUrl,
    Connections,
    HeaderName,
    HeaderValue,
    Key,
    KindName,
    Name,
    OnOff,
    Seconds,
    Text,
    Variable,
)
from mgw.config.problems import AUTH_NOT_AVAILABLE, NOT_AVAILABLE_MESSAGE, Path
from mgw.config.quoting import describe_word
from mgw.config.settings_base import (
    EmptyIfNull,
    NotInFile,
    Omittable,
    Settings,
    UniqueList,
    file_settings,
    parse_with,
    required,
    set_keys,
    setting,
)
from mgw.config.translation import (
    ExtraFieldName,
    MaxTokensFieldName,
)
from mgw.kinds import KINDS, enumerated, kinds_where, of_chat
from mgw.secret import Secret
from mgw.vocabulary import Capability, Kind, MaxTokensField


class AuthMode(StrEnum):
    """How the gateway shows itself to a provider (contract 3.7)."""

    API_KEY = "api_key"
    """A static key in the kind's own header."""
    BEARER = "bearer"
    """A static token as ``Authorization: Bearer``."""
    CLIENT_BEARER = "client_bearer"
    """The client's own bearer token."""
    TOKEN_FILE = "token_file"  # noqa: S105 (the name of a mode)
    """A bearer token read from a file that somebody else renews."""
    NONE = "none"
    """The provider wants no credential, and none is sent."""


def _auth(text: str) -> AuthMode:
    modes = {mode.value: mode for mode in AuthMode}
    if text in modes:
        return modes[text]
    if text in AUTH_NOT_AVAILABLE:
        raise ValueError(f"auth {text}: {NOT_AVAILABLE_MESSAGE}")
    raise ValueError(f"expected one of {', '.join(AuthMode)}, found {describe_word(text, modes)}")


AuthName = Annotated[
    AuthMode,
    parse_with(_auth, f"one of {', '.join(AuthMode)}"),
    WithJsonSchema({"type": "string", "enum": list(AuthMode)}),
]


class UpstreamTimeoutsSettings(Settings):
    """Time limits for a provider, in seconds."""

    connect: Seconds = setting("For connecting to the provider", default=10.0)
    first_byte: Seconds = setting("Until the first byte of the response", default=600.0)
    idle: Seconds = setting("Between two chunks of the response", default=300.0)


class CapabilitiesSettings(Settings):
    """What a provider may be used for; the defaults depend on its kind."""

    text: Omittable[OnOff] = setting("Chat completions, messages, responses and content generation")
    image_gen: Omittable[OnOff] = setting("Image generation")
    video_gen: Omittable[OnOff] = setting("Video generation")
    audio_speech: Omittable[OnOff] = setting("Speech synthesis")
    audio_transcribe: Omittable[OnOff] = setting("Transcription and translation of audio")
    realtime: Omittable[OnOff] = setting("Realtime sessions over WebSockets")

    def of(self, kind: Kind) -> frozenset[Capability]:
        """Return what is on, where what the file does not set is as usual for the kind (contract 2.7)."""
        usual = KINDS[kind].capabilities
        return frozenset(
            capability
            for capability in Capability
            if (capability in usual if (own := getattr(self, capability)) is None else own)
        )


class HeadersSettings(Settings):
    """Changes to the headers that are sent upstream."""

    set: EmptyIfNull[dict[str, HeaderValue]] = Field(
        default={}, repr=False, description="Headers that are always sent, in place of the client's."
    )
    """Names as spelled in the file; the values may be secrets and do not print."""
    remove: UniqueList[HeaderName] = setting("Headers of the client that are not sent upstream", default=())
    forward: UniqueList[HeaderName] = setting(
        "Headers of the client that are sent upstream in addition to the usual ones", default=()
    )


def _max_tokens_fields() -> str:
    """Say which kinds have which field by default."""
    found: dict[MaxTokensField, list[Kind]] = {}
    for kind in kinds_where(of_chat):
        found.setdefault(KINDS[kind].max_tokens_field, []).append(kind)
    return ", ".join(f"{name} for {enumerated(kinds)}" for name, kinds in found.items())


_CHAT_KINDS: Final = ", ".join(kinds_where(of_chat))
_EXTRA_FIELDS_KINDS: Final = ", ".join(kinds_where(lambda row: row.takes_extra_fields))


class Provider(Settings):
    """One provider."""

    model_config = ConfigDict(json_schema_extra={"required": ["kind"]})

    name: NotInFile[str] = ""
    """The key of its block."""
    kind: KindName = required("Which API the provider has")
    base_url: BaseUrl = required(
        "The provider's address with the version prefix; the first-party kinds default to their vendor's"
    )
    """Without a trailing ``/``."""
    api_version: Omittable[Name] = setting(
        "Version of the API, sent in the query of each call unless the client sends one; only for kinds "
        "whose hosts take it there"
    )
    auth: Omittable[AuthName] = setting(
        "How the gateway authenticates to the provider; none sends no credential"
    )
    """``None``: the client's own credential."""
    api_key: Omittable[Key] = setting("The key itself; use api_key_env to keep it out of this file")
    api_key_env: Omittable[Variable] = setting("The environment variable that holds the key")
    token_file: Omittable[Text] = setting("A file with an access token that another program keeps fresh")
    own_capabilities: EmptyIfNull[CapabilitiesSettings] = setting(
        "What the provider may be used for", default=CapabilitiesSettings(), key="capabilities"
    )
    models: UniqueList[Name] = setting("Model ids that GET /v1/models lists for the provider", default=())
    headers: EmptyIfNull[HeadersSettings] = setting(
        "Changes to the headers that are sent upstream", default=HeadersSettings()
    )
    ca_file: Omittable[Text] = setting("PEM file of certificates to trust instead of the system's")
    max_connections: Omittable[Connections] = setting(
        "Maximum number of connections to the provider; no limit by default"
    )
    timeouts: EmptyIfNull[UpstreamTimeoutsSettings] = setting(
        "Time limits for this provider, instead of the general ones", default=UpstreamTimeoutsSettings()
    )
    stream_usage: OnOff = setting(
        f"Whether translated chat streams ask for usage ({_CHAT_KINDS})", default=True
    )
    own_max_tokens_field: Omittable[MaxTokensFieldName] = setting(
        "Name of the field that limits the output in translated chat requests",
        shown=_max_tokens_fields(),
        key="max_tokens_field",
    )
    extra_fields: UniqueList[ExtraFieldName] = setting(
        f"Fields beyond OpenAI's own API that translated chat requests may contain ({_EXTRA_FIELDS_KINDS})",
        default=(),
        shown="none",
    )

    @property
    def key(self) -> Secret | None:
        """The static key or token of ``API_KEY`` and ``BEARER``."""
        return self.api_key

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """Those that are on."""
        return self.own_capabilities.of(self.kind)

    @property
    def max_tokens_field(self) -> MaxTokensField:
        """The field of an answer's limit in translated chat requests; other families have no choice."""
        return self.own_max_tokens_field or KINDS[self.kind].max_tokens_field


OF_CHAT: Final = ("stream_usage", "max_tokens_field")
"""Settings of OpenAI's wire alone."""


def normalize_provider(
    name: str, provider: Provider, general: UpstreamTimeoutsSettings, context: LoadContext
) -> Provider:
    """Fill in what the block of a provider leaves to its kind, the general settings and the environment."""
    path: Path = ("providers", name)
    try:
        checked_provider_name(name)
    except ValueError as error:
        context.report.add(path, str(error))
    auth, key = _credential(provider, path, context)
    _check_headers(provider, (*path, "headers"), context)
    if provider.kind is None:
        if not context.report.has_problem_below((*path, "kind")):
            context.report.add((*path, "kind"), f"missing, expected one of {', '.join(Kind)}")
        return provider
    _check_capabilities(provider.kind, provider.own_capabilities, (*path, "capabilities"), context)
    _check_chat(provider, path, context)
    base_url = _base_url(provider.kind, provider.base_url, (*path, "base_url"), context)
    _check_version(provider.kind, base_url, provider.api_version, (*path, "api_version"), context)
    refuses = base_url == KINDS[provider.kind].base_url
    if auth is AuthMode.NONE and refuses and not context.report.has_problem_at((*path, "auth")):
        fault = f"auth none cannot work at {base_url}, which refuses requests without a credential"
        context.report.add((*path, "auth"), fault)
    unstated = {
        limit: value
        for limit, value in general
        if limit in file_settings(type(provider.timeouts)) and limit not in set_keys(provider.timeouts)
    }
    found = {
        "name": name,
        "base_url": base_url,
        "auth": auth,
        "api_key": key,
        "timeouts": provider.timeouts.model_copy(update=unstated),
    }
    return provider.model_copy(update=found)


def _credential(
    provider: Provider, path: Path, context: LoadContext
) -> tuple[AuthMode | None, Secret | None]:
    """Settle how the gateway shows itself, and with what key (contract 3.7)."""
    literal = context.is_set(provider.api_key, (*path, "api_key"))
    by_name = context.is_set(provider.api_key_env, (*path, "api_key_env"))
    has_file = context.is_set(provider.token_file, (*path, "token_file"))
    key = provider.api_key
    if literal and by_name:
        context.report.add((*path, "api_key_env"), "api_key is also set: keep only one of them")
    if provider.api_key_env is not None and not literal:
        key = context.key_from(provider.api_key_env, (*path, "api_key_env"))
    if context.report.has_problem_below((*path, "auth")):
        return None, key
    has_key = literal or by_name
    fault = _fault(provider.auth, has_key=has_key, has_file=has_file)
    if fault is not None:
        context.report.add((*path, "auth") if provider.auth else (*path, "token_file"), fault)
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


def _base_url(kind: Kind, url: str | None, path: Path, context: LoadContext) -> str:
    if url is not None:
        return url
    usual = KINDS[kind].base_url
    if usual is None and not context.report.has_problem_below(path):
        context.report.add(
            path, f"missing, expected the address of the host: there is no default for kind {kind}"
        )
    return usual or ""


def _check_version(kind: Kind, base_url: str, version: str | None, path: Path, context: LoadContext) -> None:
    """Report a version that would go nowhere, and one that calls cannot do without."""
    row = KINDS[kind]
    if version is not None and row.version_parameter is None:
        context.report.add(
            path, f"providers of kind {kind} take no version in the query: put it into base_url"
        )
    needed = row.unversioned is not None and row.unversioned.search(base_url) is not None
    if needed and version is None and not context.report.has_problem_below(path):
        context.report.add(
            path,
            f"missing, but calls to this base_url need a version: write api_version: {row.sample_version}, "
            "or another that the provider has",
        )


def _check_capabilities(kind: Kind, own: CapabilitiesSettings, path: Path, context: LoadContext) -> None:
    for capability in KINDS[kind].impossible:
        if getattr(own, capability):
            context.report.add((*path, capability.value), f"a provider of kind {kind} cannot do {capability}")


def _check_chat(provider: Provider, path: Path, context: LoadContext) -> None:
    """Note settings that only OpenAI's wire has where the provider speaks another."""
    row = KINDS[provider.kind]
    if not of_chat(row):
        kinds = enumerated(kinds_where(of_chat))
        for key in OF_CHAT:
            if key in set_keys(provider):
                context.report.add((*path, key), f"only for the kinds {kinds}, found with kind {row.kind}")
    if "extra_fields" in set_keys(provider) and not row.takes_extra_fields:
        kinds = enumerated(kinds_where(lambda row: row.takes_extra_fields))
        message = f"only for the kind {kinds}, found with kind {row.kind}"
        context.report.add((*path, "extra_fields"), message)


def _check_headers(provider: Provider, path: Path, context: LoadContext) -> None:
    edits = provider.headers
    key_header = None if provider.kind is None else KINDS[provider.kind].key_header.decode().lower()
    seen: dict[str, str] = {}
    for name in edits.set:
        here = (*path, "set", name)
        try:
            checked_header_name(name)
        except ValueError as error:
            context.report.add(here, str(error))
        else:
            if name.lower() == key_header:
                context.report.add(here, f"{name} carries the provider's key: set its api_key instead")
        if name.lower() in seen:
            context.report.add(here, f"the same header as {seen[name.lower()]}: keep only one")
        seen[name.lower()] = name
    for name in edits.remove:
        if name in seen or name in edits.forward:
            context.report.add((*path, "remove"), f"{name} is also set or forwarded: keep only one")
