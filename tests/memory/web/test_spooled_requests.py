"""Large bodies wait on disk: what they take, and that nothing of it stays behind."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from mgw.upstream.connection import MAX_UNWATCHED_BYTES
from mgw.usage.event import Outcome
from mgw.web.server_request import ServerRequest
from tests.support.channels import post
from tests.support.configs import THREE_FAMILIES
from tests.support.in_memory.measure import collector_off
from tests.support.web_servers import WebServerHarness

KEY = "x-api-key: edge"
FORM = "Content-Type: multipart/form-data; boundary=x"
BODY = os.urandom(1_500_000)


def upload(body: bytes = BODY) -> bytes:
    return post(body, KEY, FORM, path="/v1/files")


def held(harness: WebServerHarness) -> tuple[int, int, int]:
    return harness.server.budget.held, harness.server.spool.disk.held, harness.server.in_flight


def send_in_pieces(harness: WebServerHarness, data: bytes, size: int = 65536) -> None:
    for at in range(0, len(data), size):
        harness.send(data[at : at + size])


def test_a_large_body_takes_disk_and_hardly_any_memory() -> None:
    harness = WebServerHarness()
    data = upload()
    most = 0
    for at in range(0, len(data) - 10, 65536):
        harness.send(data[at : min(at + 65536, len(data) - 10)])
        most = max(most, harness.server.budget.held)
    assert most <= 512 * 1024
    assert harness.server.spool.disk.held > 1_000_000
    assert os.listdir(harness.server.spool.directory) == []  # it has no name


def test_a_large_body_arrives_as_it_was_sent_and_leaves_nothing_behind() -> None:
    harness = WebServerHarness()
    send_in_pieces(harness, upload())
    assert len(BODY) > MAX_UNWATCHED_BYTES
    head, _, body = harness.connection.received.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/files HTTP/1.1\r\n")
    assert b"Content-Length: %d" % len(BODY) in head
    assert body == BODY
    harness.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert harness.status() == 200
    assert held(harness) == (0, 0, 0)


def test_a_body_above_the_limit_is_refused_wherever_it_is_kept() -> None:
    harness = WebServerHarness(THREE_FAMILIES + "max_body_bytes: 1000000\n")
    chunked = (
        b"POST /v1/files HTTP/1.1\r\nHost: g\r\nx-api-key: edge\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n" % len(BODY)
        + BODY
    )
    send_in_pieces(harness, chunked)
    assert harness.status() == 413
    assert held(harness) == (0, 0, 0)
    assert harness.event.status is Outcome.REJECTED


def test_a_client_that_leaves_in_mid_upload_leaves_nothing_behind() -> None:
    harness = WebServerHarness()
    send_in_pieces(harness, upload()[:-1000])
    harness.leave()
    assert held(harness) == (0, 0, 0)
    assert harness.event.status is Outcome.CLIENT_ABORT


def test_without_room_on_disk_a_client_is_asked_to_come_back() -> None:
    harness = WebServerHarness()
    harness.server.spool.disk.max_bytes = 600_000
    send_in_pieces(harness, upload())
    assert harness.status() == 503
    assert b"Retry-After: 1\r\n" in harness.received()
    assert held(harness) == (0, 0, 0)


def test_a_directory_that_cannot_be_used_is_no_bug() -> None:
    harness = WebServerHarness()
    file = Path(harness.server.spool.directory) / "file"
    file.write_bytes(b"")
    harness.server.spool.directory = str(file / "below")
    send_in_pieces(harness, upload())
    assert harness.status() == 503
    assert held(harness) == (0, 0, 0)


@pytest.mark.parametrize("size", [0, 10, 200_000])
def test_a_small_body_stays_in_memory(size: int) -> None:
    harness = WebServerHarness()
    harness.server.spool.disk.max_bytes = 0
    harness.send(upload(b"x" * size))
    assert harness.connection.received.partition(b"\r\n\r\n")[2] == b"x" * size


def test_conversations_are_refused_at_their_head() -> None:
    harness = WebServerHarness()
    harness.send(post(b"x" * 100, KEY, path="/v1/conversations/conv_1/items")[:-50])
    assert harness.status() == 501
    error = harness.body()["error"]
    assert (error["code"], error["type"]) == ("not_implemented", "not_implemented")
    assert harness.event.http_status == 501


def test_a_denied_route_is_404_and_counted() -> None:
    harness = WebServerHarness(THREE_FAMILIES + "routes: {deny: [files, anthropic]}\n")
    harness.send(upload())
    assert harness.status() == 404
    assert harness.event.route == "files_create"
    assert not harness.pipeline.endpoint.connections


def test_an_unknown_route_is_404_in_the_dialect_that_it_suggests() -> None:
    harness = WebServerHarness()
    harness.send(post(b"{}", KEY, path="/v1beta/models/m:generateImages"))
    assert harness.status() == 404
    assert harness.body()["error"]["status"] == "NOT_FOUND"


def test_audio_has_a_limit_of_its_own_below_the_configured_one() -> None:
    harness = WebServerHarness(THREE_FAMILIES + "max_body_bytes: 100000000\n")
    size = 32 * 1024 * 1024
    head = f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: g\r\n{KEY}\r\n{FORM}\r\n"
    harness.send(f"{head}Content-Length: {size + 1}\r\n\r\n".encode())
    assert harness.status() == 413
    assert str(size) in harness.body()["error"]["message"]


@pytest.mark.parametrize("size", [1_000, 1_500_000])
def test_nothing_of_an_upload_is_left_to_the_collector(size: int) -> None:
    harness = WebServerHarness()
    with collector_off():
        for _ in range(3):
            send_in_pieces(harness, upload(BODY[:size]))
            harness.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        assert held(harness) == (0, 0, 0)
        left = [one for one in gc.get_objects() if isinstance(one, ServerRequest)]
        assert not [one for one in left if one.server is harness.server]
