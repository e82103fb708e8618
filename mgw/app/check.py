"""Check a configuration file: report errors and warnings, and show where calls go."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import time
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from mgw.app.credential_check import missing_keys, missing_token_files, token_sources
from mgw.app.issuer_check import key_sources
from mgw.app.key_check import directory_problem, key_warnings, read_key_files
from mgw.app.price_check import price_warnings
from mgw.config.advice import advice
from mgw.config.auths import CREDENTIALS
from mgw.config.checks import is_loopback
from mgw.config.dashboard import edge_keys_of_dashboard, tokens_open
from mgw.config.file_faults import unusable_folder, unwritable
from mgw.config.fleet import AUTO
from mgw.config.hooks import OTLP_MISSING, STANDARD_STREAMS, has_otlp_packages
from mgw.config.key_settings import NamedKeySettings
from mgw.config.listen import EndpointText
from mgw.config.load import parse, read_text
from mgw.config.location import describe_unreadable
from mgw.config.problems import ConfigError, dotted_path
from mgw.config.provider import Provider
from mgw.config.quoting import redact, shown
from mgw.config.settings import Config
from mgw.dashboard.address import describe_dashboard, listening_urls
from mgw.nouns.errors import GatewayError
from mgw.nouns.kinds import KINDS
from mgw.nouns.secret import MIN_HIDDEN, Secret
from mgw.nouns.vocabulary import Family
from mgw.routing.routes import DENIABLE
from mgw.upstream.address import shown_address
from mgw.upstream.wires import wire_of
from mgw.upstream.wires.wire import chat_call
from mgw.usage.prices import PriceTable
from mgw.workers.worker_count import available_cpus

_OPENAI_AT_GOOGLE: Final = "/v1beta/openai"
"""Where Google speaks OpenAI's wire."""
_OPENAI_AT_DATABRICKS: Final = "/serving-endpoints"
"""Where Databricks speaks OpenAI's wire, without a version."""

_TOO_SHORT: Final = (
    f"fewer than {MIN_HIDDEN} characters, so it could be an ordinary word and is not hidden if a log line or "
    "a provider's error repeats it"
)

_KEYLESS: Final = (
    "no key, so the credentials of all OpenAI clients are sent to this host, and other clients get 401; "
    "if the host needs no key, set auth: none"
)


def reader_of(file: str, environ: Mapping[str, str] = os.environ) -> Callable[[], Config]:
    """Return what reads a configuration file, wherever the process changes to later.

    What it returns raises :class:`ConfigError`, or ``OSError`` where the file cannot be read.
    """
    path = Path(file).absolute()

    def read() -> Config:
        return parse(read_text(path), file, environ, DENIABLE)

    return read


def check(read: Callable[[], Config], command: str = "mgw check") -> int:
    """Print what is to be said of a configuration; return the exit status.

    :param command: what was called, for messages.
    """
    config = read_or_tell(read, command)
    if config is None:
        return 1
    problems, prices = find_problems(config, os.environ)
    key_files = read_key_files(config)
    problems += [] if key_files is None else [config.places.locate(f) for f in key_files.faults.values()]
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    if problems:
        return 1
    file_keys = () if key_files is None else tuple(key_files.keys.values())
    told = [*warnings(config, prices, file_keys=file_keys), *warnings_of_workers(config, available_cpus())]
    told += [*missing_token_files(config), *missing_keys(config), *_accounts(config), *_spool(config)]
    told += key_warnings(config, key_files, time())
    for warning in told:
        sys.stdout.write(f"warning: {config.places.locate(warning)}\n")
    lines = [*final_addresses(config), *token_sources(config), *key_sources(config.edge_auth)]
    for line in [*lines, *_dashboard_line(config)]:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write("the configuration is valid\n")
    return 0


def _dashboard_line(config: Config) -> list[str]:
    """Say where the dashboard will be, or that it is off; what is missing of it has a warning."""
    if config.dashboard.missing is not None:
        return []
    return [redact(describe_dashboard(config, listening_urls(config)))]


