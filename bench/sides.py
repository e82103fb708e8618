"""The servers of a run, by name: nginx, gateways and rivals before an upstream, one of them with TLS.

TLS is terminated by an nginx on the load core, since the compiled upstream speaks none; its certificate is
made for the run, and both proxies verify it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.load import EDGE_KEY, unary
from bench.processes import LOAD_CORE, Bench, DidNotStartError, Server, free_port
from bench.results import progress
from bench.rivals import NotInstalledError, start_decoding_relay, start_litellm, start_portkey
from tests.support.wires import WIRES

MANY = 1000
"""Aliases, or gateway keys, of a gateway that has many."""
DIRECT, NGINX, KLEIN, GATEWAY = "direct", "nginx", "klein+treq", "gateway"
TLS_NGINX, TLS_GATEWAY = "nginx to TLS", "gateway to TLS"
ONE_ALIAS = "gateway, 1 alias"
MANY_ALIASES = f"gateway, {MANY:,} aliases"
MANY_KEYS = f"gateway, {MANY:,} gateway keys"
LITELLM, PORTKEY = "LiteLLM's proxy", "Portkey's gateway"
SESSIONS_NGINX, DECODING, SESSIONS_GATEWAY = "nginx, upgraded", "decoding relay", "gateway, sessions"
PREFIXES = {"chat": "up/", "anthropic": "messages/", "gemini": "contents/"}
"""What stands before the models of each wire's provider in ``bench/mgw.yaml``."""
DIRECTIONS = {f"{client} to {provider}": (client, provider) for client in WIRES for provider in WIRES}
"""The gateway, asked on one wire for a model of another's provider."""
TRANSLATED = ("chat to anthropic", "anthropic to chat", "chat to gemini")
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
        if wanted & DIRECTIONS.keys():
            wanted.add(GATEWAY)
        starters: dict[str, Callable[[], Server]] = {
            DIRECT: lambda: bench.servers[0],
            NGINX: lambda: bench.start("nginx"),
            KLEIN: lambda: bench.start("klein+treq"),
            GATEWAY: lambda: bench.start("gateway"),
            SESSIONS_NGINX: lambda: bench.start("nginx", upgrade=_UPGRADE),
            SESSIONS_GATEWAY: lambda: replace(bench.start("gateway"), model_prefix="sessions/"),
            DECODING: lambda: start_decoding_relay(bench),
            **self._large(),
            **(self._tls() if wanted & {TLS_NGINX, TLS_GATEWAY} else {}),
            LITELLM: lambda: start_litellm(bench),
            PORTKEY: lambda: start_portkey(bench),
        }
        for name, start in starters.items():
            if name in wanted:
                progress(f"starting {name}")
                self._try(name, start)
        gateway = self.servers.get(GATEWAY)
        if gateway is None:
            return
        for name in wanted & DIRECTIONS.keys():
            client, provider = DIRECTIONS[name]
            self.servers[name] = replace(gateway, wire=client, model_prefix=PREFIXES[provider])

    def warm_up(self, connections: int) -> None:
        """Send each server some requests, so that what a first crowd sets off is over."""
        for server in self.servers.values():
            unary(server, self.folder, 1, connections, 1)

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
