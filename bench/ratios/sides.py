"""The processes of a run: nginx and gateways before an upstream, one with TLS, and with large settings.

TLS is terminated by an nginx on the load core, since the compiled upstream speaks none; its certificate is
made for the run, and both proxies verify it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.load import EDGE_KEY
from bench.measure import progress
from bench.processes import LOAD_CORE, Bench, DidNotStartError, Server, free_port
from bench.ratios.rivals import NotInstalledError, start_litellm, start_portkey
from bench.translation.gateway import PROVIDERS
from bench.translation.wires import ANTHROPIC, CHAT, GEMINI

MANY = 1000
"""Aliases, or gateway keys, of a gateway that has many."""

DIRECT = "direct"
NGINX = "nginx"
GATEWAY = "gateway"
TLS_NGINX = "nginx to TLS"
TLS_GATEWAY = "gateway to TLS"
ONE_ALIAS = "gateway, 1 alias"
MANY_ALIASES = f"gateway, {MANY:,} aliases"
MANY_KEYS = f"gateway, {MANY:,} gateway keys"
LITELLM, PORTKEY = "LiteLLM's proxy", "Portkey's gateway"
TO_ANTHROPIC, FROM_ANTHROPIC, TO_GEMINI = "chat to anthropic", "anthropic to chat", "chat to gemini"
_TRANSLATED = {
    TO_ANTHROPIC: (CHAT, ANTHROPIC),
    FROM_ANTHROPIC: (ANTHROPIC, CHAT),
    TO_GEMINI: (CHAT, GEMINI),
}


@dataclass(slots=True)
class Sides:
    """The servers that are measured, by name; one that did not start is missing, and its problem noted."""

    bench: Bench
    servers: dict[str, Server] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _wanted: set[str] = field(default_factory=set)

    @property
    def folder(self) -> Path:
        """Where the programs and bodies of the run are."""
        return self.bench.folder

    def start(self, names: set[str]) -> None:
        """Start those of them that are asked for."""
        self._wanted = names
        self.servers[DIRECT] = self.bench.servers[0]
        self._try(NGINX, lambda: self.bench.start("nginx"))
        if self._wanted & {*_TRANSLATED}:
            self._wanted.add(GATEWAY)
        self._try(GATEWAY, lambda: self.bench.start("gateway"))
        gateway = self.servers.get(GATEWAY)
        if gateway is not None:
            for name, (client, provider) in _TRANSLATED.items():
                self.servers[name] = replace(gateway, wire=client, model_prefix=PROVIDERS[provider])
        self._start_tls()
        self._start_large()
        self._try(LITELLM, lambda: start_litellm(self.bench))
        self._try(PORTKEY, lambda: start_portkey(self.bench))

    def _start_tls(self) -> None:
        if not self._wanted & {TLS_NGINX, TLS_GATEWAY}:
            return
        try:
            certificate, port = make_certificate(self.folder), free_port()
            listen = (
                f"listen 127.0.0.1:{port} ssl backlog=4096; ssl_certificate {certificate}; "
                f"ssl_certificate_key {certificate.with_suffix('.key')};"
            )
            self.bench.start("nginx", label="tls", core=str(LOAD_CORE), listen_tls=listen)
        except (DidNotStartError, OSError, subprocess.CalledProcessError) as problem:
            self.problems.append(f"no upstream with TLS: {problem}")
            return
        verify = (
            f"proxy_ssl_trusted_certificate {certificate}; proxy_ssl_verify on; proxy_ssl_name localhost; "
            "proxy_ssl_server_name on;"
        )
        to = {"scheme": "https", "upstream_port": str(port)}
        self._try(TLS_NGINX, lambda: self.bench.start("nginx", label="tls-nginx", verify_tls=verify, **to))
        ca = f'ca_file: "{certificate}"'
        self._try(TLS_GATEWAY, lambda: self._start_gateway("tls-gateway", "up/", ca_file=ca, **to))

    def _start_large(self) -> None:
        asked = "alias-bench-1k: up/bench-1k"
        others = ", ".join(f"other-{number}: up/bench-1k" for number in range(MANY - 1))
        keys = "".join(f'"{EDGE_KEY}-{number}", ' for number in range(MANY - 1))
        self._try(ONE_ALIAS, lambda: self._start_gateway("one-alias", "alias-", aliases=asked))
        self._try(
            MANY_ALIASES,
            lambda: self._start_gateway("many-aliases", "alias-", aliases=f"{others}, {asked}"),
        )
        self._try(MANY_KEYS, lambda: self._start_gateway("many-keys", "up/", other_keys=keys))

    def _start_gateway(self, label: str, prefix: str, **fill: str) -> Server:
        return replace(self.bench.start("gateway", label=label, **fill), model_prefix=prefix)

    def _try(self, name: str, start: Callable[[], Server]) -> None:
        if name not in self._wanted:
            return
        progress(f"starting {name}")
        try:
            self.servers[name] = start()
        except (DidNotStartError, NotInstalledError) as problem:
            self.problems.append(f"{name}: {problem}")


def make_certificate(folder: Path) -> Path:
    """Make a certificate for this machine that is its own authority; the key lies beside it, as ``.key``."""
    certificate = folder / "upstream.pem"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", names),
            *("-out", str(certificate), "-keyout", str(certificate.with_suffix(".key"))),
        ],
        check=True,
        capture_output=True,
    )
    return certificate
