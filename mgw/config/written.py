"""What an operator may write: the shape of the file, one class per block.

The editor's schema is made from these classes, and a field's description is what the editor shows.  All may
be left out; what is required is said where the settings are resolved, so that one mistake hides no other.
"""

from __future__ import annotations

from typing import Any

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


class WrittenTls(Written):
    """HTTPS on the listener."""

    cert_file: Stated[Text] = Field(
        default=None, description="PEM file with the certificate chain (or GATEWAY_TLS_CERT)."
    )
    key_file: Stated[Text] = Field(
        default=None, description="PEM file with the private key (or GATEWAY_TLS_KEY)."
    )


class WrittenUpstreamTimeouts(Written):
    """Time limits towards a provider, in seconds."""

    connect: Stated[Seconds] = Field(
        default=None, description="Until the connection to the provider stands; 10."
    )
    first_byte: Stated[Seconds] = Field(default=None, description="Until the first byte of its answer; 600.")
    idle: Stated[Seconds] = Field(default=None, description="Between two chunks of its answer; 300.")


class WrittenTimeouts(WrittenUpstreamTimeouts):
    """All time limits, in seconds."""

    write_stall: Stated[Seconds] = Field(
        default=None, description="While the client takes no byte of a waiting answer; 300."
    )
    client_headers: Stated[Seconds] = Field(
        default=None, description="Until a request's head is complete; 10."
    )
    client_body_idle: Stated[Seconds] = Field(
        default=None, description="Between two pieces of a request's body; 60."
    )
    client_idle: Stated[Seconds] = Field(
        default=None, description="Between two requests of a connection; 90."
    )


class WrittenCapabilities(Written):
    """What a provider may be asked for; what is not said follows from its kind."""

    text: Stated[OnOff] = Field(default=None, description="Chat, messages, responses, content generation.")
    image_gen: Stated[OnOff] = Field(default=None, description="Images.")
    video_gen: Stated[OnOff] = Field(default=None, description="Videos.")
    audio_speech: Stated[OnOff] = Field(default=None, description="Speech synthesis.")
    audio_transcribe: Stated[OnOff] = Field(
        default=None, description="Transcription and translation of audio."
    )
    realtime: Stated[OnOff] = Field(default=None, description="WebSocket sessions.")


class WrittenHeaders(Written):
    """Changes to the headers that go upstream."""

    set: dict[str, HeaderValue] | None = Field(
        default=None, description="Headers to send, whatever the client sent."
    )
    remove: Stated[list[HeaderName]] = Field(
        default=None, description="Headers of the client that do not go upstream."
    )
    forward: Stated[list[HeaderName]] = Field(
        default=None, description="Headers of the client that go upstream beside the usual ones."
    )


class WrittenProvider(Written):
    """One upstream."""

    model_config = ConfigDict(json_schema_extra={"required": ["kind"]})

    kind: Stated[KindName] = Field(default=None, description="Which wire the provider speaks.")
    base_url: Stated[BaseUrl] = Field(
        default=None,
        description="Its address with the version prefix; the first-party kinds know their vendor's.",
    )
    auth: Stated[AuthName] = Field(
        default=None, description="How the gateway shows itself to the provider; none sends nothing."
    )
    api_key: Stated[Key] = Field(
        default=None, description="The key itself; api_key_env keeps it out of the file."
    )
    api_key_env: Stated[Variable] = Field(
        default=None, description="The environment variable that holds the key."
    )
    token_file: Stated[Text] = Field(
        default=None, description="A file with an access token that somebody else renews."
    )
    capabilities: WrittenCapabilities | None = Field(default=None, description="What it may be asked for.")
    models: Stated[list[Name]] = Field(default=None, description="Model ids that the catalog lists for it.")
    headers: WrittenHeaders | None = Field(
        default=None, description="Changes to the headers that go upstream."
    )
    ca_file: Stated[Text] = Field(
        default=None, description="PEM file of certificates to trust in place of the system's."
    )
    max_connections: Stated[Connections] = Field(
        default=None, description="Most connections at a time; no limit if absent."
    )
    timeouts: WrittenUpstreamTimeouts | None = Field(default=None, description="Its own time limits.")
    stream_usage: Stated[OnOff] = Field(
        default=None,
        description="Whether translated chat streams ask for usage (openai, openai_compat); true.",
    )
    max_tokens_field: Stated[MaxTokensFieldName] = Field(
        default=None,
        description="What an answer's limit is called in translated chat requests; "
        "max_completion_tokens for openai, max_tokens for openai_compat.",
    )
    extra_fields: Stated[list[ExtraFieldName]] = Field(
        default=None,
        description="Fields beyond OpenAI's own that translated chat requests hold (openai_compat); none.",
    )


