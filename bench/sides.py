"""The servers of a run, by name: nginx, gateways and rivals before an upstream, one of them with TLS.

TLS is terminated by an nginx on the load core, since the compiled upstream speaks none; its certificate is
made for the run, and both proxies verify it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from bench.interpreters import DEBIAN
from bench.load import EDGE_KEY, NothingMeasuredError, unary
from bench.machines import ROOT
from bench.processes import LOAD_CORE, Bench, DidNotStartError, Server, free_port
from bench.results import progress
from bench.rivals import (
    NotInstalledError,
    start_decoding_relay,
    start_envoy,
    start_ferro,
    start_line,
    start_litellm,
    start_portkey,
    start_tensorzero,
)
from tests.support.wires import WIRES

MANY = 1000
"""Aliases, or gateway keys, of a gateway that has many."""
DIRECT, NGINX, KLEIN, GATEWAY = "direct", "nginx", "klein+treq", "gateway"
NGINX_GATHERS = "nginx, whole bodies"
"""It waits until a request is whole, as a gateway must that looks for the model in it."""
NGINX_DEFAULTS = "nginx, its defaults"
"""It also waits, and writes what exceeds a buffer of 16 KiB to a temporary file."""
TLS_NGINX, TLS_GATEWAY = "nginx to TLS", "gateway to TLS"
ONE_ALIAS = "gateway, 1 alias"
MANY_ALIASES = f"gateway, {MANY:,} aliases"
MANY_KEYS = f"gateway, {MANY:,} gateway keys"
LITELLM, PORTKEY = "LiteLLM's proxy", "Portkey's gateway"
FERRO, TENSORZERO, ENVOY = "Ferro's gateway", "TensorZero's gateway", "Envoy"
RIVALS: dict[str, Callable[..., Server]] = {
    LITELLM: start_litellm,
    PORTKEY: start_portkey,
    FERRO: start_ferro,
    TENSORZERO: start_tensorzero,
    ENVOY: start_envoy,
}
"""How those are started; Envoy is a plain proxy here, as nginx is."""
DEBIAN_PYTHON = ROOT / ".venv-deb" / "bin" / "python"
"""Debian's interpreter with the gateway, where that is another one than this."""
SESSIONS_NGINX, DECODING, SESSIONS_GATEWAY = "nginx, upgraded", "decoding relay", "gateway, sessions"
PREFIXES = {"chat": "up/", "anthropic": "messages/", "gemini": "contents/"}
"""What stands before the models of each wire's provider in ``bench/mgw.yaml``."""
DIRECTIONS = {f"{client} to {provider}": (client, provider) for client in WIRES for provider in WIRES}
"""The gateway, asked on one wire for a model of another's provider."""
TRANSLATED = ("chat to anthropic", "anthropic to chat", "chat to gemini")


def on_debian(name: str) -> str:
    """Return the name of the same side, run by Debian's interpreter."""
    return f"{name}, on Debian's Python"


_GATHERS = "client_body_buffer_size 32m;"
_DEFAULTS = "client_body_buffer_size 16k;"
_UPGRADE = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"


