"""The settings: one class per block, with each setting's type, default and description.

An operator writes them so, and the gateway reads them so: the JSON schema and the reference are generated
from these classes, and the loader fills in what the environment and a provider's kind add.
"""

from __future__ import annotations

from functools import cached_property

from pydantic import ConfigDict

from mgw.config.alias import Alias
from mgw.config.dashboard import DashboardSettings
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.environment import (
    CERT_VARIABLE,
    KEY_VARIABLE,
    LISTEN_VARIABLE,
    credential_store_below,
    limit_store_below,
    spool_below,
)
from mgw.config.field_types import (
    AbsolutePath,
    Address,
    Bytes,
    Connections,
    DefaultNames,
    DiskBytes,
    DrainSeconds,
    MemoryBytes,
    Minutes,
    Name,
    OnOff,
    Origin,
    PreflightSeconds,
    ProxyNetwork,
    PublicUrl,
    Seconds,
    Text,
)
from mgw.config.fleet import FleetSettings, Workers
from mgw.config.hooks import HooksSettings
from mgw.config.listen import DEFAULT_LISTEN
from mgw.config.log import LogSettings
from mgw.config.places import Places
from mgw.config.prices import PricesSettings
from mgw.config.provider import Provider, UpstreamTimeoutsSettings
from mgw.config.resilience import RetriesSettings
from mgw.config.settings_base import (
    GIB,
    MIB,
    EmptyIfNull,
    NotInFile,
    Omittable,
    Settings,
    UniqueList,
    defaults_of,
    required,
    setting,
)
from mgw.config.translation import CachingSettings, StreamKeepaliveSettings, TranslationSettings


class TlsSettings(Settings):
    """HTTPS on the listener."""

    cert_file: Text = required(
        "PEM file with the certificate chain for HTTPS",
        "Requires ``key_file``. Cannot be combined with an endpoint string that already uses TLS "
        "(``ssl:``, ``tls:``).",
        variable=CERT_VARIABLE,
    )
    key_file: Text = required(
        "PEM file with the private key of the certificate, without a passphrase", variable=KEY_VARIABLE
    )
    client_ca: Omittable[Text] = setting(
        "PEM file with the authorities that issue the certificates of clients",
        "If it is set, only clients with such a certificate can connect, whatever the path. The file is read "
        "again on a reload, as the certificate is. The certificate does not replace a gateway key.",
    )


class TimeoutsSettings(UpstreamTimeoutsSettings):
    """All time limits, in seconds."""

    write_stall: Seconds = setting(
        "Longest time for which a client may read nothing of a response that waits for it", default=300.0
    )
    client_headers: Seconds = setting(
        "Time limit for a client to send complete request headers", default=10.0
    )
    client_body_idle: Seconds = setting(
        "Longest pause between two chunks of a request body",
        "In realtime sessions, it also applies between the parts of a message that the gateway "
        "holds until it is complete.",
        default=60.0,
    )
    client_idle: Seconds = setting("Longest pause between two requests on a connection", default=90.0)


class ProfileFileSettings(Settings):
    """Where a profile is."""

    model_config = ConfigDict(json_schema_extra={"required": ["file"]})

    file: AbsolutePath = required("Path of the profile file")


class SpoolSettings(Settings):
    """Limits on stored request bodies and undelivered usage events."""

    dir: AbsolutePath = setting(
        "Directory for request bodies and usage events on disk",
        "Body files have no name and disappear with their request. The state directory is the "
        "first path in ``STATE_DIRECTORY`` (systemd sets it), otherwise ``mgw`` in "
        "``XDG_STATE_HOME``, ``.local/state/mgw`` in ``HOME``, or ``/var/lib/mgw``. A variable "
        "that is unset, empty or a relative path is ignored.",
        default=spool_below({}),
        shown="``spool`` in the state directory",
    )
    body_memory: MemoryBytes = setting(
        "Maximum total size of request bodies in memory, in bytes",
        "Beyond it, clients get 503 with ``Retry-After``. Should be at least ``max_body_bytes``.",
        default=512 * MIB,
    )
    body_disk: DiskBytes = setting(
        "Maximum total size of request bodies on disk, in bytes",
        "Beyond it, clients get 503 with ``Retry-After``. Uploads and bodies that the gateway does "
        "not read are stored on disk if they are larger than 256 KiB; all others stay in memory. "
        "Should be at least ``max_body_bytes``.",
        default=4 * GIB,
    )
    max_bytes: DiskBytes = setting(
        "Maximum total size of undelivered usage events on disk, in bytes",
        "They are in ``events`` in ``spool.dir``. Beyond this size, the oldest are deleted and "
        "counted in ``mgw_usage_events_dropped_total``.",
        default=256 * MIB,
    )


