"""Subscription accounts over sockets: one configuration, the simulator that it is for, and ``mgw auth``."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.commands import MGW, run_mgw
from tests.support.fork_server import Process, fork_program
from tests.support.gateway import CANARY, Collected, GatewayProcess
from tests.support.operations import ROOT
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS

TOKENS = (b"sim-access", b"sim-refresh", b"sim-code", CANARY + b"-token")


@dataclass
class Desk:
    """One configuration, the simulator that it is for, and the command."""

    folder: Path
    simulator: SimulatorProcess
    more: str = ""

    @property
    def config(self) -> str:
        return f"""
providers:
  sub:
    kind: anthropic
    base_url: {self.simulator.url}/v1
    models: [m]
    pool: {{credentials: [a, b], profile: sim}}
  other: {{kind: anthropic, base_url: "{self.simulator.url}/v1", api_key: any-old-key, models: [n]}}
profiles:
  sim: {{file: {self.folder}/profile.yaml}}
credential_store: {self.folder}/credentials/store.json
"""

    def write(self) -> None:
        text = (ROOT / "etc" / "mgw-profile-simulator.yaml").read_text(encoding="utf-8")
        text = text.replace("http://127.0.0.1:8788", self.simulator.url)
        (self.folder / "profile.yaml").write_text(text + self.more, encoding="utf-8")
        (self.folder / "mgw.yaml").write_text(self.config, encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        """Return the arguments of ``mgw``."""
        return ["auth", *arguments, "-c", str(self.folder / "mgw.yaml")]

    def run(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end, without a terminal."""
        done = run_mgw(self.command(*arguments), folder=self.folder, stdin=stdin)
        assert_no_token(done.stdout + done.stderr)
        return done

    @contextmanager
    def running(self, *arguments: str) -> Iterator[tuple[Process, Collected]]:
        """Run a command that waits; its standard error is collected."""
        process = fork_program([*MGW, *self.command(*arguments)], self.folder, {})
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process, Collected(process.stderr)
            assert_no_token(process.stdout.read())
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def account(self, name: str = "", **settings: object) -> dict[str, Any]:
        """Settle what holds for an account of the simulator."""
        query = {key.replace("_", "-"): str(value) for key, value in settings.items()}
        if name:
            query["name"] = name
        found: dict[str, Any] = json.loads(
            fetch(f"{self.simulator.url}/_sim/accounts?{urlencode(query)}", "PUT")
        )
        return found

    def import_login(self, entry: str, account: str, **more: object) -> None:
        """Put an account of the simulator into the store."""
        code = {
            "response_type": "code",
            "client_id": "mgw-example",
            "redirect_uri": "http://h/c",
            "account": account,
        }
        challenge = {
            "code_challenge": "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU",
            "code_challenge_method": "S256",
        }
        page = f"{self.simulator.url}/login/authorize?{urlencode(code | challenge)}"
        try:
            NO_REDIRECTS.open(page, timeout=WAIT_SECONDS)
        except urllib.error.HTTPError as redirect:
            location = redirect.headers["Location"]
        grant = {"grant_type": "authorization_code", "client_id": "mgw-example", "redirect_uri": "http://h/c"}
        form = urlencode({**grant, "code": location.partition("code=")[2], "code_verifier": ""}).encode()
        tokens = json.loads(fetch(f"{self.simulator.url}/login/token", "POST", form))
        del tokens["account"]
        done = self.run(
            "import",
            entry,
            stdin=json.dumps({**tokens, "details": {"account_id": f"id-{account}"}, **more}).encode(),
        )
        assert done.returncode == 0, done.stderr


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


NO_REDIRECTS = urllib.request.build_opener(_NoRedirects)


def fetch(url: str, method: str = "GET", body: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, body, method=method)
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        found: bytes = answer.read()
    return found


def assert_no_token(output: bytes) -> None:
    assert not any(token in output for token in TOKENS), output
    assert b"Traceback" not in output, output


def message(gateway: GatewayProcess, model: str = "sub/m", path: str = "", **more: object) -> tuple[int, Any]:
    """Ask for a message; return the status, the headers of a refusal, and the body."""
    body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **more}
    if path:
        del body["max_tokens"]
    request = urllib.request.Request(
        f"{gateway.url}/v1/messages{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "anthropic-version": "2023-06-01"},
    )
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refusal:
        return refusal.code, dict(refusal.headers) | json.loads(refusal.read())
