"""Other servers before the same upstream: LiteLLM's proxy, Portkey's gateway, a relay that decodes frames.

They are installed for the benchmark alone (``make bench-rivals``), LiteLLM and Autobahn into ``.venv-bench``
and Portkey into ``.portkey``.  The gateways are slow, so a few hundred requests are enough.  Where one is not
there, its rows stay empty.  Both are told to say nothing to anybody; a price list that LiteLLM would fetch is
the one it brings.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import which

from bench.load import EDGE_KEY
from bench.machines import ROOT
from bench.processes import Bench, Launch, Server

START_SECONDS = 90.0
RIVALS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
LITELLM_PROGRAM = ROOT / ".venv-bench" / "bin" / "litellm"
PORTKEY_PROGRAM = ROOT / ".portkey" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
_MODELS = ("bench-1k", "bench-stream-100-20")


class NotInstalledError(Exception):
    """A rival is not there; the text says how it is had."""


def _need(program: Path) -> None:
    if not program.exists():
        raise NotInstalledError(f"{program.relative_to(ROOT)} is not there: make bench-rivals")


def start_litellm(bench: Bench) -> Server:
    """Start LiteLLM's proxy with a key of its own, as our gateway has one.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    _need(LITELLM_PROGRAM)
    return bench.launch("litellm", Launch(_litellm_command, "/health/liveliness", START_SECONDS))


def start_portkey(bench: Bench) -> Server:
    """Start Portkey's gateway, which is told in each request where the provider is.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    _need(PORTKEY_PROGRAM)
    if which("node") is None:
        raise NotInstalledError("node is not there")
    server = bench.launch("portkey", Launch(_portkey_command, "/", START_SECONDS))
    upstream = f"http://127.0.0.1:{bench.upstream_port}/v1"
    return replace(server, more_headers=("X-Portkey-Provider: openai", f"X-Portkey-Custom-Host: {upstream}"))


def start_decoding_relay(bench: Bench) -> Server:
    """Start ``decoding_relay.py`` with an Autobahn that has its native parts.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    _need(RIVALS_PYTHON)
    return bench.launch("decoding relay", Launch(_decoding_relay_command))


def litellm_serve(config: Path, port: int | str) -> list[str]:
    """Return the command that serves a configuration of LiteLLM's."""
    quiet = ("LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=CRITICAL")
    where = ("--host", "127.0.0.1", "--port", str(port), "--telemetry", "False")
    return ["env", *quiet, str(LITELLM_PROGRAM), "--config", str(config), *where]


def _litellm_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    config = folder / "litellm.yaml"
    to = f'api_base: "http://127.0.0.1:{fill["upstream_port"]}/v1", api_key: "bench-upstream-key"'
    rows = [
        f'  - {{model_name: "{one}", litellm_params: {{model: "openai/{one}", {to}}}}}' for one in _MODELS
    ]
    settings = f'general_settings: {{master_key: "{EDGE_KEY}"}}'
    config.write_text("\n".join(["model_list:", *rows, settings, ""]))
    return litellm_serve(config, fill["port"])


def _portkey_command(_folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    return [
        "env",
        "NODE_ENV=production",
        "node",
        str(PORTKEY_PROGRAM),
        "--headless",
        f"--port={fill['port']}",
    ]


def _decoding_relay_command(_folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    return [str(RIVALS_PYTHON), "-m", "bench.decoding_relay", fill["port"], fill["upstream_port"]]


def autobahn_version() -> str:
    """Return the version that the decoding relay has."""
    libraries = RIVALS_PYTHON.parent.parent / "lib"
    names = [path.name for path in libraries.glob("python3*/site-packages/autobahn-*.dist-info")]
    return names[0].removeprefix("autobahn-").removesuffix(".dist-info") if names else "not installed"
