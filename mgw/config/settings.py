"""The settings: one class per block, in which each has its type, its default and its description, once.

An operator writes them so, and the gateway reads them so: the JSON schema and the reference are generated
from these classes, and the loader fills in what the environment and a provider's kind add.
"""

from __future__ import annotations

from pydantic import ConfigDict

from mgw.config.environment import spool_below
from mgw.config.field_types import (
    AbsolutePath,
    Address,
    AliasTarget,
    Bytes,
    Connections,
    DefaultNames,
    DiskBytes,
    DrainSeconds,
    EdgeKey,
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
from mgw.config.provider import Provider, UpstreamTimeoutsSettings
from mgw.config.settings_base import (
    GIB,
    MIB,
    EmptyIfNull,
    Omittable,
    Settings,
    UniqueList,
    required,
    setting,
)
from mgw.config.translation import (
    CachingSettings,
    StreamKeepaliveSettings,
    TranslationSettings,
)


class TlsSettings(Settings):
    """HTTPS on the listener."""

    cert_file: Text = required("PEM file with the certificate chain (or GATEWAY_TLS_CERT)")
    key_file: Text = required("PEM file with the private key (or GATEWAY_TLS_KEY)")


class TimeoutsSettings(UpstreamTimeoutsSettings):
    """All time limits, in seconds."""

    write_stall: Seconds = setting("While a response waits and the client reads none of it", default=300.0)
    client_headers: Seconds = setting("Until the headers of a request are complete", default=10.0)
    client_body_idle: Seconds = setting("Between two chunks of a request body", default=60.0)
    client_idle: Seconds = setting("Between two requests on a connection", default=90.0)


class EdgeAuthSettings(Settings):
    """Who may use the gateway."""

    enabled: OnOff = setting("Whether clients need a key", default=False)
    keys: UniqueList[EdgeKey] = setting("Accepted keys", default=())
    """Those of the environment included."""
    keys_env: Omittable[Variable] = setting(
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

    deny: UniqueList[Name] = setting(
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
    edge_auth: EmptyIfNull[EdgeAuthSettings] = setting("Who may use the gateway", default=EdgeAuthSettings())
    public_url: Omittable[PublicUrl] = setting(
        "The gateway's address as clients see it; by default it is taken from each request"
    )
    """Without a trailing ``/``."""
    trusted_proxies: UniqueList[ProxyNetwork] = setting(
        "IP addresses and networks whose X-Forwarded-Proto is trusted", default=(), shown="none"
    )
    """An IPv4 network is never written as an IPv6 one."""
    rewrite_urls: OnOff = setting(
        "Whether a provider's addresses in its responses are replaced with the gateway's", default=True
    )
    routes: EmptyIfNull[RoutesSettings] = setting(
        "Which of the gateway's routes are served", default=RoutesSettings()
    )
    health_checks: EmptyIfNull[HealthChecksSettings] = setting(
        "Health checks of the providers on GET /v1/health/providers", default=HealthChecksSettings()
    )
    providers: EmptyIfNull[dict[str, Provider]] = setting("The providers, by name", default={})
    defaults: EmptyIfNull[DefaultNames] = setting(
        "Provider for models without a provider prefix, for each family of clients", default={}
    )
    aliases: EmptyIfNull[dict[str, AliasTarget]] = setting("Other names for <provider>/<model>", default={})
    hooks: EmptyIfNull[HooksSettings] = setting("Where usage events are sent", default=HooksSettings())
    max_body_bytes: Bytes = setting("Largest request body in bytes, decompressed", default=32 * MIB)
    max_clients: Omittable[Connections] = setting(
        "Maximum number of client connections", shown="nearly half of the process's limit of open files"
    )
    timeouts: EmptyIfNull[TimeoutsSettings] = setting("Time limits in seconds", default=TimeoutsSettings())
    drain_seconds: DrainSeconds = setting(
        "How long running requests may continue when the gateway stops, in seconds", default=30.0
    )
    spool: EmptyIfNull[SpoolSettings] = setting(
        "Limits on the request bodies that the gateway stores", default=SpoolSettings()
    )
    observe_dropped_fields: OnOff = setting(
        "Whether responses and usage events name the fields that a translation dropped", default=False
    )
    translation: EmptyIfNull[TranslationSettings] = setting(
        "How requests are translated into another dialect", default=TranslationSettings()
    )
    caching: EmptyIfNull[CachingSettings] = setting("Prompt caching", default=CachingSettings())
    stream_keepalive: StreamKeepaliveSettings | None = setting(
        "Keep-alives in streams while the upstream is silent; off if absent"
    )