@dataclass(slots=True)
class Sides:
    """The servers that are measured, by name; one that did not start is missing, and its problem noted."""

    bench: Bench
    servers: dict[str, Server] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the programs and bodies of the run are."""
        return self.bench.folder

    def start(self, names: set[str]) -> None:
        """Start those that are asked for."""
        bench, wanted = self.bench, {*names}
        on_both = {GATEWAY: DIRECTIONS.keys(), on_debian(GATEWAY): {*map(on_debian, DIRECTIONS)}}
        wanted |= {gateway for gateway, its in on_both.items() if wanted & its}
        starters: dict[str, Callable[[], Server]] = {
            DIRECT: lambda: bench.servers[0],
            NGINX: lambda: bench.start("nginx"),
            NGINX_GATHERS: lambda: bench.start("nginx", label="gathers", upload=_GATHERS),
            NGINX_DEFAULTS: lambda: bench.start("nginx", label="defaults", upload=_DEFAULTS, download=""),
            KLEIN: lambda: bench.start("klein+treq"),
            GATEWAY: lambda: bench.start("gateway"),
            SESSIONS_NGINX: lambda: bench.start("nginx", upgrade=_UPGRADE),
            SESSIONS_GATEWAY: lambda: replace(bench.start("gateway"), model_prefix="sessions/"),
            DECODING: lambda: start_decoding_relay(bench),
            **self._large(),
            **(self._tls() if wanted & {TLS_NGINX, TLS_GATEWAY} else {}),
            on_debian(GATEWAY): lambda: self.start_debian("on-debian"),
            **{name: partial(start, bench) for name, start in RIVALS.items()},
        }
        for name, start in starters.items():
            if name in wanted:
                progress(f"starting {name}")
                self._try(name, start)
        for name in wanted & DIRECTIONS.keys():
            self._aim(name, name, GATEWAY)
        for name in DIRECTIONS:
            if on_debian(name) in wanted:
                self._aim(name, on_debian(name), on_debian(GATEWAY))

    def _aim(self, direction: str, name: str, gateway: str) -> None:
        client, provider = DIRECTIONS[direction]
        if gateway in self.servers:
            self.servers[name] = replace(self.servers[gateway], wire=client, model_prefix=PREFIXES[provider])

    def start_debian(self, label: str, **fill: str) -> Server:
        """Start a gateway on Debian's interpreter.

        :raises NotInstalledError: there is none that is another one than this.
        :raises DidNotStartError: it does not answer.
        """
        if not DEBIAN_PYTHON.exists():
            why = (
                f"no {DEBIAN_PYTHON.relative_to(ROOT)}, which make bench-ratios and make bench-public install"
            )
            raise NotInstalledError(f"{why} where {DEBIAN} is another Python")
        return self._gateway(label, "up/", python=str(DEBIAN_PYTHON), **fill)

    def start_lines(self) -> dict[str, str]:
        """Return how each server was started."""
        lines = {name: start_line(server, self.folder) for name, server in self.servers.items()}
        return {f"started as, {name}": line for name, line in lines.items() if line}

    def warm_up(self, connections: int) -> None:
        """Send each server some requests, so that what a first crowd sets off is over."""
        for name, server in [*self.servers.items()]:
            try:
                unary(server, self.folder, 1, connections, 1)
            except (NothingMeasuredError, OSError, subprocess.TimeoutExpired) as problem:
                self.problems.append(f"{name} does not answer requests: {problem}")
                del self.servers[name]

    def _large(self) -> dict[str, Callable[[], Server]]:
        asked = "alias-bench-1k: up/bench-1k"
        others = ", ".join(f"other-{count}: up/bench-1k" for count in range(MANY - 1))
        keys = "".join(f'"{EDGE_KEY}-{count}", ' for count in range(MANY - 1))
        return {
            ONE_ALIAS: lambda: self._gateway("one-alias", "alias-", aliases=asked),
            MANY_ALIASES: lambda: self._gateway("many-aliases", "alias-", aliases=f"{others}, {asked}"),
            MANY_KEYS: lambda: self._gateway("many-keys", "up/", other_keys=keys),
        }

    def _tls(self) -> dict[str, Callable[[], Server]]:
        """Start an upstream with TLS, and return how its proxies are started."""
        try:
            certificate, port = make_certificate(self.folder), free_port()
            listen = (
                f"listen 127.0.0.1:{port} ssl backlog=4096; ssl_certificate {certificate}; "
                f"ssl_certificate_key {certificate.with_suffix('.key')};"
            )
            self.bench.start("nginx", label="tls", core=str(LOAD_CORE), listen_tls=listen)
        except (DidNotStartError, OSError, subprocess.CalledProcessError) as problem:
            self.problems.append(f"no upstream with TLS: {problem}")
            return {}
        verify = (
            f"proxy_ssl_trusted_certificate {certificate}; proxy_ssl_verify on; proxy_ssl_name localhost; "
            "proxy_ssl_server_name on;"
        )
        to = {"scheme": "https", "upstream_port": str(port)}
        ca = f'ca_file: "{certificate}"'
        return {
            TLS_NGINX: lambda: self.bench.start("nginx", label="tls-nginx", verify_tls=verify, **to),
            TLS_GATEWAY: lambda: self._gateway("tls-gateway", "up/", ca_file=ca, **to),
            on_debian(TLS_GATEWAY): lambda: self.start_debian("tls-on-debian", ca_file=ca, **to),
        }

    def _gateway(self, label: str, prefix: str, **fill: str) -> Server:
        return replace(self.bench.start("gateway", label=label, **fill), model_prefix=prefix)

    def _try(self, name: str, start: Callable[[], Server]) -> None:
        try:
            self.servers[name] = start()
        except (DidNotStartError, NotInstalledError) as problem:
            self.problems.append(f"{name}: {problem}")


def make_certificate(folder: Path) -> Path:
    """Make a certificate for this machine that is its own authority; the key lies beside it, as ``.key``."""
    certificate = folder / "upstream.pem"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = ["-out", str(certificate), "-keyout", str(certificate.with_suffix(".key"))]
    command = ["openssl", *key.split(), "-addext", names, *files]
    subprocess.run(command, check=True, capture_output=True)
    return certificate
