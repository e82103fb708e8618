"""Keys of AWS that the gateway gets itself, end to end: every source, every worker, every failure.

The simulator gives the keys, as STS, as a container's endpoint and as an instance's metadata service, and
verifies what is signed with them.  Every secret contains ``canary`` or is the simulator's own, and what the
gateway writes is searched for all of them.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import CHAT, RawClient, asking, chat
from tests.support.simulator import SeenRequest, SimulatorProcess, start_simulator
from tests.support.supervised import Workers
from tests.support.waiting import wait_until

KEY, SECRET = "AKIASIMULATED00000", "canary/secret+of=the-simulator"
ROLE: Final = "arn:aws:iam::123456789012:role/"
SOURCES: Final = ("settings", "profile", "environment", "role", "identity", "chain", "container", "instance")


@pytest.fixture(scope="module")
def amazon() -> Iterator[SimulatorProcess]:
    with start_simulator(f"{KEY}:{SECRET}") as simulator:
        yield simulator


@pytest.fixture(autouse=True)
def clear(amazon: SimulatorProcess) -> None:
    amazon.clear()


@pytest.fixture
def home(tmp_path: Path, amazon: SimulatorProcess) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / "identity").write_text("canary-identity\n")
    (tmp_path / ".aws" / "credentials").write_text(
        f"[keys]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    )
    (tmp_path / ".aws" / "config").write_text(
        f"[profile base]\nrole_arn = {ROLE}base\nsource_profile = keys\n"
        f"[profile chain]\nrole_arn = {ROLE}chain\nsource_profile = base\n"
    )
    return tmp_path


def config(amazon: SimulatorProcess, aws: Mapping[str, object], workers: int = 1) -> str:
    """Return a configuration with one provider; JSON is YAML."""
    settings = {"region": "us-east-1", "service": "bedrock", "sts_url": f"{amazon.url}/sim-aws/sts", **aws}
    provider = {"kind": "openai_compat", "base_url": f"{amazon.url}/v1", "auth": "aws", "aws": settings}
    lines = [f"workers: {workers}"] if workers > 1 else []
    lines += ["providers:", f"  main: {json.dumps(provider)}", "defaults: {openai_dialect: main}"]
    return "\n".join(lines) + "\n"


def settings_of(
    source: str, amazon: SimulatorProcess, home: Path
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the settings of a source, and its environment."""
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    services = f"{amazon.url}/sim-aws"
    aws: dict[str, dict[str, object]] = {
        "settings": {"access_key_id": KEY, "secret_access_key_env": "OWN_SECRET"},
        "profile": {"profile": "keys"},
        "role": {"role_arn": f"{ROLE}one", "external_id": "gw-7"},
        "identity": {"role_arn": f"{ROLE}two", "web_identity_token_file": str(home / "identity")},
        "chain": {"profile": "chain"},
    }
    environ = {
        "settings": {"OWN_SECRET": SECRET},
        "environment": keys,
        "role": keys,
        "container": {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{services}/container/task+sim-key-canary",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "canary",
        },
        "instance": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{services}/imds"},
    }
    return aws.get(source, {}), {"HOME": str(home), **environ.get(source, {})}


def chat_with(gateway: GatewayProcess, model: str = "gpt-5") -> int:
    return ask(gateway.port, CHAT, body=asking(f"main/{model}")).status


def to_provider(amazon: SimulatorProcess) -> list[SeenRequest]:
    return [request for request in amazon.requests() if request.target.startswith("/v1/")]


def for_keys(amazon: SimulatorProcess) -> list[SeenRequest]:
    return [request for request in amazon.requests() if request.target.startswith("/sim-aws/")]


def issued(request: SeenRequest) -> bytes | None:
    """Return the token of the session that a request was signed in."""
    token = request.value("x-amz-security-token")
    return None if token is None else token.encode()


def key_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


HASHES: Final = {
    "role": f"{ROLE}one",
    "identity": f"{ROLE}two",
    "chain": f"{ROLE}chain",
    "container": "container",
    "instance": "imds",
}