class WrittenEdgeAuth(Written):
    """Who may call the gateway."""

    enabled: Stated[OnOff] = Field(default=None, description="Whether callers need a key; false.")
    keys: Stated[list[EdgeKey]] = Field(default=None, description="Accepted keys.")
    keys_env: Stated[Variable] = Field(
        default=None,
        description="The environment variable that holds accepted keys, with commas or blanks between them.",
    )


class WrittenJsonl(Written):
    """Usage events as JSON lines."""

    model_config = ConfigDict(json_schema_extra={"required": ["output"]})

    output: Stated[Text] = Field(default=None, description="stdout, stderr or the path of a file.")


class WrittenHooks(Written):
    """Who is told of usage."""

    jsonl: WrittenJsonl | None = Field(default=None, description="Usage events as JSON lines.")


class WrittenSpool(Written):
    """How much may wait in the gateway."""

    dir: Stated[AbsolutePath] = Field(
        default=None,
        description="Folder for large uploads on their way; spool below the state directory.",
    )
    body_memory: Stated[MemoryBytes] = Field(
        default=None, description="Bytes of request bodies in memory, all together; 536870912 (512 MiB)."
    )
    body_disk: Stated[DiskBytes] = Field(
        default=None, description="Bytes of request bodies on disk, all together; 4294967296 (4 GiB)."
    )


class WrittenRoutes(Written):
    """Which of the gateway's routes are served."""

    deny: Stated[list[Name]] = Field(
        default=None, description="Names of routes, groups of routes and families that answer 404."
    )


class WrittenHealthChecks(Written):
    """Probes of the providers on GET /v1/health/providers."""

    enabled: Stated[OnOff] = Field(default=None, description="Whether the route is there; false.")
    timeout: Stated[Seconds] = Field(default=None, description="Seconds for each provider's probe; 5.")


class WrittenFile(Written):
    """Configuration of mgw, the multi-dialect model gateway."""

    model_config = ConfigDict(json_schema_extra={"required": ["providers"]})

    listen: Stated[Address] = Field(
        default=None, description='"127.0.0.1:8787", ":8787", "[::1]:8787" or a Twisted endpoint string.'
    )
    tls: WrittenTls | None = Field(default=None, description="HTTPS on the listener.")
    edge_auth: WrittenEdgeAuth | None = Field(default=None, description="Who may call the gateway.")
    public_url: Stated[PublicUrl] = Field(
        default=None, description="The gateway's address as clients know it; else what each request says."
    )
    trusted_proxies: Stated[list[ProxyNetwork]] = Field(
        default=None,
        description="IP addresses and networks whose X-Forwarded-Proto is believed; none.",
    )
    rewrite_urls: Stated[OnOff] = Field(
        default=None,
        description="Whether addresses of the provider in its answers are turned to the gateway; true.",
    )
    routes: WrittenRoutes | None = Field(
        default=None, description="Which of the gateway's routes are served."
    )
    health_checks: WrittenHealthChecks | None = Field(
        default=None, description="Probes of the providers on GET /v1/health/providers."
    )
    providers: dict[str, WrittenProvider] | None = Field(default=None, description="Upstreams by name.")
    defaults: DefaultNames | None = Field(
        default=None, description="Which provider serves bare model ids of each family of clients."
    )
    aliases: dict[str, AliasTarget] | None = Field(default=None, description="Names for <provider>/<model>.")
    hooks: WrittenHooks | None = Field(default=None, description="Who is told of usage.")
    max_body_bytes: Stated[Bytes] = Field(
        default=None, description="Largest request body, decompressed; 33554432 (32 MiB)."
    )
    max_clients: Stated[Connections] = Field(
        default=None,
        description="Most connections of clients; nearly half of the process's limit of open files.",
    )
    timeouts: WrittenTimeouts | None = Field(default=None, description="Time limits in seconds.")
    drain_seconds: Stated[DrainSeconds] = Field(
        default=None, description="How long requests in flight may go on when the gateway stops; 30."
    )
    spool: WrittenSpool | None = Field(default=None, description="How much may wait in the gateway.")
    observe_dropped_fields: Stated[OnOff] = Field(
        default=None,
        description="Whether answers and usage events name the fields that a translation dropped; false.",
    )
    translation: WrittenTranslation | None = Field(
        default=None, description="How requests are told in another dialect."
    )
    caching: WrittenCaching | None = Field(default=None, description="Prompt caching.")
    stream_keepalive: WrittenStreamKeepalive | None = Field(
        default=None, description="Signs of life in silent streams; off if absent."
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
