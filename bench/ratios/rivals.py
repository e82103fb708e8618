"""Other gateways for models in front of the same upstream: LiteLLM's proxy and Portkey's gateway.

They are installed for the benchmark alone (``make bench-rivals``), LiteLLM into ``.venv-bench`` and Portkey
into ``.portkey``, and are slow, so a few hundred requests are enough.  Where one is not there, its rows stay
empty.  Both are told to say nothing to anybody; a price list that LiteLLM would fetch is the one it brings.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import which

from bench.load import EDGE_KEY
from bench.machines import ROOT
from bench.processes import Bench, Launch, Server

START_SECONDS = 90.0
LITELLM_PROGRAM = ROOT / ".venv-bench" / "bin" / "litellm"
PORTKEY_PROGRAM = ROOT / ".portkey" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
_MODELS = ("bench-1k", "bench-stream-100-20")
_ENVIRONMENT = ("LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=ERROR")


class NotInstalledError(Exception):
    """A rival is not there; the text says how it is had."""


def start_litellm(bench: Bench) -> Server:
    """Start LiteLLM's proxy with a key of its own, as our gateway has one.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    if not LITELLM_PROGRAM.exists():
        raise NotInstalledError(f"{LITELLM_PROGRAM.relative_to(ROOT)} is not there: make bench-rivals")
    return bench.launch("litellm", Launch(_litellm_command, "/health/liveliness", START_SECONDS))


def start_portkey(bench: Bench) -> Server:
    """Start Portkey's gateway, which is told in each request where the provider is.

    :raises NotInstalledError: it is not there.
    :raises DidNotStartError: it does not answer.
    """
    if not PORTKEY_PROGRAM.exists() or which("node") is None:
        raise NotInstalledError(
            f"{PORTKEY_PROGRAM.relative_to(ROOT)} or node is not there: make bench-rivals"
        )
    server = bench.launch("portkey", Launch(_portkey_command, "/", START_SECONDS))
    upstream = f"http://127.0.0.1:{bench.upstream_port}/v1"
    return replace(server, more_headers=("X-Portkey-Provider: openai", f"X-Portkey-Custom-Host: {upstream}"))


def _litellm_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    config = folder / "litellm.yaml"
    to = f'api_base: "http://127.0.0.1:{fill["upstream_port"]}/v1", api_key: "bench-upstream-key"'
    rows = [
        f'  - {{model_name: "{model}", litellm_params: {{model: "openai/{model}", {to}}}}}'
        for model in _MODELS
    ]
    config.write_text(
        "\n".join(["model_list:", *rows, f'general_settings: {{master_key: "{EDGE_KEY}"}}', ""])
    )
    where = ("--host", "127.0.0.1", "--port", fill["port"])
    return [
        "env",
        *_ENVIRONMENT,
        str(LITELLM_PROGRAM),
        "--config",
        str(config),
        *where,
        "--telemetry",
        "False",
    ]


def _portkey_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    return [
        "env",
        "NODE_ENV=production",
        "node",
        str(PORTKEY_PROGRAM),
        "--headless",
        f"--port={fill['port']}",
    ]
