"""The settings: one class per block, with each setting's type, default and description.

An operator writes them so, and the gateway reads them so: the JSON schema and the reference are generated
from these classes, and the loader fills in what the environment and a provider's kind add.
"""

from __future__ import annotations

from pydantic import ConfigDict

from mgw.config.dashboard import DashboardSettings
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.environment import (
    CERT_VARIABLE,
    KEY_VARIABLE,
    LISTEN_VARIABLE,
    credential_store_below,
    spool_below,
)
from mgw.config.field_types import (
    AbsolutePath,
    Address,
    AliasTargets,
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
    ProxyNetwork,
    PublicUrl,
    Seconds,
    Text,
)
from mgw.config.fleet import FleetSettings, Workers
from mgw.config.hooks import HooksSettings
from mgw.config.listen import DEFAULT_LISTEN
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
    required,
    setting,
)
from mgw.config.translation import CachingSettings, StreamKeepaliveSettings, TranslationSettings


class TlsSettings(Settings):
    """HTTPS on the listener."""

    cert_file: Text = required(
        "PEM file with the certificate chain of an HTTPS listener",
        "Both files are needed. They cannot be combined with an endpoint string that already speaks TLS "
        "(``ssl:``, ``tls:``).",
        variable=CERT_VARIABLE,
    )
    key_file: Text = required("PEM file with its private key", variable=KEY_VARIABLE)


class TimeoutsSettings(UpstreamTimeoutsSettings):
    """All time limits, in seconds."""

    write_stall: Seconds = setting("While a response waits and the client reads none of it", default=300.0)
    client_headers: Seconds = setting("Until the headers of a request are complete", default=10.0)
    client_body_idle: Seconds = setting(
        "Between two chunks of a request body",
        "It also applies to the parts of a message in a realtime session, while the gateway holds it until "
        "it is whole.",
        default=60.0,
    )
    client_idle: Seconds = setting("Between two requests on a connection", default=90.0)


class ProfileFileSettings(Settings):
    """Where a profile is."""

    model_config = ConfigDict(json_schema_extra={"required": ["file"]})

    file: AbsolutePath = required("Path of the profile's file")


class SpoolSettings(Settings):
    """Limits on what the gateway stores: request bodies, and usage events that cannot be delivered."""

    dir: AbsolutePath = setting(
        "Directory for request bodies and usage events on disk",
        "The files of bodies have no name and disappear with the request. The state directory is the first "
        "path in ``STATE_DIRECTORY`` (systemd sets it), else ``mgw`` below ``XDG_STATE_HOME``, else "
        "``.local/state/mgw`` below ``HOME``, else ``/var/lib/mgw``. A variable that is unset, empty or "
        "contains a relative path is ignored.",
        default=spool_below({}),
        shown="``spool`` below the state directory",
    )
    body_memory: MemoryBytes = setting(
        "Total size of request bodies in memory, in bytes",
        "Beyond it, clients get 503 with ``Retry-After``. It should not be less than ``max_body_bytes``.",
        default=512 * MIB,
    )
    body_disk: DiskBytes = setting(
        "Total size of request bodies on disk, in bytes",
        "Beyond it, clients get 503 with ``Retry-After``. Uploads and bodies that the gateway does not "
        "read are stored there if they are larger than 256 KiB; all others stay in memory. It should not "
        "be less than ``max_body_bytes``.",
        default=4 * GIB,
    )
    max_bytes: DiskBytes = setting(
        "Total size of usage events on disk that could not be delivered yet, in bytes",
        "They are in ``events`` below ``spool.dir``. Beyond this size, the oldest are deleted and counted in "
        "``mgw_usage_events_dropped_total``.",
        default=256 * MIB,
    )


class RoutesSettings(Settings):
    """Which of the gateway's routes are served."""

    deny: UniqueList[Name] = setting(
        "Names of routes, groups of routes and families that answer 404, like paths that do not exist",
        "The name of a family means all of its routes. An unknown name is an "
        "error; ``/``, ``/healthz`` and ``/readyz`` cannot be turned off. A request to a denied route "
        "leaves a usage event (``rejected``, 404).",
        default=(),
    )


class HealthChecksSettings(Settings):
    """Health checks of the providers on GET /v1/health/providers."""

    enabled: OnOff = setting(
        "Whether ``GET /v1/health/providers`` is served, which checks every provider", default=False
    )
    timeout: Seconds = setting("Time limit for each provider, in seconds", default=5.0)


class CorsSettings(Settings):
    """Pages of other origins."""

    origins: UniqueList[Origin] = setting(
        "Origins of web pages that may use the gateway from its own machine while edge auth is off",
        "Such as ``https://app.example.com``, or ``*`` for any. Without edge auth, what a browser on the "
        "gateway's machine sends for a page of another host is refused with 403. With edge auth, the setting "
        "has no effect. No headers of CORS are sent in either case.",
        default=(),
    )


