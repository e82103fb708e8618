"""The list of completed requests, over sockets: what the lines of the events say, wherever they are kept."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_mgw
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import WAIT_SECONDS, wait_until

Json = dict[str, Any]  # Any: JSON


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as simulator:
        yield simulator


def configuration(simulator: SimulatorProcess, hooks: str = "", more: str = "") -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary-openai}}
defaults: {{openai_dialect: main}}
prices: {{rows: [{{model: "gpt-*", input: 2.5, output: 10}}]}}
hooks: {{jsonl: {{output: stdout}}{hooks}}}
listen: 127.0.0.1:0
{more}
"""


def chat(gateway: GatewayProcess, *models: str) -> None:
    """Send a request for each model, each on a connection of its own; a refusal is an answer, too."""
    for model in models:
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        request = urllib.request.Request(
            f"{gateway.url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": "Bearer k"},
        )
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                answer.read()
        except urllib.error.HTTPError as refusal:
            refusal.read()


def listed(gateway: GatewayProcess, **parameters: str) -> Json:
    found: Json = json.loads(gateway.get(f"/v1/dashboard/requests?{urllib.parse.urlencode(parameters)}"))
    return found


def newest_first(events: list[Json]) -> list[Json]:
    return sorted(events, key=lambda event: (event["time"], event["request_id"]), reverse=True)


def reload(gateway: GatewayProcess, text: str, generation: int) -> None:
    gateway.rewrite(text)
    gateway.signal(signal.SIGHUP)
    gateway.log(b"the configuration was reloaded: generation %d\n" % generation)


@pytest.mark.parametrize("more", ["", "workers: 2"], ids=["one process", "workers"])
def test_the_list_says_what_the_lines_say_through_reloads(
    simulator: SimulatorProcess, tmp_path: Path, more: str
) -> None:
    with_file = configuration(simulator, f", sqlite: {{path: {tmp_path / 'usage.db'}}}", more)
    in_memory = configuration(simulator, "", more)
    with start_gateway(in_memory) as gateway:
        chat(gateway, "gpt-5", "gpt-5-mini", "main/", "gpt-5")
        first = newest_first(gateway.events(4))
        answer = listed(gateway)
        assert (answer["source"], answer["in_flight"]) == ("memory", len(answer["in_progress"]))
        assert answer["requests"] == first
        page = listed(gateway, model="gpt-5", limit="1")
        pages = [*page["requests"], *listed(gateway, model="gpt-5", cursor=page["next"])["requests"]]
        assert pages == [event for event in first if event.get("model") == "gpt-5"]
        (refused,) = listed(gateway, status="4xx")["requests"]
        assert (refused in first, refused["status"]) == (True, "rejected")

        reload(gateway, with_file, 2)
        assert listed(gateway)["source"] == "sqlite"
        chat(gateway, "gpt-5", "gpt-5-mini")
        second = newest_first(gateway.events(6)[4:])
        wait_until(lambda: len(listed(gateway)["requests"]) == 2, "the events to be in the file")
        assert listed(gateway)["requests"] == second
        asked = {"upstream_request_id": second[0]["upstream_request_id"], "status": "ok"}
        assert listed(gateway, **asked)["requests"] == [second[0]]

        reload(gateway, in_memory, 3)
        assert (listed(gateway)["source"], listed(gateway)["requests"]) == ("memory", [])
        chat(gateway, "gpt-5")
        third = gateway.events(7)[6:]
        assert listed(gateway, request_id=third[0]["request_id"])["requests"] == third


def test_a_request_of_before_a_restart_is_found(simulator: SimulatorProcess, tmp_path: Path) -> None:
    text = configuration(simulator, f", sqlite: {{path: {tmp_path / 'usage.db'}}}")
    with start_gateway(text) as gateway:
        chat(gateway, "gpt-5")
        (event,) = gateway.events(1)
    with start_gateway(text) as gateway:
        assert listed(gateway, request_id=event["request_id"])["requests"] == [event]


@pytest.mark.parametrize(
    "query", ["status=failed", "limit=501", "cursor=x", "since=today", "whatever=1", "client="]
)
def test_a_wrong_query_is_a_400_in_openais_shape(simulator: SimulatorProcess, query: str) -> None:
    with start_gateway(configuration(simulator)) as gateway:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{gateway.url}/v1/dashboard/requests?{query}", timeout=WAIT_SECONDS)
        with caught.value as refusal:
            assert refusal.code == 400
            error = json.loads(refusal.read())["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]


def command(*arguments: str, key: str = "") -> list[Json]:
    ran = run_mgw(["requests", *arguments, "--json"], environ={"MGW_KEY": key})
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_the_command_says_the_same_of_a_gateway_and_of_a_file(
    simulator: SimulatorProcess, tmp_path: Path
) -> None:
    database = tmp_path / "usage.db"
    dashboard = "dashboard: {keys: [canary-dashboard-key]}"
    for hooks in ("", f", sqlite: {{path: {database}}}"):
        with start_gateway(configuration(simulator, hooks, dashboard)) as gateway:
            chat(gateway, "gpt-5", "gpt-5-mini", "main/")
            events = newest_first(gateway.events(3))
            asked = (gateway.url, "--key-env", "MGW_KEY")
            key = "canary-dashboard-key"
            wait_until(lambda: command(*asked, key=key) == events, "the events")  # noqa: B023  called at once
            assert command(*asked, "--model", "gpt-5", key=key) == [
                event for event in events if event.get("model") == "gpt-5"
            ]
            refused = run_mgw(["requests", gateway.url.removeprefix("http://")])
            assert refused.returncode == 1
            assert b"requires a key: put one of dashboard.keys" in refused.stderr
            if hooks:
                assert command(str(gateway.config_file)) == command("--database", str(database)) == events


def test_the_command_says_who_cannot_be_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ran = run_mgw(["requests", f"127.0.0.1:{port}"])
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"mgw requests: cannot connect to http://127.0.0.1:")
