"""Every source of AWS keys, and no trace of them in logs, events, metrics, pages, answers and errors.

All secrets are known here: a host of the test's own gives the keys, and refuses each first request with words
that repeat it.  The simulator verifies what is signed with them.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote

import pytest

from tests.sockets.test_clouds_secrets import HEAD, talk
from tests.support.clouds import ENVIRON, KEY, KEY_ID, REGION, SECRET, SONNET, TOKEN, clouds
from tests.support.commands import run_mgw
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import RawResponse
from tests.support.raw_upstream import RawUpstream, Turn, counted
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import wait_until

ROLE: Final = "arn:aws:iam::123456789012:role/"
SOURCES: Final = ("role", "identity", "container", "instance")
IDENTITY: Final = "canary.web.identity-token"
CONTAINER: Final = "canary+token/of=the-container"
METADATA: Final = "canary-token-of-the-instance=="
MORE: Final = """
log: {format: %s}
dashboard: {enabled: true}
health_checks: {enabled: true}
hooks: {jsonl: {output: %s/events.jsonl}, sqlite: {path: %s/events.db}, error_messages: true}
"""
PAGES: Final = (
    *("/v1/dashboard/profiles", "/v1/dashboard/requests?limit=500", "/v1/dashboard/logs?lines=1000"),
    *("/v1/dashboard/sessions", "/v1/dashboard/usage", "/metrics", "/v1/health/providers"),
    "/v1/models?live=1",
)
COUNTS: Final = ("/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1beta/models/%s:countTokens")
_SIGNATURE: Final = re.compile(r"Signature=([0-9a-f]{64})")


@dataclass(frozen=True)
class Keys:
    """What a source gives."""

    key_id: str
    secret: str
    token: str

    @property
    def option(self) -> str:
        """The keys as the simulator takes them."""
        return f"{self.key_id}:{self.secret}:{self.token}"


def keys_of(name: str) -> Keys:
    return Keys(f"ASIA{name.upper():0<16}", f"canary/secret+of={name}", f"canary/session+of={name}//")


GIVEN: Final = {name: keys_of(name) for name in (*SOURCES, "task", "host")}
"""The keys by role; ``task`` and ``host`` are those of a container and an instance themselves."""
OWN: Final = Keys(KEY_ID, SECRET, TOKEN)
SECRETS: Final = [
    *(IDENTITY, CONTAINER, METADATA),
    *(part for keys in (OWN, *GIVEN.values()) for part in (keys.key_id, keys.secret, keys.token)),
]


@dataclass
class KeyHost:
    """STS, a container's endpoint and an instance's metadata service, in one."""

    refused: set[str] = field(default_factory=set)

    def answer(self, turn: Turn) -> None:
        """Give keys, but to who asks for the first time."""
        form = parse_qs(turn.body.decode())
        role = form.get("RoleArn", [ROLE])[0].removeprefix(ROLE)
        if f"{turn.target}{role}" not in self.refused or role == "lost":
            self.refused.add(f"{turn.target}{role}")
            turn.send(counted(self.repeated(turn), b"Content-Type: text/xml", status=403))
        elif turn.target == "/sts":
            turn.send(counted(role_xml(form["Action"][0], GIVEN[role]), b"Content-Type: text/xml"))
        elif turn.target == "/container":
            assert turn.value(b"authorization") == CONTAINER.encode()
            turn.send(counted(keys_json(GIVEN["task"])))
        elif turn.target.endswith("/api/token"):
            turn.send(counted(METADATA.encode()))
        else:
            assert turn.value(b"x-aws-ec2-metadata-token") == METADATA.encode()
            name = turn.target.rpartition("/")[2]
            turn.send(counted(keys_json(GIVEN["host"]) if name else b"my-role"))

    def repeated(self, turn: Turn) -> bytes:
        """Return a refusal that repeats a request, with what the service would have given."""
        lines = "\n".join(f"{name.decode()}:{value.decode()}" for name, value in turn.headers)
        said = f"{lines}\n{turn.body.decode()}\n{' '.join(SECRETS)}".replace("&", "&amp;")
        error = f"<Error><Code>AccessDenied</Code><Message>{said}</Message></Error>"
        return f"<ErrorResponse>{error}</ErrorResponse>".encode()


def expiration() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def role_xml(action: str, keys: Keys) -> bytes:
    return f"""<{action}Response><{action}Result><Credentials>
      <AccessKeyId>{keys.key_id}</AccessKeyId><SecretAccessKey>{keys.secret}</SecretAccessKey>
      <SessionToken>{keys.token}</SessionToken><Expiration>{expiration()}</Expiration>
    </Credentials></{action}Result></{action}Response>""".encode()


def keys_json(keys: Keys) -> bytes:
    found = {"AccessKeyId": keys.key_id, "SecretAccessKey": keys.secret, "Token": keys.token}
    return json.dumps({**found, "Expiration": expiration(), "Code": "Success"}).encode()


@pytest.fixture(scope="module")
def amazon() -> Iterator[SimulatorProcess]:
    with start_simulator(*(keys.option for keys in (OWN, *GIVEN.values()))) as simulator:
        yield simulator


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / "identity").write_text(IDENTITY)
    (tmp_path / ".aws" / "config").write_text(
        f"[profile container]\nrole_arn = {ROLE}container\ncredential_source = EcsContainer\n"
        f"[profile instance]\nrole_arn = {ROLE}instance\ncredential_source = Ec2InstanceMetadata\n"
    )
    return tmp_path


def providers(url: str, keys_url: str, home: Path) -> dict[str, dict[str, Any]]:
    """Return a provider for each source, and one whose role nobody may assume."""
    settings: dict[str, dict[str, str]] = {
        "role": {"role_arn": f"{ROLE}role"},
        "identity": {"role_arn": f"{ROLE}identity", "web_identity_token_file": str(home / "identity")},
        "container": {"profile": "container"},
        "instance": {"profile": "instance"},
        "lost": {"role_arn": f"{ROLE}lost"},
    }
    common = {"kind": "bedrock", "base_url": url, "auth": "aws"}
    aws = {"region": REGION, "sts_url": f"{keys_url}/sts"}
    return {name: {**common, "aws": {**aws, **own}} for name, own in settings.items()}


def environ_of(keys_url: str, home: Path) -> dict[str, str]:
    return {
        **ENVIRON,
        "HOME": str(home),
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{keys_url}/container",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": CONTAINER,
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{keys_url}/imds",
    }


def count(gateway: GatewayProcess, model: str) -> Iterator[RawResponse]:
    """Count the tokens of a model in each API that has counts."""
    turn = [{"role": "user", "content": "hi"}]
    body = {"model": model, "messages": turn, "contents": [{"parts": [{"text": "hi"}]}]}
    for path in COUNTS:
        own = {"model": model, "input": "hi"} if "responses" in path else body
        yield ask(gateway.port, path.replace("%s", model), *HEAD, body=json.dumps(own).encode())


def until_it_has_keys(gateway: GatewayProcess, model: str) -> list[RawResponse]:
    """Ask until no source refuses; return all answers."""
    answers: list[RawResponse] = []
    while not answers or answers[-1].status == 502:
        assert len(answers) < 8, answers[-1].body
        answers.append(next(talk(gateway, model)))
    return answers


def assert_hidden(where: str, text: bytes, signatures: set[str]) -> None:
    for secret in SECRETS:
        for spelled in {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}:
            assert spelled.encode() not in text, (where, secret)
    found = set(re.findall(r"[0-9a-f]{64}", text.decode("latin-1")))
    assert not found & signatures, where


@pytest.mark.parametrize("log", ["text", "json"])
def test_no_source_of_keys_leaves_a_trace(
    amazon: SimulatorProcess, upstream: RawUpstream, home: Path, log: str
) -> None:
    upstream.begin(KeyHost().answer)
    amazon.clear()
    environ = environ_of(upstream.url, home)
    text = clouds(amazon.url, MORE % (log, home, home), **providers(amazon.url, upstream.url, home))
    answers: list[RawResponse] = []
    signatures: set[str] = set()
    with start_gateway(text, environ) as gateway:
        for source in ("invoke", *SOURCES):
            model = f"{source}/{SONNET}"
            answers += until_it_has_keys(gateway, model)
            answers += [
                *talk(gateway, model),
                *count(gateway, model),
                *talk(gateway, f"{model}+sim-aws-deny"),
            ]
            answers += [next(talk(gateway, f"{model}+sim-aws-expired"))]
            signed = [request.value("authorization") or "" for request in amazon.requests()]
            signatures |= {found for line in signed for found in _SIGNATURE.findall(line)}
            amazon.clear()
        answers += talk(gateway, f"lost/{SONNET}")
        assert {answer.status for answer in answers} == {200, 403, 502}
        assert {turn.target for turn in upstream.turns} >= {"/sts", "/container", "/imds/latest/api/token"}
        signed = [(turn.value(b"authorization") or b"").decode() for turn in upstream.turns]
        signatures |= {found for line in signed for found in _SIGNATURE.findall(line)}
        events = home / "events.jsonl"
        wait_until(lambda: events.read_bytes().count(b"\n") >= len(answers), "all events")
        pages = {page: gateway.get(page, {"authorization": f"Bearer {KEY}"}) for page in PAGES}
        checked = run_mgw(["check", "-c", str(gateway.config_file)], environ=environ)
    assert len(signatures) > 30
    assert checked.returncode == 0, checked
    for number, answer in enumerate(answers):
        assert_hidden(f"answer {number}", answer.body, signatures)
        assert_hidden(f"head {number}", repr(answer.headers).encode(), signatures)
    for page, found in {**pages, "mgw check": checked.stdout + checked.stderr}.items():
        assert_hidden(page, found, signatures)
    for name, written in (("log", gateway.stderr.data), ("output", gateway.stdout.data)):
        assert_hidden(name, written, signatures)
    assert_hidden("events", events.read_bytes(), signatures)
    with closing(sqlite3.connect(home / "events.db")) as table:
        rows = table.execute("SELECT * FROM usage_events").fetchall()
    assert len(rows) == len(answers)
    for file in home.glob("events.db*"):
        assert_hidden(file.name, file.read_bytes(), signatures)
    assert_hidden("rows", repr(rows).encode(), signatures)