def find_problems(config: Config, environ: Mapping[str, str]) -> tuple[list[str], PriceTable | None]:
    """Return a line for each thing that keeps a gateway from starting, and what models cost."""
    from mgw.app.install_reactor import install_reactor  # here, with all below, since they need Twisted

    reactor = install_reactor(config)

    from mgw.app.credential_sources import build_sources
    from mgw.generation import build_generation
    from mgw.web.ports import read_certificate

    problems, prices = [*_events_file(config), *directory_problem(config)], None
    try:
        prices = build_generation(0, config, reactor, 0, build_sources(reactor), environ).prices
    except ValueError as error:
        problems += str(error).splitlines()
    try:
        read_certificate(config)
    except ValueError as error:
        problems += str(error).splitlines()
    return [config.places.locate(problem, "mgw: ") for problem in problems], prices


def _spool(config: Config) -> list[str]:
    """Return what keeps large bodies from being kept on disk; nothing is created."""
    reason = unusable_folder(config.spool.dir)
    effect = "requests with bodies above 256 KiB get 503 on some routes"
    return [] if reason is None else [f"spool.dir: {reason}; {effect}"]


def _events_file(config: Config) -> list[str]:
    """Return what keeps usage events from being written; nothing is created."""
    jsonl, sqlite, otlp = config.hooks.jsonl, config.hooks.sqlite, config.hooks.otlp
    outputs: dict[str, str] = {}
    if jsonl is not None and jsonl.output not in STANDARD_STREAMS:
        outputs["hooks.jsonl.output"] = jsonl.output
    if sqlite is not None:
        outputs["hooks.sqlite.path"] = sqlite.path
    reasons = {setting: unwritable(path) for setting, path in outputs.items()}
    found = [f"{setting}: {reason}" for setting, reason in reasons.items() if reason is not None]
    if otlp is not None and not has_otlp_packages():
        found.append(f"hooks.otlp: {OTLP_MISSING}")
    return found


def _accounts(config: Config) -> list[str]:
    """Return a warning for each subscription account that cannot be used at present, and for its store."""
    used = [(provider, name) for provider in config.providers.values() for name in provider.subscriptions]
    if not used:
        return []
    from mgw.credentials.subscription.store import CredentialStore, StoreError  # with it comes Twisted

    reason = unusable_folder(os.path.dirname(config.credential_store))
    if reason is not None:
        return [f"credential_store: {reason}"]
    try:
        entries = CredentialStore(config.credential_store).read()
    except StoreError as error:
        return [f"credential_store: {redact(str(error))}"]
    found = []
    for provider, name in used:
        entry, called, where = entries.get(name), shown(name), dotted_path(("providers", provider.name))
        if entry is None:
            found.append(f"{where}: nobody has logged in to {called} yet; run: mgw auth login {called}")
        elif entry.profile != provider.profile:
            what = f"the login of {called} used another profile"
            found.append(f"{where}: {what}; run: mgw auth login {called}")
        elif entry.is_lost:
            found.append(f"{where}: the login of {called} is no longer valid; run: mgw auth login {called}")
    return found


def read_or_tell(read: Callable[[], Config], command: str) -> Config | None:
    """Return a configuration, or ``None`` after its problems have been printed.

    :param command: what was called, for messages.
    """
    try:
        return read()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
    except OSError as error:
        sys.stderr.write(f"mgw: {describe_unreadable(str(error.filename), error, command)}\n")
    return None


