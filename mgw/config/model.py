"""The settings as the rest of the gateway reads them: checked, resolved, frozen.

The environment has been read, both vocabularies are one, defaults are filled in and a provider's own settings
are merged over the general ones.  What an operator may write stands in :mod:`mgw.config.written`.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final

from pydantic import Field

from mgw.config.blocks import Settings
from mgw.config.listen import DEFAULT_LISTEN, EndpointText, Listen
from mgw.config.state import spool_below
from mgw.config.translation import Caching, ExtraField, StreamKeepalive, Translation
from mgw.kinds import KINDS
from mgw.secret import Secret
from mgw.vocabulary import Capability, Family, Kind, MaxTokensField

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
DEFAULT_MAX_BODY_BYTES: Final = 32 * MIB
DEFAULT_BODY_MEMORY: Final = 512 * MIB
DEFAULT_BODY_DISK: Final = 4 * GIB
DEFAULT_DRAIN_SECONDS: Final = 30.0


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


class Timeouts(Settings):
    """Time limits in seconds (contract 2.6)."""

    connect: float = 10.0
    first_byte: float = 600.0
    idle: float = 300.0
    """The upstream is silent between two chunks."""
    write_stall: float = 300.0
    """The client takes no byte of a waiting answer."""
    client_headers: float = 10.0
    client_body_idle: float = 60.0
    client_idle: float = 90.0


class HeaderEdits(Settings):
    """What an operator changes in the headers that go upstream."""

    set: dict[str, str] = Field(default_factory=dict, repr=False)
    """Names as spelled in the file; the values may be secrets and do not print."""
    remove: tuple[str, ...] = ()
    """Lower-case names."""
    forward: tuple[str, ...] = ()
    """Lower-case names of the client's headers that go upstream beside the usual ones."""


def _default_capabilities(data: dict[str, Any]) -> frozenset[Capability]:  # Any: pydantic's own signature
    kind = data.get("kind")
    return KINDS[kind].capabilities if isinstance(kind, Kind) else frozenset()


def _default_max_tokens_field(data: dict[str, Any]) -> MaxTokensField:  # Any: pydantic's own signature
    kind = data.get("kind")
    return KINDS[kind].max_tokens_field if isinstance(kind, Kind) else MaxTokensField.MAX_TOKENS


class Provider(Settings):
    """One upstream, as it will be called."""

    name: str
    kind: Kind
    base_url: str
    """With the version prefix, without a trailing ``/``."""
    api_version: str | None = None
    """What each call's query says of the version, unless the client's does."""
    auth: AuthMode | None = None
    """``None``: the client's own credential."""
    key: Secret | None = None
    """The static key or token of ``API_KEY`` and ``BEARER``."""
    token_file: str | None = None
    capabilities: frozenset[Capability] = Field(default_factory=_default_capabilities)
    """Those that are on."""
    models: tuple[str, ...] = ()
    headers: HeaderEdits = HeaderEdits()
    ca_file: str | None = None
    max_connections: int | None = None
    """``None``: no limit."""
    timeouts: Timeouts = Timeouts()
    stream_usage: bool = True
    """Translated chat streams ask for usage; only OpenAI's family has to be asked."""
    max_tokens_field: MaxTokensField = Field(default_factory=_default_max_tokens_field)
    """The field of an answer's limit in translated chat requests; other families have no choice."""
    extra_fields: tuple[ExtraField, ...] = ()
    """Fields beyond OpenAI's own that translated chat requests may hold."""


class EdgeAuth(Settings):
    """Who may call the gateway."""

    enabled: bool = False
    keys: tuple[Secret, ...] = ()


class JsonlHook(Settings):
    """Where usage events go, one JSON line each."""

    output: str
    """``stdout``, ``stderr`` or a path."""


class Hooks(Settings):
    """Who is told of usage."""

    jsonl: JsonlHook | None = None


class Tls(Settings):
    """Paths of the certificate chain and the key of an HTTPS listener."""

    cert_file: str
    key_file: str


class Spool(Settings):
    """How much may wait in the gateway."""

    dir: str = spool_below({})
    """The folder, with an absolute path, of the files that large uploads wait in."""
    body_memory: int = DEFAULT_BODY_MEMORY
    """Bytes of request bodies in memory, of all requests together."""
    body_disk: int = DEFAULT_BODY_DISK
    """Bytes of request bodies in files below ``dir``, of all requests together."""


class Routes(Settings):
    """Which rows of the route table are served."""

    deny: tuple[str, ...] = ()
    """Names of rows and of groups of rows, and families in the vendor's spelling: they answer 404."""


class HealthChecks(Settings):
    """Probes of the providers on ``GET /v1/health/providers``."""

    enabled: bool = False
    timeout: float = 5.0
    """Seconds for each provider's probe."""


class Config(Settings):
    """Everything that one configuration file says."""

    listen: Listen | EndpointText = DEFAULT_LISTEN
    providers: dict[str, Provider] = Field(default_factory=dict)
    defaults: dict[Family, str] = Field(default_factory=dict)
    """The provider of bare model ids, by the client's family."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Alias to ``<provider>/<model>``."""
    edge_auth: EdgeAuth = EdgeAuth()
    public_url: str | None = None
    """The gateway as clients know it, without a trailing ``/``; ``None``: what each request says."""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Peers whose ``X-Forwarded-Proto`` is believed; an IPv4 network is never written as an IPv6 one."""
    rewrite_urls: bool = True
    """Addresses of the provider in its answers are turned to the gateway."""
    routes: Routes = Routes()
    health_checks: HealthChecks = HealthChecks()
    hooks: Hooks = Hooks()
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    max_clients: int | None = None
    """Connections of clients; ``None``: as many as the process has file descriptors for."""
    tls: Tls | None = None
    timeouts: Timeouts = Timeouts()
    drain_seconds: float = DEFAULT_DRAIN_SECONDS
    spool: Spool = Spool()
    observe_dropped_fields: bool = False
    """Answers and events name the fields that a translation dropped."""
    translation: Translation = Translation()
    caching: Caching = Caching()
    stream_keepalive: StreamKeepalive | None = None
    """``None``: off."""
