"""Why a provider said no: in the event, the file and the log of a gateway with workers, and no more of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.ledger import event_of
from tests.support.raw_client import RawClient, chat
from tests.support.raw_upstream import JSON, RawUpstream, Turn, counted
from tests.support.waiting import wait_until

SAID: Final = "You exceeded your current quota"
KEY: Final = "sk-canary-of-the-operator"
PROMPT: Final = "canary-prompt"


def refuse(turn: Turn) -> None:
    error = {"message": f"{SAID}\n{KEY} {'m' * 400}", "param": PROMPT, "code": "insufficient_quota"}
    body = json.dumps({"error": error, "request": {"headers": KEY, "messages": PROMPT}}).encode()
    turn.send(counted(body, JSON, status=429))


def page(turn: Turn) -> None:
    turn.send(counted(f"<html>{PROMPT} {KEY}</html>".encode(), b"Content-Type: text/html", status=502))


@pytest.fixture
def gateway(upstream: RawUpstream, tmp_path: Path) -> Iterator[GatewayProcess]:
    text = f"""
workers: 2
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: {KEY}}}
defaults: {{openai_dialect: main}}
hooks: {{jsonl: {{output: stdout}}, sqlite: {{path: "{tmp_path}/usage.db"}}}}
"""
    with start_gateway(text) as process:
        yield process


def test_the_reason_reaches_every_sink_and_the_log_without_keys(
    gateway: GatewayProcess, upstream: RawUpstream, tmp_path: Path
) -> None:
    said = f"{SAID}\\n[redacted] "
    said += "m" * (300 - len(said)) + "…"
    upstream.begin(refuse)
    with RawClient(gateway.port) as client:
        client.send(chat("gpt-1"))
        event = event_of(gateway, client.read_response())
        assert (event["error"], event["error_message"]) == ("upstream_4xx", said)
        upstream.begin(page)
        client.send(chat("gpt-1"))
        event = event_of(gateway, client.read_response())
        assert (event["error"], event.get("error_message")) == ("upstream_5xx", None)
    log = gateway.log(b"the provider returned status 502 (provider=main")
    quoted = json.dumps(said, ensure_ascii=False)
    assert f"the provider returned status 429: {quoted} (provider=main".encode() in log
    with closing(sqlite3.connect(tmp_path / "usage.db")) as file:
        found = "SELECT error_message FROM usage_events ORDER BY time"
        wait_until(lambda: file.execute(found).fetchall() == [(said,), (None,)], "both events in the file")
    for text in (log, gateway.stdout.data):
        assert KEY.encode() not in text
        assert PROMPT.encode() not in text