class RoutesSettings(Settings):
    """Which of the gateway's routes are served."""

    deny: UniqueList[Name] = setting(
        "Names of routes, route groups and families that return 404, like paths that do not exist",
        "The name of a family stands for all of its routes. An unknown name is an error; ``/``, "
        "``/healthz`` and ``/readyz`` cannot be denied. A request to a denied route produces a "
        "usage event (``rejected``, 404).",
        default=(),
    )
    azure: OnOff = setting(
        "Whether OpenAI's routes are also served under the paths of Azure OpenAI",
        "``/openai/deployments/{model}/…``, where the path names the model, ``/openai/v1/…`` and "
        "``/openai/…``. For clients that cannot be configured otherwise.",
        default=False,
    )


class HealthChecksSettings(Settings):
    """Health checks of the providers on GET /v1/health/providers."""

    enabled: OnOff = setting(
        "Whether to serve ``GET /v1/health/providers``, which checks every provider", default=False
    )
    timeout: Seconds = setting("Time limit for each provider, in seconds", default=5.0)


class CorsSettings(Settings):
    """Web pages of other origins."""

    origins: UniqueList[Origin] = setting(
        "Origins of web pages that may use the gateway",
        "An origin such as ``https://app.example.com``, or ``*`` for any. Browsers get CORS headers for "
        "them, except below ``/ui``, ``/v1/dashboard`` and ``/metrics``; requests need a gateway key all the "
        "same. Without edge auth, requests from a browser on the gateway's machine are rejected with 403 if "
        "they come from any other page of another host.",
        default=(),
    )
    max_age: PreflightSeconds = setting(
        "How long browsers may keep the answer to a preflight request, in seconds", default=600
    )


class RealtimeSettings(Settings):
    """Realtime sessions over WebSockets."""

    max_sessions: Connections = setting(
        "Maximum number of concurrent sessions", "Beyond it, clients get 429.", default=1024
    )
    max_session_minutes: Minutes = setting(
        "Longest duration of a session, in minutes",
        "Both connections are then closed with code 1001.",
        default=60.0,
    )
    origins: UniqueList[Origin] = setting(
        "Origins of web pages that may open sessions without a gateway key",
        "An origin such as ``https://app.example.com``, or ``*`` for any. Browsers send the origin "
        "of the page; a session from any other origin requires a key of ``edge_auth``.",
        default=(),
    )