def warnings(
    config: Config,
    prices: PriceTable | None = None,
    wall: float | None = None,
    file_keys: Iterable[NamedKeySettings] = (),
) -> list[str]:
    """Return a sentence for each thing that will hurt, in the order of the settings.

    :param prices: what models cost; ``None``: nothing is said of that.
    :param wall: Unix seconds; ``None``: now.
    :param file_keys: the keys of key files.
    """
    found = []
    auth = config.edge_auth
    if config.listen.beyond_loopback and not auth.enabled:
        found.append(
            f"listen: {redact(str(config.listen))} can be reached from other machines, and "
            f"edge_auth is off: anyone who reaches it can use the providers' keys{_of_others(config)}"
        )
    found += _of_dashboard(config)
    if auth.keys and not auth.enabled:
        found.append("edge_auth.enabled: keys are set, but edge auth is off, so no client needs one")
    if any(len(key.reveal()) < MIN_HIDDEN for key in auth.secrets):
        found.append(f"edge_auth: a key has {_TOO_SHORT}")
    found += advice(config)
    for provider in config.providers.values():
        found += _of_key(provider)
        found += _of_token_url(provider)
        found += _of_base_url(provider)
    found += _of_public_url(config)
    if prices is not None:
        found += price_warnings(config, prices, time() if wall is None else wall, file_keys)
    for name, size in (("body_memory", config.spool.body_memory), ("body_disk", config.spool.body_disk)):
        if size < config.max_body_bytes:
            found.append(f"spool.{name}: less than max_body_bytes, so the largest request bodies never fit")
    return found


def _of_dashboard(config: Config) -> list[str]:
    """Warn of a dashboard that lacks a part, that no key opens, or with a key that is not hidden."""
    dashboard, auth, found = config.dashboard, config.edge_auth, []
    if dashboard.missing is not None:
        found.append(f"{dashboard.missing}; the gateway runs without it")
    may_open = dashboard.keys or not auth.enabled or auth.keys_dir is not None or tokens_open(dashboard, auth)
    if dashboard.is_served and not may_open and not edge_keys_of_dashboard(dashboard, auth).keys:
        what = "every key of edge_auth has models or limits, itself or by a group"
        if dashboard.groups:
            what = f"no {'rule or ' if auth.jwt else ''}key of edge_auth is in one of dashboard.groups"
        elif not auth.keys:
            what = "tokens open it only with dashboard.groups"
        found.append(
            f"dashboard.keys: not set, and {what}, so no key opens the dashboard: only clients on the same "
            "machine can use it"
        )
    if any(len(key.reveal()) < MIN_HIDDEN for key in dashboard.keys):
        found.append(f"dashboard: a key has {_TOO_SHORT}")
    return found


def _of_others(config: Config) -> str:
    """Say which of those who reach the gateway will miss a dashboard that has no keys either."""
    if config.dashboard.keys or not config.dashboard.is_served:
        return ""
    return "; the dashboard answers only clients on the same machine until dashboard.keys is set"


def warnings_of_workers(config: Config, cpus: int) -> list[str]:
    """Return a sentence for more workers than CPUs, and for each provider with fewer connections."""
    workers = cpus if config.workers == AUTO else config.workers
    if workers is None:
        return []
    more = f"workers: {workers}, but the service may use only {cpus} CPUs"
    found = [more] if workers > cpus else []
    for provider in config.providers.values():
        most = provider.max_connections
        if most is not None and most < workers:
            where = dotted_path(("providers", provider.name, "max_connections"))
            found.append(f"{where}: {most} is fewer than one connection for each of the {workers} workers")
    return found


class AtStart(Struct, frozen=True):
    """What only a restart can change."""

    listen: str
    has_tls: bool
    has_workers: bool
    has_redis: bool

    @classmethod
    def of(cls, config: Config) -> AtStart:
        """Return it for the configuration that a gateway starts with."""
        return cls(
            redact(str(config.listen)),
            config.tls is not None,
            config.workers is not None,
            config.fleet.redis is not None,
        )


def warnings_of_restart(config: Config, at_start: AtStart) -> list[str]:
    """Return a sentence for each setting that differs from the start and waits for another one."""
    later, now = "takes effect after a restart", AtStart.of(config)
    found = []
    if now.listen != at_start.listen:
        found.append(f"listen: {now.listen} {later}; until then the gateway listens on {at_start.listen}")
    if now.has_tls != at_start.has_tls:
        found.append(f"tls: turning TLS {'on' if now.has_tls else 'off'} {later}")
    if now.has_workers != at_start.has_workers:
        found.append(f"workers: turning workers {'on' if now.has_workers else 'off'} {later}")
    if now.has_redis and not at_start.has_redis:
        found.append(f"fleet.redis: turning it on {later}")
    return found


