"""What an operator may write: the structure of the file, one class per block.

The JSON schema is generated from these classes, and editors show a field's description.  Every field is
optional here; required fields are checked where the settings are resolved, so that one mistake does not hide
another.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from mgw.config.blocks import Written
from mgw.config.fields import (
    AbsolutePath,
    Address,
    AliasTarget,
    AuthName,
    BaseUrl,
    Bytes,
    Connections,
    DefaultNames,
    DiskBytes,
    DrainSeconds,
    EdgeKey,
    ExtraFieldName,
    HeaderName,
    HeaderValue,
    Key,
    KindName,
    MaxTokensFieldName,
    MemoryBytes,
    Name,
    OnOff,
    ProxyNetwork,
    PublicUrl,
    Seconds,
    Stated,
    Text,
    Variable,
)
from mgw.config.written_translation import WrittenCaching, WrittenStreamKeepalive, WrittenTranslation
from mgw.kinds import KINDS, enumerated, kinds_where, of_chat
from mgw.vocabulary import Kind, MaxTokensField


class WrittenTls(Written):
    """HTTPS on the listener."""

    cert_file: Stated[Text] = Field(
        default=None, description="PEM file with the certificate chain (or GATEWAY_TLS_CERT)."
    )
    key_file: Stated[Text] = Field(
        default=None, description="PEM file with the private key (or GATEWAY_TLS_KEY)."
    )


class WrittenUpstreamTimeouts(Written):
    """Time limits for a provider, in seconds."""

    connect: Stated[Seconds] = Field(default=None, description="For connecting to the provider; default 10.")
    first_byte: Stated[Seconds] = Field(
        default=None, description="Until the first byte of the response; default 600."
    )
    idle: Stated[Seconds] = Field(
        default=None, description="Between two chunks of the response; default 300."
    )


class WrittenTimeouts(WrittenUpstreamTimeouts):
    """All time limits, in seconds."""

    write_stall: Stated[Seconds] = Field(
        default=None, description="While a response waits and the client reads none of it; default 300."
    )
    client_headers: Stated[Seconds] = Field(
        default=None, description="Until the headers of a request are complete; default 10."
    )
    client_body_idle: Stated[Seconds] = Field(
        default=None, description="Between two chunks of a request body; default 60."
    )
    client_idle: Stated[Seconds] = Field(
        default=None, description="Between two requests on a connection; default 90."
    )


class WrittenCapabilities(Written):
    """What a provider may be used for; the defaults depend on its kind."""

    text: Stated[OnOff] = Field(
        default=None, description="Chat completions, messages, responses and content generation."
    )
    image_gen: Stated[OnOff] = Field(default=None, description="Image generation.")
    video_gen: Stated[OnOff] = Field(default=None, description="Video generation.")
    audio_speech: Stated[OnOff] = Field(default=None, description="Speech synthesis.")
    audio_transcribe: Stated[OnOff] = Field(
        default=None, description="Transcription and translation of audio."
    )
    realtime: Stated[OnOff] = Field(default=None, description="Realtime sessions over WebSockets.")


class WrittenHeaders(Written):
    """Changes to the headers that are sent upstream."""

    set: dict[str, HeaderValue] | None = Field(
        default=None, description="Headers that are always sent, in place of the client's."
    )
    remove: Stated[list[HeaderName]] = Field(
        default=None, description="Headers of the client that are not sent upstream."
    )
    forward: Stated[list[HeaderName]] = Field(
        default=None,
        description="Headers of the client that are sent upstream in addition to the usual ones.",
    )


def _max_tokens_fields() -> str:
    """Say which kinds have which field by default."""
    found: dict[MaxTokensField, list[Kind]] = {}
    for kind in kinds_where(of_chat):
        found.setdefault(KINDS[kind].max_tokens_field, []).append(kind)
    return ", ".join(f"{name} for {enumerated(kinds)}" for name, kinds in found.items())


_MAX_TOKENS_FIELDS: Final = _max_tokens_fields()


class WrittenProvider(Written):
    """One provider."""

    model_config = ConfigDict(json_schema_extra={"required": ["kind"]})

    kind: Stated[KindName] = Field(default=None, description="Which API the provider has.")
    base_url: Stated[BaseUrl] = Field(
        default=None,
        description="The provider's address with the version prefix; the first-party kinds default to their "
        "vendor's.",
    )
    api_version: Stated[Name] = Field(
        default=None,
        description="Version of the API, sent in the query of each call unless the client sends one; only "
        "for kinds whose hosts take it there.",
    )
    auth: Stated[AuthName] = Field(
        default=None, description="How the gateway authenticates to the provider; none sends no credential."
    )
    api_key: Stated[Key] = Field(
        default=None, description="The key itself; use api_key_env to keep it out of this file."
    )
    api_key_env: Stated[Variable] = Field(
        default=None, description="The environment variable that holds the key."
    )
    token_file: Stated[Text] = Field(
        default=None, description="A file with an access token that another program keeps fresh."
    )
    capabilities: WrittenCapabilities | None = Field(
        default=None, description="What the provider may be used for."
    )
    models: Stated[list[Name]] = Field(
        default=None, description="Model ids that GET /v1/models lists for the provider."
    )
    headers: WrittenHeaders | None = Field(
        default=None, description="Changes to the headers that are sent upstream."
    )
    ca_file: Stated[Text] = Field(
        default=None, description="PEM file of certificates to trust instead of the system's."
    )
    max_connections: Stated[Connections] = Field(
        default=None, description="Maximum number of connections to the provider; no limit by default."
    )
    timeouts: WrittenUpstreamTimeouts | None = Field(
        default=None, description="Time limits for this provider, instead of the general ones."
    )
    stream_usage: Stated[OnOff] = Field(
        default=None,
        description=f"Whether translated chat streams ask for usage ({', '.join(kinds_where(of_chat))}); "
        "default true.",
    )
    max_tokens_field: Stated[MaxTokensFieldName] = Field(
        default=None,
        description="Name of the field that limits the output in translated chat requests; default "
        f"{_MAX_TOKENS_FIELDS}.",
    )
    extra_fields: Stated[list[ExtraFieldName]] = Field(
        default=None,
        description="Fields beyond OpenAI's own API that translated chat requests may contain "
        f"({', '.join(kinds_where(lambda row: row.takes_extra_fields))}); default none.",
    )


class WrittenEdgeAuth(Written):
    """Who may use the gateway."""

    enabled: Stated[OnOff] = Field(default=None, description="Whether clients need a key; default false.")
    keys: Stated[list[EdgeKey]] = Field(default=None, description="Accepted keys.")
    keys_env: Stated[Variable] = Field(
        default=None,
        description="The environment variable that holds accepted keys, separated by commas or spaces.",
    )


class WrittenJsonl(Written):
    """Usage events as JSON lines."""

    model_config = ConfigDict(json_schema_extra={"required": ["output"]})

    output: Stated[Text] = Field(default=None, description="stdout, stderr or the path of a file.")


class WrittenHooks(Written):
    """Where usage events are sent."""

    jsonl: WrittenJsonl | None = Field(default=None, description="Usage events as JSON lines.")


class WrittenSpool(Written):
    """Limits on the request bodies that the gateway stores."""

    dir: Stated[AbsolutePath] = Field(
        default=None,
        description="Directory for large request bodies; default spool below the state directory.",
    )
    body_memory: Stated[MemoryBytes] = Field(
        default=None,
        description="Total size of request bodies in memory, in bytes; default 536870912 (512 MiB).",
    )
    body_disk: Stated[DiskBytes] = Field(
        default=None,
        description="Total size of request bodies on disk, in bytes; default 4294967296 (4 GiB).",
    )


class WrittenRoutes(Written):
    """Which of the gateway's routes are served."""

    deny: Stated[list[Name]] = Field(
        default=None, description="Routes, groups of routes and families, by name, that answer 404."
    )


