"""What a fresh process has imported by its first response, and that all else is there when it is asked for.

A start is mostly imports, so what is held here is their number and some names, which no other work on the
machine can change.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Final

from tests.support.certificates import Authority
from tests.support.fork_server import PIPES, Streams, start_program
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import CHAT, asking
from tests.support.simulator import SimulatorProcess
from tests.support.tls_front import start_tls_front

RARE: Final = (
    "OpenSSL",
    "autobahn",
    "cryptography",
    "klein",
    "mgw.app.issuer_keys",
    "mgw.clients.tokens.key_set",
    "mgw.identity.issuers",
    "opentelemetry",
    "prometheus_client",
    "service_identity",
    "treq",
    "twisted.internet.ssl",
    "twisted.protocols.tls",
    "twisted.web.client",
    "twisted.web.server",
    "werkzeug",
)
"""What relaying to a provider without TLS takes no part of."""
MGW: Final = str(Path(sys.executable).parent / "mgw")
MOST_MODULES: Final = 1000
"""With those of Python and of twistd itself."""
MOST_SECONDS: Final = 2.5
"""CPU seconds until the first response: four times what it takes, for slow machines."""
MONITORED: Final = ("/", "/healthz", "/readyz", "/metrics")
LATE: Final = (
    "/ui",
    "/v1/dashboard/requests",
    "/v1/models?live=1",
    "/v1/health/providers",
)
SHARED: Final = (
    "klein",
    "mgw.dialects.anthropic",
    "mgw.dialects.gemini",
    "mgw.dialects.openai",
    "mgw.dialects.responses",
    "prometheus_client.registry",
    "treq",
    "werkzeug",
)
"""What workers may need, and none should have for itself."""
_IMPORTED: Final = re.compile(rb"^import time: .*\| +(\S+)$", re.MULTILINE)
_NOTING: Final = """
import atexit, runpy, sys
sys.argv = sys.argv[1:]
def note():
    with open("modules", "w") as file:
        file.write("\\n".join(sys.modules))
    with open("methods", "w") as file:
        file.write("\\n".join(sorted(generated_methods())))
def generated_methods():
    for name, module in sys.modules.items():
        for value in vars(module).values() if name.startswith("mgw.") else ():
            settings = vars(value).get("__dataclass_params__") if isinstance(value, type) else None
            if settings is None or settings.frozen or value.__module__ != name:
                continue
            if settings.eq or settings.repr:
                yield f"{name}.{value.__qualname__}"
atexit.register(note)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def start_noting(
    arguments: Sequence[str], folder: Path, environ: Mapping[str, str], streams: Streams = PIPES
) -> Popen[bytes]:
    """Start it in an interpreter of its own, which writes down at its end what it has imported."""
    return start_program(["-c", _NOTING, *arguments], folder, environ, streams)


def start_command_noting(
    arguments: Sequence[str], folder: Path, environ: Mapping[str, str], streams: Streams = PIPES
) -> Popen[bytes]:
    """Start the same configuration file as ``mgw run`` does."""
    return start_noting([MGW, "run", arguments[-1]], folder, environ, streams)


def configuration(url: str) -> str:
    return (
        f"providers: {{main: {{kind: openai, base_url: '{url}/v1', api_key: canary-key}}}}\n"
        "defaults: {openai_dialect: main}\nhealth_checks: {enabled: true}\n"
    )


def relay(gateway: GatewayProcess) -> None:
    """Have one request relayed."""
    assert ask(gateway.port, CHAT, body=asking("gpt-1")).status == 200


def cpu_seconds(gateway: GatewayProcess) -> float:
    """Return the CPU time of a process, with the start of the interpreter."""
    times = Path(f"/proc/{gateway.process.pid}/schedstat").read_text(encoding="ascii")
    return int(times.split()[0]) / 1e9


def modules_of(gateway: GatewayProcess) -> set[str]:
    """End a gateway, and return what it has imported."""
    assert gateway.stop() == 0
    return set((gateway.config_file.parent / "modules").read_text(encoding="ascii").splitlines())