class RealtimeSettings(Settings):
    """Realtime sessions over WebSockets."""

    max_sessions: Connections = setting(
        "Maximum number of sessions at a time", "Beyond it, clients get 429.", default=1024
    )
    max_session_minutes: Minutes = setting(
        "How long a session may last, in minutes",
        "Both connections are then closed, with code 1001.",
        default=60.0,
    )
    origins: UniqueList[Origin] = setting(
        "Origins of web pages that may open sessions without one of the gateway's keys",
        "Such as ``https://app.example.com``, or ``*`` for any. Browsers name the page's origin; a session "
        "with one that is not in this list needs a key of ``edge_auth``.",
        default=(),
    )


class Config(Settings):
    """Configuration of mgw, the multi-dialect model gateway."""

    model_config = ConfigDict(json_schema_extra={"required": ["providers"]})

    places: NotInFile[Places] = Places()
    """Where the settings stand in their file."""

    listen: Address = setting(
        'Where the gateway listens: ``"host:port"``, ``":port"`` (all interfaces), ``"[::1]:port"`` or a '
        "Twisted server endpoint string",
        "The first word of an endpoint string is ``tcp``, ``tcp6``, ``ssl``, ``tls``, ``unix``, "
        "``systemd`` or ``haproxy``. Port 0 is any free port. Keep the quotes: YAML reads ``12:30`` as a "
        "number. There is a warning if other machines can reach the listener while edge auth is off.",
        default=DEFAULT_LISTEN,
        shown=f"``{DEFAULT_LISTEN}``",
        variable=LISTEN_VARIABLE,
    )
    tls: TlsSettings | None = setting("HTTPS on the listener")
    edge_auth: EmptyIfNull[EdgeAuthSettings] = setting("Who may use the gateway", default=EdgeAuthSettings())
    dashboard: EmptyIfNull[DashboardSettings] = setting(
        "The dashboard for operators, at ``/ui`` and ``/v1/dashboard``", default=DashboardSettings()
    )
    public_url: Omittable[PublicUrl] = setting(
        "The gateway's address as clients see it",
        "Host, port if needed, and the path prefix that a proxy adds, if any. A trailing ``/`` is removed. "
        "No user, password, query or fragment. There is a warning if it begins with ``http://`` while the "
        "listener speaks TLS.",
        shown="the ``Host`` of the request, with ``https`` if the listener or a trusted proxy speaks TLS",
    )
    """Without a trailing ``/``."""
    trusted_proxies: UniqueList[ProxyNetwork] = setting(
        "IP addresses and networks whose ``X-Forwarded-Proto`` is trusted",
        "It is ignored from anyone else. Keep the quotes: YAML reads some IPv6 addresses as something "
        'else. A network must not have bits set outside its prefix: ``"10.1.2.3/8"`` is an error that '
        "suggests ``10.0.0.0/8``.",
        default=(),
    )
    """An IPv4 network is never written as an IPv6 one."""
    rewrite_urls: OnOff = setting(
        "Whether a provider's addresses in its responses are replaced with the gateway's",
        "If not, responses are byte for byte those of the provider.",
        default=True,
    )
    routes: EmptyIfNull[RoutesSettings] = setting(
        "Which of the gateway's routes are served", default=RoutesSettings()
    )
    health_checks: EmptyIfNull[HealthChecksSettings] = setting(
        "Health checks of the providers on GET /v1/health/providers", default=HealthChecksSettings()
    )
    profiles: EmptyIfNull[dict[str, ProfileFileSettings]] = setting(
        "Profiles of subscription credentials, by name",
        "A profile says how to log in to a vendor and what requests with such an account look like; see "
        "``docs/profiles.rst``.",
        default={},
    )
    credential_store: AbsolutePath = setting(
        "File in which subscription credentials are kept",
        "It belongs to the user whom the gateway runs as, and nobody else may have access to it or to its "
        "directory, which contains nothing else. For the state directory see ``spool.dir``.",
        default=credential_store_below({}),
        shown="``credentials/store.json`` in the state directory",
    )
    providers: EmptyIfNull[dict[str, Provider]] = setting(
        "The providers, by name; at least one is needed",
        "A name may contain letters, digits, ``.``, ``_`` and ``-``.",
        default={},
        shown="",
    )
    defaults: EmptyIfNull[DefaultNames] = setting(
        "Provider for models without a provider prefix, for each family of clients",
        "It may be a provider of another family; requests are then translated.",
        default={},
        shown="",
    )
    aliases: EmptyIfNull[dict[str, AliasTargets]] = setting(
        "Other names for ``<provider>/<model>``",
        "An alias is looked up before anything else. Of a list, each target is tried in turn if the one "
        "before cannot be reached, or answers with a status of ``retries.statuses``.",
        default={},
    )
    retries: EmptyIfNull[RetriesSettings] = setting("When a request is sent again", default=RetriesSettings())
    server_timing: OnOff = setting(
        "Whether responses say how long the provider and the gateway took, in ``Server-Timing``",
        "In milliseconds, up to the first byte of the response: ``upstream;dur=…, gateway;dur=…``.",
        default=False,
    )
    hooks: EmptyIfNull[HooksSettings] = setting("Where usage events are sent", default=HooksSettings())
    prices: PricesSettings | None = setting("What models cost, for the ``cost_usd`` of usage events")
    max_body_bytes: Bytes = setting(
        "The largest request body in bytes; larger ones are refused with 413",
        "If the gateway has to read the body to find the model, the decompressed size counts as well. "
        "Audio to be transcribed or translated is limited to 32 MiB, whatever this setting is.",
        default=32 * MIB,
    )
    max_clients: Omittable[Connections] = setting(
        "Maximum number of client connections",
        "Each client may need two files (its own connection and one to a provider), and 128 files or an "
        "eighth of the limit, whichever is more, are reserved for everything else: a limit of 1024 allows "
        "448 clients, 65536 allows 28672. Further clients get a 503 with ``Retry-After: 1`` and are "
        "disconnected, but ``/healthz`` is still answered. The log says so at most once a minute, and "
        "``mgw_client_connections_refused_total`` counts them. A number above the default is accepted, "
        "with a warning in the log.",
        shown="nearly half of the process's limit of open files",
    )
    timeouts: EmptyIfNull[TimeoutsSettings] = setting("Time limits in seconds", default=TimeoutsSettings())
    drain_seconds: DrainSeconds = setting(
        "How long running requests may continue when the gateway stops, in seconds",
        "``TimeoutStopSec`` of the systemd unit must be greater.",
        default=30.0,
    )
    drain_delay_seconds: DrainSeconds = setting(
        "How long requests are still taken when the gateway is told to stop, in seconds",
        "``/readyz`` answers 503 from the first moment, so that a load balancer that asks it sends its "
        "requests elsewhere before the gateway refuses any. It should be longer than the balancer takes to "
        "notice: its interval times the number of failures that it wants, and one second more. "
        "``drain_seconds`` begin after it.",
        default=0.0,
    )
    workers: Omittable[Workers] = setting(
        "How many processes serve requests, or ``auto``: one for each CPU that the service may use",
        "A supervisor starts them, replaces one that dies, and speaks for all of them: metrics, limits, "
        "usage events and the dashboard are those of the whole service. To set or to remove it needs a "
        "restart; a reload can change the number.",
        shown="one process, without a supervisor",
    )
    fleet: EmptyIfNull[FleetSettings] = setting("What several hosts share", default=FleetSettings())
    express: OnOff = setting(
        "Whether requests for text are served without Klein",
        "That takes a fraction of the time, and is otherwise the same. With ``false`` all requests take the "
        "same way through the gateway, which may help to find the cause of a problem.",
        default=True,
    )
    fast_event_loop: OnOff = setting(
        "Whether the gateway takes events from the kernel by a shorter way than Twisted's",
        "It applies to Twisted's epoll reactor, the default on Linux, and is tried at the start: if it does "
        "not work with the installed release of Twisted, the log says so and Twisted's own way is used.",
        default=True,
    )
    cors: EmptyIfNull[CorsSettings] = setting("Pages of other origins", default=CorsSettings())
    realtime: EmptyIfNull[RealtimeSettings] = setting(
        "Realtime sessions over WebSockets", default=RealtimeSettings()
    )
    spool: EmptyIfNull[SpoolSettings] = setting(
        "Limits on what the gateway stores: request bodies, and usage events that cannot be delivered",
        default=SpoolSettings(),
    )
    observe_dropped_fields: OnOff = setting(
        "Whether responses and usage events name the fields that a translation dropped",
        "They are in the response header ``X-Gateway-Dropped-Fields`` and in the usage event's "
        "``dropped_fields``. Names only, never values.",
        default=True,
    )
    translation: EmptyIfNull[TranslationSettings] = setting(
        "How requests are translated into another dialect", default=TranslationSettings()
    )
    caching: EmptyIfNull[CachingSettings] = setting("Prompt caching", default=CachingSettings())
    stream_keepalive: StreamKeepaliveSettings | None = setting(
        "Keep-alives in streams while the upstream is silent; off if absent"
    )
