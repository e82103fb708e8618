"""A gateway with more of everything than a page likes, which a scenario can restart and drain.

A scenario does so with ``POST /restart`` and ``POST /drain`` at the address in ``MGW_CONTROL``.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ROOT

EDGE_KEY: Final = "edge-canary-alice"
OTHER_KEY: Final = "edge-canary-other"
DASHBOARD_KEY: Final = "dashboard-canary-crowd"
LONG: Final = (
    "a-deployment-of-a-large-model-with-a-name-that-somebody-has-made-far-too-long-"
    "2026-01-31-preview-eu-central-1"
)
ARABIC: Final = "نموذج-اللغة-العربية-الكبير"
MODELS: Final = 500
PROVIDERS: Final = 50


def crowd(url: str, broken: int, folder: Path) -> str:
    """Return the configuration; all providers but one are the simulator at ``url``.

    :param broken: a port on which nobody listens.
    """
    profile = (ROOT / "etc" / "mgw-profile-simulator.yaml").read_text(encoding="utf-8")
    profile = profile.replace("http://127.0.0.1:8788", url).replace("  port: 0", "  port: 14556")
    (folder / "profile.yaml").write_text(profile, encoding="utf-8")
    models = ", ".join(f"gpt-{number:03}-mini" for number in range(MODELS - 2))
    many = "\n".join(
        f'  region-{number:02}: {{kind: openai_compat, base_url: "{url}/v1", api_key: sk-canary-{number}}}'
        for number in range(PROVIDERS - 6)
    )
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary, models: [{models}, {LONG}, "{ARABIC}"]}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-canary-claude}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: AIza-canary}}
  broken: {{kind: openai_compat, base_url: "http://127.0.0.1:{broken}/v1", api_key: sk-canary-broken}}
  the-team-in-frankfurt-with-a-long-name:
    {{kind: openai_compat, base_url: "{url}/v1", api_key: sk-canary-long}}
  sub:
    kind: anthropic
    base_url: "{url}/v1"
    models: [m]
    pool: {{credentials: [home, work], profile: sim}}
{many}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
aliases: {{fast: main/gpt-fast, voice: main/gpt-realtime, spare: [broken/gpt-x, main/gpt-x, claude/claude-x]}}
edge_auth:
  enabled: true
  keys:
    - {{name: alice, key: {EDGE_KEY}}}
    - {{name: the-nightly-batch-of-the-documentation-team, key: {OTHER_KEY}}}
dashboard: {{enabled: true, keys: [{DASHBOARD_KEY}]}}
prices: {{rows: [{{model: "*", input: 2.5, output: 10}}]}}
profiles: {{sim: {{file: {folder}/profile.yaml}}}}
credential_store: {folder}/credentials/store.json
hooks: {{jsonl: {{output: stdout}}, sqlite: {{path: {folder}/usage.sqlite}}}}
"""


@dataclass
class Restarts:
    """A gateway that keeps its port from one start to the next."""

    config: str
    stack: ExitStack = field(default_factory=ExitStack)
    gateway: GatewayProcess = field(init=False)

    def start(self) -> None:
        """Start it."""
        self.gateway = self.stack.enter_context(start_gateway(self.config))
        if "\nlisten:" not in self.config:
            self.config += f"\nlisten: 127.0.0.1:{self.gateway.port}\n"

    def restart(self) -> None:
        """Stop it, and start it again."""
        self.stack.close()
        self.start()

    def drain(self) -> None:
        """Let it finish what is under way, and stop then."""
        self.gateway.signal(signal.SIGTERM)


@contextmanager
def controlled(config: str) -> Iterator[tuple[GatewayProcess, str]]:
    """Start a gateway, and what a scenario controls it with; return both addresses."""
    restarts = Restarts(config)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            {"/restart": restarts.restart, "/drain": restarts.drain}[self.path]()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    with restarts.stack:
        restarts.start()
        thread.start()
        try:
            yield restarts.gateway, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
