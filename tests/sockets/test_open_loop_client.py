"""The benchmark's open-loop client: a latency counts from when a request was due, and nothing is left out."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from bench.bodies import agent_request
from tests.support.raw_upstream import STREAM_HEAD, RawUpstream, Turn, counted, start_upstream

SOURCE = Path(__file__).resolve().parents[2] / "bench" / "c" / "rate.c"
STALL_SECONDS = 0.4
pytestmark = pytest.mark.skipif(which("gcc") is None, reason="the client is compiled by gcc")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("rate") / "rate"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, SOURCE], check=True)
    return program


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    with start_upstream() as started:
        yield started


def run(
    client: Path, upstream: RawUpstream, folder: Path, *load: str, body: bytes = b"{}"
) -> dict[str, float]:
    """Send ``RATE SECONDS CONNECTIONS``, and return what the client says."""
    (folder / "body.json").write_bytes(body)
    asked = [str(upstream.port), "/v1/chat/completions", *load, "key", str(folder / "body.json")]
    done = subprocess.run([client, *asked], capture_output=True, text=True, check=True, timeout=50)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def at_once(turn: Turn) -> None:
    assert turn.body is not None
    turn.send(counted(b"{}"))


def test_all_that_was_due_is_sent_and_answered(client: Path, upstream: RawUpstream, tmp_path: Path) -> None:
    upstream.begin(at_once)
    found = run(client, upstream, tmp_path, "100", "0.5", "8")
    assert (found["due"], found["completed"], found["failed"], found["unfinished"]) == (50, 50, 0, 0)


def test_requests_that_wait_behind_a_stall_count_from_when_they_were_due(
    client: Path, upstream: RawUpstream, tmp_path: Path
) -> None:
    """One request is slow; a client that waits for it would report one slow request, not dozens."""
    first = threading.Lock()

    def script(turn: Turn) -> None:
        assert turn.body is not None
        if first.acquire(blocking=False):
            assert not turn.has_more(STALL_SECONDS)
        at_once(turn)

    upstream.begin(script)
    found = run(client, upstream, tmp_path, "100", "0.5", "1")
    assert found["completed"] == 50
    assert found["p99_us"] >= STALL_SECONDS * 0.9e6
    assert found["p50_us"] >= STALL_SECONDS * 0.3e6


def test_a_request_without_an_answer_has_failed_and_its_wait_counts(
    client: Path, upstream: RawUpstream, tmp_path: Path
) -> None:
    upstream.begin(lambda turn: turn.wait_until_left())
    found = run(client, upstream, tmp_path, "20", "0.2", "8")
    assert (found["completed"], found["unfinished"]) == (0, 4)
    assert found["p50_us"] > 1e6


def test_a_server_that_cannot_keep_up_ends_the_run(
    client: Path, upstream: RawUpstream, tmp_path: Path
) -> None:
    upstream.begin(lambda turn: turn.wait_until_left())
    found = run(client, upstream, tmp_path, "100", "20", "1")
    assert found["overrun"] == 1
    assert found["seconds"] < 10


def test_refusals_are_failures(client: Path, upstream: RawUpstream, tmp_path: Path) -> None:
    upstream.begin(lambda turn: turn.send(counted(b"{}", status=429)) if turn.body is not None else None)
    found = run(client, upstream, tmp_path, "100", "0.2", "4")
    assert (found["completed"], found["failed"]) == (0, 20)


def test_a_connection_that_the_server_closes_is_replaced_and_its_request_has_failed(
    client: Path, upstream: RawUpstream, tmp_path: Path
) -> None:
    def script(turn: Turn) -> None:
        if turn.number == 2:
            turn.close()
        else:
            at_once(turn)

    upstream.begin(script)
    found = run(client, upstream, tmp_path, "100", "0.2", "1")
    assert found["completed"] + found["failed"] == 20
    assert found["failed"] == found["reopened"] == 10


def test_an_answer_in_chunks_is_whole_at_its_last_one(
    client: Path, upstream: RawUpstream, tmp_path: Path
) -> None:
    def script(turn: Turn) -> None:
        assert turn.body is not None
        turn.send(STREAM_HEAD, b"2\r\n{", b"}\r\n0", b"\r\n\r", b"\n")

    upstream.begin(script)
    found = run(client, upstream, tmp_path, "50", "0.2", "4")
    assert (found["completed"], found["failed"]) == (10, 0)


def test_a_large_request_arrives_whole(client: Path, upstream: RawUpstream, tmp_path: Path) -> None:
    sent, seen = agent_request("m", 900 * 1024), list[bool]()

    def script(turn: Turn) -> None:
        seen.append(turn.body == sent)
        turn.send(counted(b"{}"))

    upstream.begin(script)
    found = run(client, upstream, tmp_path, "20", "0.2", "2", body=sent)
    assert found["completed"] == 4
    assert seen == [True] * 4
