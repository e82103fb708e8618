"""Nothing that the gateway writes or answers shows what it signs with: keys, tokens, signatures.

A host may repeat all that it was sent, as AWS does where it says which canonical request it expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.clouds import AWS_KEY, ENVIRON, KEY, KEY_ID, OPUS, REGION, SECRET, SONNET, TOKEN, clouds
from tests.support.commands import run_mgw
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import RawResponse
from tests.support.raw_upstream import JSON, RawUpstream, Turn, counted
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.supervised import Workers

ROLE: Final = "arn:aws:iam::123456789012:role/llm"
OF_ROLE: Final = "ASIASIM"
"""Begins the ids of the keys that the simulator issues."""
MODELS: Final = (f"invoke/{SONNET}", f"mantle/{OPUS}", "gpt/openai.gpt-5.5", "oss/openai.gpt-oss-120b")
HEAD: Final = (
    b"Content-Type: application/json",
    b"anthropic-version: 2023-06-01",
    b"x-api-key: edge-canary-1",
)
PAGES: Final = ("profiles", "requests", "logs?lines=1000", "sessions")
_SIGNATURE: Final = re.compile(rb"Signature(?:=|%3D)[0-9a-f]{16}", re.IGNORECASE)
_SIGNED: Final = re.compile(rb"Signature=([0-9a-f]{64})")


def talk(gateway: GatewayProcess, model: str) -> Iterator[RawResponse]:
    """Ask in each API, whole and streamed; yield the answers."""
    turn = {"role": "user", "content": "hi"}
    for stream in (False, True):
        chat = {"model": model, "messages": [turn], "stream": stream}
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        contents = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
        asked: list[tuple[str, dict[str, Any]]] = [
            ("/v1/messages", {**chat, "max_tokens": 9}),
            ("/v1/chat/completions", chat),
            ("/v1/responses", {"model": model, "input": [turn], "stream": stream, "store": False}),
            (f"/v1beta/models/{model}:{verb}", contents),
        ]
        for path, body in asked:
            yield ask(gateway.port, path, *HEAD, body=json.dumps(body).encode())


def shown(gateway: GatewayProcess) -> bytes:
    """Return all that the gateway has written, and its pages."""
    key = {"authorization": f"Bearer {KEY}"}
    pages = [gateway.get(f"/v1/dashboard/{page}", key) for page in PAGES]
    return b"\n".join([gateway.stdout.data, gateway.stderr.data, gateway.get("/metrics", key), *pages])


def assert_hidden(text: bytes, *more: bytes) -> None:
    """No text may have any of it."""
    for secret in (KEY_ID, SECRET, TOKEN, OF_ROLE, "simulated/"):
        assert secret.encode() not in text, (secret, text[max(0, text.find(secret.encode()) - 300) :][:600])
    for found in more:
        assert found not in text
    assert _SIGNATURE.search(text) is None


def repeat_all(turn: Turn) -> None:
    """Refuse a request, and say everything that was sent."""
    lines = "\n".join(f"{name.decode()}:{value.decode()}" for name, value in turn.headers)
    message = f"The Canonical String for this request should have been '{turn.target}\n{lines}'"
    body: dict[str, Any] = {"message": message}
    if "/v1/messages" in turn.target:
        body = {"type": "error", "error": {"type": "permission_error", **body}}
    elif "/v1/" in turn.target:
        body = {"error": {**body, "type": "permission_error", "code": "InvalidSignatureException"}}
    type_header = b"x-amzn-errortype: InvalidSignatureException\r\n"
    answer = counted(json.dumps(body).encode(), JSON, status=403)
    turn.send(answer.replace(b"\r\n", b"\r\n" + type_header, 1))


@pytest.mark.parametrize("log", ["text", "json"])
@pytest.mark.parametrize("model", MODELS)
def test_a_refusal_that_repeats_a_request_shows_nothing_that_signs_it(
    upstream: RawUpstream, log: str, model: str
) -> None:
    upstream.begin(repeat_all)
    more = f"log: {{format: {log}}}\ndashboard: {{enabled: true}}"
    with start_gateway(clouds(upstream.url, more), ENVIRON) as gateway:
        answers = list(talk(gateway, model))
        assert [answer.status for answer in answers] == [403] * len(answers)
        heads = [value for turn in upstream.turns for value in [turn.value(b"authorization")] if value]
        signatures = [match[1] for match in map(_SIGNED.search, heads) if match]
        assert len(signatures) == len(answers)
        gateway.events(len(answers))
        for answer in answers:
            assert b"Canonical String" in answer.body
            assert_hidden(answer.body, *signatures)
        assert_hidden(shown(gateway), *signatures)


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_that_is_written_shows_keys_tokens_or_signatures(workers: int) -> None:
    with start_simulator(AWS_KEY) as simulator:
        others = providers_with_a_role(simulator)
        more = "log: {format: json}\ndashboard: {enabled: true}\nhealth_checks: {enabled: true}\n"
        more += f"workers: {workers}" if workers > 1 else ""
        with start_gateway(clouds(simulator.url, more, **others), ENVIRON) as gateway:
            if workers > 1:
                assert len(Workers(gateway).pids) == workers
            answers = []
            for provider in ("invoke", "role"):
                for word in ("", "+sim-aws-expired", "+sim-aws-deny", "+sim-aws-skew-900", "+sim-status-500"):
                    answers += list(talk(gateway, f"{provider}/{SONNET}{word}"))
            answers += list(talk(gateway, f"stranger/{SONNET}"))
            answers += list(talk(gateway, f"lost/{SONNET}"))
            statuses = {answer.status for answer in answers}
            assert statuses == {200, 403, 500, 502}
            key = {"authorization": f"Bearer {KEY}"}
            health = ask(gateway.port, "/v1/health/providers", *HEAD)
            gateway.events(len(answers))
            for answer in (*answers, health):
                assert_hidden(answer.body)
            gateway.get("/v1/models?live=1", key)
            assert_hidden(shown(gateway))


def providers_with_a_role(simulator: SimulatorProcess) -> dict[str, dict[str, Any]]:
    """Return providers with a role, with a key that nobody knows, and with a role that is refused."""

    def provider(**aws: Any) -> dict[str, Any]:
        settings = {"region": REGION, "sts_url": f"{simulator.url}/sim-aws/sts", **aws}
        return {"kind": "bedrock", "base_url": simulator.url, "auth": "aws", "aws": settings}

    return {
        "role": provider(role_arn=ROLE),
        "stranger": provider(access_key_id=KEY_ID[:-1] + "Y", secret_access_key="canary-of-nobody-at-all"),
        "lost": provider(role_arn=f"{ROLE}+sim-status-403"),
    }


@pytest.mark.parametrize("sound", [True, False], ids=["valid", "invalid"])
def test_mgw_check_shows_four_characters_of_a_key_id(tmp_path: Path, sound: bool) -> None:
    aws = {"region": REGION, "access_key_id": KEY_ID, "secret_access_key": SECRET, "session_token": TOKEN}
    own = {"kind": "bedrock", "auth": "aws", "aws": aws if sound else {**aws, "role_arm": "x"}}
    file = tmp_path / "mgw.yaml"
    file.write_text(clouds("http://127.0.0.1:9", own=own))
    done = run_mgw(["check", "-c", str(file)], environ=ENVIRON)
    assert (done.returncode == 0) is sound, done
    assert_hidden(done.stdout + done.stderr)
    if sound:
        assert done.stdout.count(b"ending in " + KEY_ID[-4:].encode()) == 6, done.stdout.decode()
    assert KEY_ID[-5:].encode() not in done.stdout + done.stderr