@pytest.mark.parametrize("source", SOURCES)
def test_requests_are_signed_with_the_keys_of_each_source(
    amazon: SimulatorProcess, home: Path, source: str
) -> None:
    aws, environ = settings_of(source, amazon, home)
    with start_gateway(config(amazon, aws), environ) as gateway:
        assert [chat_with(gateway) for _ in range(3)] == [200] * 3
        request = to_provider(amazon)[0]
        count = {"role": 1, "identity": 1, "chain": 2, "container": 1, "instance": 3}.get(source, 0)
        assert len(for_keys(amazon)) == count, "once for all requests"
        token = issued(request)
        assert (token is not None) == bool(count)
        assert gateway.events(3)[0]["key_hash"] == key_hash(HASHES.get(source, KEY))
        written = gateway.stdout.data + gateway.stderr.data + gateway.get("/metrics")
        assert b"ASIASIM" not in written
        assert token is None or token not in written
    if source == "role":
        (asked,) = for_keys(amazon)
        assert b"ExternalId=gw-7" in asked.body
        assert "/us-east-1/sts/aws4_request" in str(asked.value("authorization"))


def test_one_worker_asks_for_all(amazon: SimulatorProcess, home: Path) -> None:
    aws, environ = settings_of("chain", amazon, home)
    with start_gateway(config(amazon, aws, workers=2), environ) as gateway, ExitStack() as stack:
        workers = Workers(gateway)
        clients = [stack.enter_context(workers.connect(number % 2)) for number in range(8)]

        def status_of(client: RawClient, model: str = "gpt-1") -> int:
            client.send(chat(model))
            return client.read_response().status

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(status_of, clients)) == [200] * 8
            assert len(for_keys(amazon)) == 2, "for two roles"
            expired = [
                threads.submit(status_of, client, "gpt+sim-aws-expired") for client in clients
            ]  # the first key with this model
            assert [each.result() for each in expired] == [200] * 8
        assert len(for_keys(amazon)) == 3, "for the last role alone"
        killed = workers.kill(0)
        workers.wait_for_replacement(0, killed)
        with workers.connect(0) as client:
            assert status_of(client) == 200
        assert len(for_keys(amazon)) == 3
        assert b"ASIASIM" not in gateway.stderr.data + gateway.stdout.data


def test_keys_that_expire_are_renewed_while_requests_go_on(amazon: SimulatorProcess, home: Path) -> None:
    aws, environ = settings_of("role", amazon, home)
    aws["role_arn"] = f"{ROLE}short+sim-expires-4"
    tokens = set()
    with start_gateway(config(amazon, aws), environ) as gateway:

        def is_third() -> bool:
            assert chat_with(gateway) == 200, "never with keys that have expired"
            tokens.add(issued(to_provider(amazon)[-1]))
            return len(tokens) == 3

        wait_until(is_third, "keys to be renewed twice")


def test_access_that_is_denied_renews_nothing(amazon: SimulatorProcess, home: Path) -> None:
    aws, environ = settings_of("role", amazon, home)
    with start_gateway(config(amazon, aws), environ) as gateway:
        assert chat_with(gateway, "gpt+sim-aws-deny") == 403
        assert len(to_provider(amazon)) == len(for_keys(amazon)) == 1


def test_a_profile_that_is_written_anew_is_used_within_a_second(amazon: SimulatorProcess, home: Path) -> None:
    aws, environ = settings_of("profile", amazon, home)
    file = home / ".aws" / "credentials"
    good = file.read_text()
    file.write_text(good.replace(SECRET, "canary-wrong"))
    with start_gateway(config(amazon, aws), environ) as gateway:
        assert chat_with(gateway) == 403
        file.write_text(good)
        wait_until(lambda: chat_with(gateway) == 200, "the keys in the file")
        file.write_text("[other]\n")
        gateway_log = b"the AWS credentials of provider main stay as they were"

        def is_said() -> bool:
            assert chat_with(gateway) == 200
            return gateway_log in gateway.stderr.data

        wait_until(is_said, "a warning")