def warnings_of_files(config: Config) -> list[str]:
    """Return a sentence for more clients than this process may have files open for."""
    from mgw.ops.process import FILES_PER_CLIENT, file_limit, max_clients_for  # with it comes Twisted

    files, clients = file_limit(), config.max_clients
    if clients is None or clients <= max_clients_for(files):
        return []
    needed = clients * FILES_PER_CLIENT
    return [
        (
            f"max_clients: {clients} clients may need more than {needed} open files, and the process may "
            f"open {files}: raise its limit (LimitNOFILE of systemd, ulimit -n)"
        )
    ]


def final_addresses(config: Config) -> list[str]:
    """Return, per provider, the method and address of one call as it will go out."""
    return [
        f"{dotted_path((provider.name,))}: POST {_sample(provider)}" for provider in config.providers.values()
    ]


def _sample(provider: Provider) -> str:
    wire, model = wire_of(provider), provider.models[0] if provider.models else "{model}"
    try:
        call = chat_call(provider, wire, model)
    except GatewayError:  # the host does not serve this one
        call = chat_call(provider, wire, "{model}")
    return redact(shown_address(provider.base_url, call.target))


def _of_key(provider: Provider) -> list[str]:
    """Warn of a key that is not hidden, and of a host that gets the keys of the clients."""
    where = dotted_path(("providers", provider.name))
    oauth = provider.oauth
    keys = [getattr(provider, name) for name in CREDENTIALS]
    keys += [] if oauth is None else [oauth.client_secret, oauth.refresh_token]
    if any(isinstance(key, Secret) and len(key.reveal()) < MIN_HIDDEN for key in keys):
        return [f"{where}: its key has {_TOO_SHORT}"]
    if KINDS[provider.kind].base_url is None and provider.auth is None and not provider.subscriptions:
        return [f"{where}: {_KEYLESS}"]
    return []


def _of_token_url(provider: Provider) -> list[str]:
    """Warn of secrets and tokens that travel in clear text."""
    url = None if provider.oauth is None else provider.oauth.token_url
    if url is None or not url.lower().startswith("http:") or is_loopback(urlsplit(url).hostname or ""):
        return []
    where = dotted_path(("providers", provider.name, "oauth", "token_url"))
    return [f"{where}: plain HTTP, so secrets and tokens travel in clear text"]


def _of_public_url(config: Config) -> list[str]:
    """Warn of an address that leads clients, with their keys, to plain HTTP where the listener has none."""
    listen = config.listen
    secure = config.tls is not None or (isinstance(listen, EndpointText) and listen.brings_tls)
    if not secure or config.public_url is None or config.public_url.startswith("https:"):
        return []
    return [f"public_url: {redact(config.public_url)} is plain HTTP, but the listener uses TLS"]


def _of_base_url(provider: Provider) -> list[str]:
    """Warn of an address without its version, or with the path of a call at its end."""
    row = KINDS[provider.kind]
    segments = [segment for segment in urlsplit(provider.base_url).path.split("/") if segment]
    where = f"{dotted_path(('providers', provider.name, 'base_url'))}: {redact(provider.base_url)}"
    if provider.base_url.endswith(row.chat_path):
        return [f"{where} ends with the path of a call; calls will go to {_sample(provider)}"]
    if provider.base_url.endswith(_OPENAI_AT_GOOGLE):
        wire = f"{where} is Google's OpenAI-compatible API: for Gemini's own API, leave out /openai"
        return [] if row.family is Family.OPENAI else [wire]
    if row.family is Family.OPENAI and provider.base_url.endswith(_OPENAI_AT_DATABRICKS):
        return []
    if row.version is None or any(map(row.version.fullmatch, segments)):
        return []
    usual = " or ".join(row.versions)
    return [
        (
            f"{where} has no version segment ({usual}), and the gateway adds none; "
            f"calls will go to {_sample(provider)}"
        )
    ]
