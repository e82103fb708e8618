"""The settings: one class per block, in which each has its type, its default and its description, once.

An operator writes them so, and the gateway reads them so: the JSON schema and the reference are generated
from these classes, and the loader fills in what the environment and a provider's kind add.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Final

from pydantic import ConfigDict, Field, WithJsonSchema

from mgw.config.blocks import (
    GIB,
    MIB,
    Distinct,
    OrEmpty,
    Settings,
    Stated,
    Unwritten,
    reads,
    required,
    setting,
)
from mgw.config.environment import spool_below
from mgw.config.fields import (
    AbsolutePath,
    Address,
    AliasTarget,
    BaseUrl,
    Bytes,
    Connections,
    DefaultNames,
    DiskBytes,
    DrainSeconds,
    EdgeKey,
    HeaderName,
    HeaderValue,
    Key,
    KindName,
    MemoryBytes,
    Name,
    OnOff,
    ProxyNetwork,
    PublicUrl,
    Seconds,
    Text,
    Variable,
)
from mgw.config.listen import DEFAULT_LISTEN
from mgw.config.paths import AUTH_NOT_AVAILABLE, NOT_AVAILABLE_MESSAGE
from mgw.config.quoting import found_word
from mgw.config.translation import (
    CachingSettings,
    ExtraFieldName,
    MaxTokensFieldName,
    StreamKeepaliveSettings,
    TranslationSettings,
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
    raise ValueError(f"expected one of {', '.join(AuthMode)}, found {found_word(text, modes)}")


AuthName = Annotated[
    AuthMode,
    reads(_auth, f"one of {', '.join(AuthMode)}"),
    WithJsonSchema({"type": "string", "enum": list(AuthMode)}),
]


class TlsSettings(Settings):
    """HTTPS on the listener."""

    cert_file: Text = required("PEM file with the certificate chain (or GATEWAY_TLS_CERT)")
    key_file: Text = required("PEM file with the private key (or GATEWAY_TLS_KEY)")


class UpstreamTimeoutsSettings(Settings):
    """Time limits for a provider, in seconds."""

    connect: Seconds = setting("For connecting to the provider", default=10.0)
    first_byte: Seconds = setting("Until the first byte of the response", default=600.0)
    idle: Seconds = setting("Between two chunks of the response", default=300.0)


class TimeoutsSettings(UpstreamTimeoutsSettings):
    """All time limits, in seconds."""

    write_stall: Seconds = setting("While a response waits and the client reads none of it", default=300.0)
    client_headers: Seconds = setting("Until the headers of a request are complete", default=10.0)
    client_body_idle: Seconds = setting("Between two chunks of a request body", default=60.0)
    client_idle: Seconds = setting("Between two requests on a connection", default=90.0)


class CapabilitiesSettings(Settings):
    """What a provider may be used for; the defaults depend on its kind."""

    text: Stated[OnOff] = setting("Chat completions, messages, responses and content generation")
    image_gen: Stated[OnOff] = setting("Image generation")
    video_gen: Stated[OnOff] = setting("Video generation")
    audio_speech: Stated[OnOff] = setting("Speech synthesis")
    audio_transcribe: Stated[OnOff] = setting("Transcription and translation of audio")
    realtime: Stated[OnOff] = setting("Realtime sessions over WebSockets")

    def of(self, kind: Kind) -> frozenset[Capability]:
        """Return what is on, where what is not stated is as usual for the kind (contract 2.7)."""
        usual = KINDS[kind].capabilities
        return frozenset(
            capability
            for capability in Capability
            if (capability in usual if (own := getattr(self, capability)) is None else own)
        )


class HeadersSettings(Settings):
    """Changes to the headers that are sent upstream."""

    set: OrEmpty[dict[str, HeaderValue]] = Field(
        default={}, repr=False, description="Headers that are always sent, in place of the client's."
    )
    """Names as spelled in the file; the values may be secrets and do not print."""
    remove: Distinct[HeaderName] = setting("Headers of the client that are not sent upstream", default=())
    forward: Distinct[HeaderName] = setting(
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

    name: Unwritten[str] = ""
    """The key of its block."""
    kind: KindName = required("Which API the provider has")
    base_url: BaseUrl = required(
        "The provider's address with the version prefix; the first-party kinds default to their vendor's"
    )
    """Without a trailing ``/``."""
    api_version: Stated[Name] = setting(
        "Version of the API, sent in the query of each call unless the client sends one; only for kinds "
        "whose hosts take it there"
    )
    auth: Stated[AuthName] = setting(
        "How the gateway authenticates to the provider; none sends no credential"
    )
    """``None``: the client's own credential."""
    api_key: Stated[Key] = setting("The key itself; use api_key_env to keep it out of this file")
    api_key_env: Stated[Variable] = setting("The environment variable that holds the key")
    token_file: Stated[Text] = setting("A file with an access token that another program keeps fresh")
    own_capabilities: OrEmpty[CapabilitiesSettings] = setting(
        "What the provider may be used for", default=CapabilitiesSettings(), key="capabilities"
    )
    models: Distinct[Name] = setting("Model ids that GET /v1/models lists for the provider", default=())
    headers: OrEmpty[HeadersSettings] = setting(
        "Changes to the headers that are sent upstream", default=HeadersSettings()
    )
    ca_file: Stated[Text] = setting("PEM file of certificates to trust instead of the system's")
    max_connections: Stated[Connections] = setting(
        "Maximum number of connections to the provider; no limit by default"
    )
    timeouts: OrEmpty[UpstreamTimeoutsSettings] = setting(
        "Time limits for this provider, instead of the general ones", default=UpstreamTimeoutsSettings()
    )
    stream_usage: OnOff = setting(
        f"Whether translated chat streams ask for usage ({_CHAT_KINDS})", default=True
    )
    own_max_tokens_field: Stated[MaxTokensFieldName] = setting(
        "Name of the field that limits the output in translated chat requests",
        shown=_max_tokens_fields(),
        key="max_tokens_field",
    )
    extra_fields: Distinct[ExtraFieldName] = setting(
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


class EdgeAuthSettings(Settings):
    """Who may use the gateway."""

    enabled: OnOff = setting("Whether clients need a key", default=False)
    keys: Distinct[EdgeKey] = setting("Accepted keys", default=())
    """Those of the environment included."""
    keys_env: Stated[Variable] = setting(
        "The environment variable that holds accepted keys, separated by commas or spaces"
    )


class JsonlSettings(Settings):
    """Usage events as JSON lines."""

    model_config = ConfigDict(json_schema_extra={"required": ["output"]})

    output: Text = required("stdout, stderr or the path of a file")


class HooksSettings(Settings):
    """Where usage events are sent."""

    jsonl: JsonlSettings | None = setting("Usage events as JSON lines")


class SpoolSettings(Settings):
    """Limits on the request bodies that the gateway stores."""

    dir: AbsolutePath = setting(
        "Directory for large request bodies", default=spool_below({}), shown="spool below the state directory"
    )
    body_memory: MemoryBytes = setting("Total size of request bodies in memory, in bytes", default=512 * MIB)
    body_disk: DiskBytes = setting("Total size of request bodies on disk, in bytes", default=4 * GIB)


class RoutesSettings(Settings):
    """Which of the gateway's routes are served."""

    deny: Distinct[Name] = setting(
        "Routes, groups of routes and families, by name, that answer 404", default=()
    )


class HealthChecksSettings(Settings):
    """Health checks of the providers on GET /v1/health/providers."""

    enabled: OnOff = setting("Whether the route is served", default=False)
    timeout: Seconds = setting("Time limit for each provider's probe, in seconds", default=5.0)


class Config(Settings):
    """Configuration of mgw, the multi-dialect model gateway."""

    model_config = ConfigDict(json_schema_extra={"required": ["providers"]})

    listen: Address = setting(
        '"127.0.0.1:8787", ":8787", "[::1]:8787" or a Twisted endpoint string', default=DEFAULT_LISTEN
    )
    tls: TlsSettings | None = setting("HTTPS on the listener")
    edge_auth: OrEmpty[EdgeAuthSettings] = setting("Who may use the gateway", default=EdgeAuthSettings())
    public_url: Stated[PublicUrl] = setting(
        "The gateway's address as clients see it; by default it is taken from each request"
    )
    """Without a trailing ``/``."""
    trusted_proxies: Distinct[ProxyNetwork] = setting(
        "IP addresses and networks whose X-Forwarded-Proto is trusted", default=(), shown="none"
    )
    """An IPv4 network is never written as an IPv6 one."""
    rewrite_urls: OnOff = setting(
        "Whether a provider's addresses in its responses are replaced with the gateway's", default=True
    )
    routes: OrEmpty[RoutesSettings] = setting(
        "Which of the gateway's routes are served", default=RoutesSettings()
    )
    health_checks: OrEmpty[HealthChecksSettings] = setting(
        "Health checks of the providers on GET /v1/health/providers", default=HealthChecksSettings()
    )
    providers: OrEmpty[dict[str, Provider]] = setting("The providers, by name", default={})
    defaults: OrEmpty[DefaultNames] = setting(
        "Provider for models without a provider prefix, for each family of clients", default={}
    )
    aliases: OrEmpty[dict[str, AliasTarget]] = setting("Other names for <provider>/<model>", default={})
    hooks: OrEmpty[HooksSettings] = setting("Where usage events are sent", default=HooksSettings())
    max_body_bytes: Bytes = setting("Largest request body in bytes, decompressed", default=32 * MIB)
    max_clients: Stated[Connections] = setting(
        "Maximum number of client connections", shown="nearly half of the process's limit of open files"
    )
    timeouts: OrEmpty[TimeoutsSettings] = setting("Time limits in seconds", default=TimeoutsSettings())
    drain_seconds: DrainSeconds = setting(
        "How long running requests may continue when the gateway stops, in seconds", default=30.0
    )
    spool: OrEmpty[SpoolSettings] = setting(
        "Limits on the request bodies that the gateway stores", default=SpoolSettings()
    )
    observe_dropped_fields: OnOff = setting(
        "Whether responses and usage events name the fields that a translation dropped", default=False
    )
    translation: OrEmpty[TranslationSettings] = setting(
        "How requests are translated into another dialect", default=TranslationSettings()
    )
    caching: OrEmpty[CachingSettings] = setting("Prompt caching", default=CachingSettings())
    stream_keepalive: StreamKeepaliveSettings | None = setting(
        "Keep-alives in streams while the upstream is silent; off if absent"
    )