class WrittenHealthChecks(Written):
    """Health checks of the providers on GET /v1/health/providers."""

    enabled: Stated[OnOff] = Field(default=None, description="Whether the route is served; default false.")
    timeout: Stated[Seconds] = Field(
        default=None, description="Time limit for each provider's probe, in seconds; default 5."
    )


class WrittenFile(Written):
    """Configuration of mgw, the multi-dialect model gateway."""

    model_config = ConfigDict(json_schema_extra={"required": ["providers"]})

    listen: Stated[Address] = Field(
        default=None, description='"127.0.0.1:8787", ":8787", "[::1]:8787" or a Twisted endpoint string.'
    )
    tls: WrittenTls | None = Field(default=None, description="HTTPS on the listener.")
    edge_auth: WrittenEdgeAuth | None = Field(default=None, description="Who may use the gateway.")
    public_url: Stated[PublicUrl] = Field(
        default=None,
        description="The gateway's address as clients see it; by default it is taken from each request.",
    )
    trusted_proxies: Stated[list[ProxyNetwork]] = Field(
        default=None,
        description="IP addresses and networks whose X-Forwarded-Proto is trusted; default none.",
    )
    rewrite_urls: Stated[OnOff] = Field(
        default=None,
        description="Whether a provider's addresses in its responses are replaced with the gateway's; "
        "default true.",
    )
    routes: WrittenRoutes | None = Field(
        default=None, description="Which of the gateway's routes are served."
    )
    health_checks: WrittenHealthChecks | None = Field(
        default=None, description="Health checks of the providers on GET /v1/health/providers."
    )
    providers: dict[str, WrittenProvider] | None = Field(default=None, description="The providers, by name.")
    defaults: DefaultNames | None = Field(
        default=None, description="Provider for models without a provider prefix, for each family of clients."
    )
    aliases: dict[str, AliasTarget] | None = Field(
        default=None, description="Other names for <provider>/<model>."
    )
    hooks: WrittenHooks | None = Field(default=None, description="Where usage events are sent.")
    max_body_bytes: Stated[Bytes] = Field(
        default=None, description="Largest request body in bytes, decompressed; default 33554432 (32 MiB)."
    )
    max_clients: Stated[Connections] = Field(
        default=None,
        description="Maximum number of client connections; default nearly half of the process's limit of "
        "open files.",
    )
    timeouts: WrittenTimeouts | None = Field(default=None, description="Time limits in seconds.")
    drain_seconds: Stated[DrainSeconds] = Field(
        default=None,
        description="How long running requests may continue when the gateway stops, in seconds; default 30.",
    )
    spool: WrittenSpool | None = Field(
        default=None, description="Limits on the request bodies that the gateway stores."
    )
    observe_dropped_fields: Stated[OnOff] = Field(
        default=None,
        description="Whether responses and usage events name the fields that a translation dropped; default "
        "false.",
    )
    translation: WrittenTranslation | None = Field(
        default=None, description="How requests are translated into another dialect."
    )
    caching: WrittenCaching | None = Field(default=None, description="Prompt caching.")
    stream_keepalive: WrittenStreamKeepalive | None = Field(
        default=None, description="Keep-alives in streams while the upstream is silent; off if absent."
    )


def keys_of(block: type[BaseModel], path: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the keys that are known where ``path``, taken from ``block``, leads."""
    if not path:
        return tuple(block.model_fields)
    head, *rest = path
    inner = _block_in(block.model_fields[str(head)].annotation) if head in block.model_fields else None
    if inner is None:
        return ()
    among, kind = inner
    return keys_of(kind, tuple(rest[1:] if among else rest))


def _block_in(
    annotation: Any,
) -> tuple[bool, type[BaseModel]] | None:  # Any: an annotation has no type of its own
    """Find the block that an annotation holds, and whether it is one of several, in a mapping or a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return False, annotation
    found = [inner for part in getattr(annotation, "__args__", ()) if (inner := _block_in(part)) is not None]
    if not found:
        return None
    among, kind = found[0]
    return among or getattr(annotation, "__origin__", None) in (dict, list), kind