def test_the_clock_of_a_host_is_known_over_a_reload_and_said_once(
    amazon: SimulatorProcess, home: Path
) -> None:
    aws, environ = settings_of("settings", amazon, home)
    with start_gateway(config(amazon, aws), environ) as gateway:
        assert chat_with(gateway, "gpt+sim-aws-skew-900") == 200
        gateway.log(b"behind the clock of provider main")
        gateway.rewrite(gateway.config_file.read_text() + "server_timing: true\n")
        gateway.signal(signal.SIGHUP)
        gateway.log(b"generation 2")
        assert chat_with(gateway, "gpt+sim-aws-skew-900") == 200
        assert gateway.stderr.data.count(b"behind the clock of provider main") == 1
        assert gateway.metric("mgw_signed_again_total{") == 1
        assert [request.status for request in to_provider(amazon)] == [403, 200, 200]


FAILURES: Final = {
    "denied": ({"role_arn": f"{ROLE}x+sim-status-403"}, {}, "AWS STS answered 403"),
    "identity": (
        {"role_arn": f"{ROLE}x", "web_identity_token_file": "/nowhere/token"},
        {},
        "the web identity token file cannot be read (No such file or directory): check its path",
    ),
    "container": (
        {},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{}/sim-aws/container/x+sim-key-other"},
        "AWS's container credentials endpoint answered 401: check its authorization token",
    ),
    "instance": (
        {},
        {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"},
        "or a container's endpoint, and AWS's instance metadata service cannot be reached",
    ),
    "nothing": ({}, {"AWS_EC2_METADATA_DISABLED": "true"}, "no AWS credentials found in the environment"),
}


TURN: Final = [{"role": "user", "content": "hi"}]
CONTENTS: Final = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
_OPENAI: Final = {"type": "upstream_error", "code": "credential_source_failed", "param": None}
MORE: Final = "translation: {responses: {enabled: true}}\n"
DIALECTS: Final[dict[str, tuple[str, Any, Any]]] = {
    "chat": (CHAT, {"model": "main/gpt-5", "messages": TURN}, _OPENAI),
    "responses": ("/v1/responses", {"model": "main/gpt-5", "input": "hi", "store": False}, _OPENAI),
    "messages": (
        "/v1/messages",
        {"model": "main/gpt-5", "max_tokens": 5, "messages": TURN},
        {"type": "api_error"},
    ),
    "gemini": (
        "/v1beta/models/main/gpt-5:generateContent",
        CONTENTS,
        {"code": 502, "status": "UNAVAILABLE"},
    ),
}
"""The path of each dialect, what is sent there, and what stands below ``error`` of its refusal."""


def ask_in(gateway: GatewayProcess, dialect: str, *, stream: bool) -> Any:
    """Ask in a dialect; return the refusal, which is the same for a stream that has not begun."""
    path, body, words = DIALECTS[dialect]
    if stream and dialect == "gemini":
        path = path.replace(":generateContent", ":streamGenerateContent") + "?alt=sse"
    elif stream:
        body = {**body, "stream": True}
    answer = ask(gateway.port, path, b"Content-Type: application/json", body=json.dumps(body).encode())
    assert (answer.status, answer.value(b"content-type")) == (502, b"application/json"), answer.body
    error = answer.json()["error"]
    assert {key: error.get(key) for key in words} == words
    if dialect == "gemini":
        assert "CREDENTIAL_SOURCE_FAILED" in answer.body.decode()
    return error


@pytest.mark.parametrize("failure", FAILURES)
def test_a_source_that_fails_is_a_502_that_says_why_in_each_dialect(
    amazon: SimulatorProcess, home: Path, failure: str
) -> None:
    aws, environ, said = FAILURES[failure]
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET} if failure == "denied" else {}
    own = {name: value.format(amazon.url) for name, value in environ.items()}
    text = config(amazon, aws) + MORE
    with start_gateway(text, {"HOME": str(home), **keys, **own}) as gateway:
        asked = [(dialect, stream) for dialect in DIALECTS for stream in (False, True)]
        for dialect, stream in asked:
            message = ask_in(gateway, dialect, stream=stream)["message"]
            assert said in message
            for secret in (str(home), "/nowhere", "canary", KEY, "127.0.0.1"):
                assert secret not in message
        gateway.log(said.encode())
        gateway.log(b"error=credential")
        events = gateway.events(len(asked))
        assert {(event["http_status"], event["attempts"]) for event in events} == {(502, 0)}
        assert gateway.metric('mgw_token_refresh_failures_total{provider="main"}') == len(asked)
    assert not to_provider(amazon)