class Config(Settings):
    """Configuration of mgw, the model gateway."""

    model_config = ConfigDict(json_schema_extra={"required": ["providers"]})

    places: NotInFile[Places] = Places()
    """Where the settings stand in their file."""
    removed: NotInFile[tuple[str, ...]] = ()
    """The settings in the file that an earlier version had and that have no effect any more."""

    listen: Address = setting(
        'Where the gateway listens: ``"host:port"``, ``":port"`` (all interfaces), '
        '``"[::1]:port"`` or a Twisted server endpoint string',
        "The first word of an endpoint string is ``tcp``, ``tcp6``, ``ssl``, ``tls``, ``unix``, "
        "``systemd`` or ``haproxy``. Port 0 picks a free port. Keep the quotes: YAML reads "
        "``12:30`` as a number. The gateway warns if other machines can reach the listener while "
        "edge auth is off.",
        default=DEFAULT_LISTEN,
        shown=f"``{DEFAULT_LISTEN}``",
        variable=LISTEN_VARIABLE,
    )
    tls: TlsSettings | None = setting("HTTPS on the listener")
    edge_auth: EmptyIfNull[EdgeAuthSettings] = setting(
        "Who may use the gateway", default=defaults_of(EdgeAuthSettings)
    )
    limit_store: AbsolutePath = setting(
        "File that stores what has been used of limits per day and longer (SQLite)",
        "Gateways with the same file count together. The state directory is described under ``spool.dir``. A "
        "change requires a restart. To restore a "
        "copy, stop the gateway, and delete the files beside it that end with ``-wal`` and ``-shm``.",
        default=limit_store_below({}),
        shown="``limits.db`` in the state directory",
    )
    dashboard: EmptyIfNull[DashboardSettings] = setting(
        "The dashboard for operators, at ``/ui`` and ``/v1/dashboard``",
        default=defaults_of(DashboardSettings),
    )
    public_url: Omittable[PublicUrl] = setting(
        "The gateway's address as clients see it",
        "It includes the port if needed, and the path prefix that a proxy adds, if any. A trailing "
        "``/`` is removed. A user, password, query or fragment is not allowed. The gateway warns "
        "if it begins with ``http://`` while the listener uses TLS.",
        shown="the ``Host`` of the request, with ``https`` if the listener or a trusted proxy uses TLS",
    )
    """The address without a trailing ``/``."""
    trusted_proxies: UniqueList[ProxyNetwork] = setting(
        "IP addresses and networks from which ``X-Forwarded-Proto`` is trusted",
        "The header is ignored in requests from anywhere else. Keep the quotes: YAML reads some "
        "IPv6 addresses as something else. A network must not have bits set outside its prefix: "
        '``"10.1.2.3/8"`` is an error that suggests ``10.0.0.0/8``.',
        default=(),
    )
    """An IPv4 network is never written as an IPv6 one."""
    rewrite_urls: OnOff = setting(
        "Whether provider addresses in responses are replaced with the gateway's",
        "If not, responses are byte for byte those of the provider.",
        default=True,
    )
    routes: EmptyIfNull[RoutesSettings] = setting(
        "Which of the gateway's routes are served", default=defaults_of(RoutesSettings)
    )
    health_checks: EmptyIfNull[HealthChecksSettings] = setting(
        "Health checks of the providers on GET /v1/health/providers",
        default=defaults_of(HealthChecksSettings),
    )
    profiles: EmptyIfNull[dict[str, ProfileFileSettings]] = setting(
        "Profiles for subscription accounts, by name",
        "A profile describes how to log in to a vendor and what requests with such an account look "
        "like; see ``docs/profiles.rst``.",
        default={},
    )
    credential_store: AbsolutePath = setting(
        "File that stores subscription credentials",
        "It must belong to the user that runs the gateway. No other user may have access to it or "
        "to its directory, which must contain nothing else. The state directory is described under "
        "``spool.dir``.",
        default=credential_store_below({}),
        shown="``credentials/store.json`` in the state directory",
    )
    providers: EmptyIfNull[dict[str, Provider]] = setting(
        "Providers by name; at least one is required",
        "A name may contain letters, digits, ``.``, ``_`` and ``-``.",
        default={},
        shown="",
    )
    defaults: EmptyIfNull[DefaultNames] = setting(
        "Default provider for models without a provider prefix, for each family of clients",
        "It may be a provider of another family; requests are then translated.",
        default={},
        shown="",
    )
    own_aliases: EmptyIfNull[dict[str, Alias]] = setting(
        "Other names for ``<provider>/<model>``",
        "Aliases are looked up before anything else. With a list, the next target is tried if one "
        "cannot be reached or returns a status in ``retries.statuses``. A mapping has ``targets``, which is "
        "such a list, and further settings.",
        default={},
        key="aliases",
    )
    retries: EmptyIfNull[RetriesSettings] = setting(
        "When requests are retried", default=defaults_of(RetriesSettings)
    )
    server_timing: OnOff = setting(
        "Whether responses report the time that the provider and the gateway took, in ``Server-Timing``",
        "The times are in milliseconds, up to the first byte of the response: ``upstream;dur=…, "
        "gateway;dur=…``.",
        default=False,
    )
    hooks: EmptyIfNull[HooksSettings] = setting(
        "Where usage events are sent", default=defaults_of(HooksSettings)
    )
    log: EmptyIfNull[LogSettings] = setting("The process log", default=defaults_of(LogSettings))
    prices: PricesSettings | None = setting("Prices of models, for ``cost_usd`` in usage events")
    max_body_bytes: Bytes = setting(
        "Maximum size of a request body, in bytes; larger ones are rejected with 413",
        "If the gateway has to read the body to find the model, the decompressed size counts as "
        "well. Audio for transcription or translation is always limited to 32 MiB.",
        default=32 * MIB,
    )
    max_clients: Omittable[Connections] = setting(
        "Maximum number of client connections",
        "A client may need two open files (its own connection and one to a provider), and 128 "
        "files or an eighth of the limit, whichever is more, are reserved for everything else: a "
        "limit of 1024 allows 448 clients, 65536 allows 28672. Further clients get a 503 with "
        "``Retry-After: 1`` and are disconnected, but ``/healthz`` is still answered. The log "
        "reports this at most once a minute, and ``mgw_client_connections_refused_total`` counts "
        "them. A number above the default is accepted, with a warning in the log.",
        shown="nearly half of the process's limit on open files",
    )
    timeouts: EmptyIfNull[TimeoutsSettings] = setting(
        "Time limits in seconds", default=defaults_of(TimeoutsSettings)
    )
    drain_seconds: DrainSeconds = setting(
        "How long requests in progress may continue when the gateway stops, in seconds",
        "``TimeoutStopSec`` of the systemd unit must be greater.",
        default=30.0,
    )
    drain_delay_seconds: DrainSeconds = setting(
        "How long the gateway still accepts requests after it is asked to stop, in seconds",
        "``/readyz`` returns 503 from the first moment, so that a load balancer that checks it "
        "sends its requests elsewhere before the gateway rejects any. Set it to longer than the "
        "balancer takes to notice: its check interval times its failure threshold, plus one "
        "second. ``drain_seconds`` begin after it.",
        default=0.0,
    )
    workers: Omittable[Workers] = setting(
        "Number of processes that serve requests, or ``auto``: one for each CPU that the service may use",
        "A supervisor starts them, replaces one that exits, and presents them as one service: "
        "metrics, limits, usage events and the dashboard cover all of them. Adding or removing "
        "this setting requires a restart; a reload can change the number.",
        shown="one process, without a supervisor",
    )
    fleet: EmptyIfNull[FleetSettings] = setting(
        "What several hosts share", default=defaults_of(FleetSettings)
    )
    fast_event_loop: OnOff = setting(
        "Whether the gateway gets events from the kernel through a faster path than Twisted's",
        "It applies to Twisted's epoll reactor, the default on Linux, and is tested at startup: if "
        "it does not work with the installed version of Twisted, the log says so and Twisted's own "
        "path is used.",
        default=True,
    )
    cors: EmptyIfNull[CorsSettings] = setting("Web pages of other origins", default=defaults_of(CorsSettings))
    realtime: EmptyIfNull[RealtimeSettings] = setting(
        "Realtime sessions over WebSockets", default=defaults_of(RealtimeSettings)
    )
    spool: EmptyIfNull[SpoolSettings] = setting(
        "Limits on stored request bodies and undelivered usage events",
        default=defaults_of(SpoolSettings),
    )
    observe_dropped_fields: OnOff = setting(
        "Whether responses and usage events name the fields that a translation dropped",
        "They are in the response header ``X-Gateway-Dropped-Fields`` and in ``dropped_fields`` of "
        "the usage event: names only, never values.",
        default=True,
    )
    translation: EmptyIfNull[TranslationSettings] = setting(
        "How requests are translated into another API", default=defaults_of(TranslationSettings)
    )
    caching: EmptyIfNull[CachingSettings] = setting("Prompt caching", default=defaults_of(CachingSettings))
    stream_keepalive: StreamKeepaliveSettings | None = setting(
        "Keep-alives in streams while the upstream is silent; off if absent"
    )

    @cached_property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """The targets of each alias, in the order in which they are tried."""
        return {name: alias.targets for name, alias in self.own_aliases.items()}