def generated_methods(gateway: GatewayProcess) -> list[str]:
    """Return the classes of a gateway that has ended that compare or show the fields of their objects."""
    return (gateway.config_file.parent / "methods").read_text(encoding="ascii").splitlines()


def rare_ones(modules: set[str]) -> list[str]:
    return sorted(name for name in modules if f"{name}.".startswith(tuple(f"{rare}." for rare in RARE)))


def test_a_relayed_response_takes_only_what_relaying_needs(simulator: SimulatorProcess) -> None:
    with start_gateway(configuration(simulator.url), start=start_noting) as gateway:
        relay(gateway)
        seconds = cpu_seconds(gateway)
        modules = modules_of(gateway)
    assert "mgw.exchange.passthrough" in modules
    assert rare_ones(modules) == []
    assert len(modules) <= MOST_MODULES
    assert seconds <= MOST_SECONDS


def test_the_command_takes_no_http_client_of_pythons(simulator: SimulatorProcess) -> None:
    with start_gateway(configuration(simulator.url), start=start_command_noting) as gateway:
        relay(gateway)
        modules = modules_of(gateway)
    assert {"http.cookiejar", "twisted.python.compat"} <= modules
    assert not {"http.client", "urllib.request"} & modules


def test_what_has_a_lifetime_neither_compares_nor_shows_its_fields(simulator: SimulatorProcess) -> None:
    """Such methods take a twentieth of a start to generate, and a field may hold a key or a prompt."""
    with start_gateway(configuration(simulator.url), start=start_noting) as gateway:
        relay(gateway)
        modules_of(gateway)
        assert generated_methods(gateway) == []


def test_monitors_are_answered_without_klein(simulator: SimulatorProcess) -> None:
    with start_gateway(configuration(simulator.url), start=start_noting) as gateway:
        for path in MONITORED:
            assert gateway.get(path)
        modules = modules_of(gateway)
    assert "prometheus_client" in modules
    assert [name for name in rare_ones(modules) if not name.startswith("prometheus_client")] == []


def test_what_is_imported_late_responds_the_first_time(simulator: SimulatorProcess) -> None:
    with start_gateway(configuration(simulator.url), start=start_noting) as gateway:
        relay(gateway)
        for path in LATE:
            assert gateway.get(path)
        modules = modules_of(gateway)
    assert {"klein", "treq", "mgw.dashboard.app"} <= modules
    assert not {"OpenSSL", "cryptography"} & modules


def test_a_provider_behind_tls_takes_no_pyopenssl(simulator: SimulatorProcess, ca: Authority) -> None:
    with (
        start_tls_front(simulator.port, ca) as port,
        start_gateway(
            configuration(f"https://localhost:{port}"),
            {"SSL_CERT_FILE": str(ca.ca_file)},
            start=start_noting,
        ) as gateway,
    ):
        relay(gateway)
        modules = modules_of(gateway)
    assert "cryptography.x509" in modules
    assert not {"OpenSSL", "klein", "treq"} & modules


def test_what_workers_need_is_imported_once_for_all_of_them(simulator: SimulatorProcess) -> None:
    config = configuration(simulator.url) + "workers: 2\n"
    with start_gateway(config, {"PYTHONPROFILEIMPORTTIME": "1"}, start=start_program) as gateway:
        for _ in range(10):  # on connections of their own, so that both workers get some
            relay(gateway)
            assert gateway.get("/v1/models")
        assert gateway.get("/metrics")
        assert gateway.stop() == 0
        counts = Counter(name.decode() for name in _IMPORTED.findall(gateway.stderr.data))
    assert {name: counts[name] for name in SHARED} == dict.fromkeys(SHARED, 1)


def test_nothing_that_reads_certificates_is_imported_before_a_handshake() -> None:
    with start_gateway(configuration("https://localhost:1"), start=start_noting) as gateway:
        modules = modules_of(gateway)
    assert rare_ones(modules) == []
