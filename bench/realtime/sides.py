"""The servers of a run, all before the same echoing upstream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.machines import ROOT
from bench.measure import progress
from bench.processes import Bench, DidNotStartError, Launch, Server
from bench.ratios.rivals import NotInstalledError

DIRECT, NGINX, DECODING, GATEWAY = "direct", "nginx", "decoding relay", "gateway"
NAMES = (DIRECT, NGINX, DECODING, GATEWAY)
RIVALS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
_UPGRADE = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"
_MODEL_PREFIX = "sessions/"
"""The provider in ``mgw.yaml`` whose kind has realtime sessions."""


@dataclass(slots=True)
class Sides:
    """The servers that are measured, by name; one that did not start is missing, and its problem noted."""

    bench: Bench
    servers: dict[str, Server] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the programs and frames of the run are."""
        return self.bench.folder

    def start(self) -> None:
        """Start all of them."""
        self.servers[DIRECT] = self.bench.servers[0]
        self._try(NGINX, lambda: self.bench.start("nginx", upgrade=_UPGRADE))
        self._try(DECODING, self._start_decoding_relay)
        self._try(GATEWAY, lambda: replace(self.bench.start("gateway"), model_prefix=_MODEL_PREFIX))

    def _start_decoding_relay(self) -> Server:
        if not RIVALS_PYTHON.exists():
            raise NotInstalledError(f"{RIVALS_PYTHON.relative_to(ROOT)} is not there: make bench-rivals")
        return self.bench.launch("decoding relay", Launch(_decoding_relay_command))

    def _try(self, name: str, start: Callable[[], Server]) -> None:
        progress(f"starting {name}")
        try:
            self.servers[name] = start()
        except (DidNotStartError, NotInstalledError) as problem:
            self.problems.append(f"{name}: {problem}")


def _decoding_relay_command(folder: Path, fill: dict[str, str], _: tuple[str, ...]) -> list[str]:
    """Serve by ``decoding_relay.py``."""
    return [str(RIVALS_PYTHON), "-m", "bench.realtime.decoding_relay", fill["port"], fill["upstream_port"]]
