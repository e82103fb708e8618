"""The simulator as a process: what it records, and its faults as an SDK sees them."""

import http.client
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def test_requests_are_recorded_as_they_came(simulator: SimulatorProcess) -> None:
    simulator.clear()
    body = b'{ "model":"m","messages":[{"role":"user","content":"a"}]}'
    connection = http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=WAIT_SECONDS)
    headers = {"Authorization": "Bearer k", "Content-Type": "application/json", "X-oDD-Case": "Yes"}
    connection.request("POST", "/v1/chat%2Fcompletions/../x?a=%25", body, headers)
    connection.getresponse().read()
    connection.request("POST", "/v1/chat/completions", body, headers)
    connection.getresponse().read()
    connection.close()
    first, second = simulator.requests()
    assert (first.method, first.target, first.status) == ("POST", "/v1/chat%2Fcompletions/../x?a=%25", 404)
    assert ("X-oDD-Case", "Yes") in second.headers
    assert second.body == body
    assert second.answered
    assert not second.client_left
    assert simulator.counters()["connections"] == 1


def test_a_client_that_leaves_is_noticed(simulator: SimulatorProcess, ours: openai.OpenAI) -> None:
    simulator.clear()
    stream = ours.chat.completions.create(
        model="sim-stall-body-after-2", messages=[{"role": "user", "content": "a"}], stream=True
    )
    next(stream)
    stream.close()
    simulator.wait_for("client_left")
    assert simulator.requests()[0].client_left


@pytest.mark.parametrize(
    "fault",
    ["sim-reset-before", "sim-reset-after-2", "sim-truncate-after-2", "sim-garbage", "sim-garbage-after-2"],
)
def test_a_broken_connection_is_an_error_in_the_sdk(ours: openai.OpenAI, fault: str) -> None:
    with pytest.raises(openai.APIConnectionError):
        list(
            ours.chat.completions.create(
                model=fault, messages=[{"role": "user", "content": "a b c"}], stream=True
            )
        )


@pytest.mark.parametrize(
    "fault",
    ["sim-1xx", "sim-http10", "sim-gzip", "sim-force-gzip", "sim-cut-1", "sim-delay-5"],
)
def test_what_is_only_odd_still_answers(ours: openai.OpenAI, fault: str) -> None:
    said: list[Any] = [{"role": "user", "content": "a"}]
    for _ in range(2):
        whole = ours.chat.completions.create(model=fault, messages=said)
        assert whole.choices[0].message.content == "You said: a"
        pieces = ours.chat.completions.create(model=fault, messages=said, stream=True)
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "You said: a"


def test_the_child_ends_when_its_parent_is_killed() -> None:
    script = (
        "from tests.support.simulator import start_simulator\n"
        "with start_simulator() as running:\n"
        "    print(running.port, flush=True)\n"
        "    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as connection:
            parent.kill()
            parent.wait()
            assert connection.recv(1) == b""  # the child's end closes the connection
