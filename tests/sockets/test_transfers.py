"""Large files pass byte for byte, in little memory, and leave nothing behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

import pytest

from tests.support.gateway import start_gateway
from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient, chat, request
from tests.support.raw_upstream import RawUpstream, Turn
from tests.support.transfers import FORM, MIB, Footprint, file_of, form, giving, taking
from tests.support.waiting import WAIT_SECONDS, wait_until

FILE: Final = file_of(30 * MIB)
MOST_EXTRA: Final = 8 * MIB
"""What one file may add to the gateway's memory."""
DISK: Final = 40 * MIB
"""Room for one such file on the disk, and not for two."""
IDLE_SECONDS: Final = 2.0
"""How long a client may be silent in the middle of its body."""
UPLOAD: Final = form(("purpose", b"user_data"), ("file", FILE))
CONTENT: Final = "/v1/files/file-1/content"


@pytest.fixture(scope="module")
def footprint(upstream: RawUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Footprint]:
    """A gateway that has seen a chat, and a small file up and down."""
    directory = tmp_path_factory.mktemp("state") / "spool"
    config = f"""
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
aliases: {{ears: main/whisper-large-v9}}
spool: {{dir: "{directory}", body_disk: {DISK}}}
timeouts: {{client_body_idle: {IDLE_SECONDS}}}
"""
    with start_gateway(config) as gateway:
        with RawClient(gateway.port) as client:
            client.send(chat("main/gpt-first"))
            assert client.read_response().status == 200
            upstream.begin(taking)
            assert upload(client, form(("purpose", b"user_data"), ("file", FILE[: MIB // 2])))
            upstream.begin(giving(FILE[:MIB], chunked=False))
            client.send(request(None, path=CONTENT, method="GET"))
            assert client.read_response().body == FILE[:MIB]
        gateway.events(3)
        yield Footprint(gateway, directory)


@pytest.fixture
def ledger(footprint: Footprint, upstream: RawUpstream) -> Iterator[Ledger]:
    """Each transfer has its event, and the gateway goes on."""
    footprint.forget_peak()
    ledger = Ledger(footprint.gateway)
    yield ledger
    upstream.begin()
    ledger.balance("main/gpt-after")


def upload(client: RawClient, body: bytes, path: str = "/v1/files") -> str:
    """Send a form; return the hash of what arrived at the provider."""
    assert client.send(request(body, FORM, path=path))
    response = client.read_response()
    assert response.status == 200, response
    return str(json.loads(response.body))


def hashed(data: bytes) -> str:
    return sha256(data).hexdigest()


# Up


def test_an_upload_arrives_byte_for_byte_in_little_memory(
    footprint: Footprint, upstream: RawUpstream, ledger: Ledger
) -> None:
    upstream.begin(taking)
    with RawClient(footprint.gateway.port) as client:
        assert upload(client, UPLOAD) == hashed(UPLOAD)
    ledger.one(status="ok", http_status=200)
    assert footprint.extra() < MOST_EXTRA


def test_an_upload_that_its_provider_does_not_take_waits_on_the_disk(
    footprint: Footprint, upstream: RawUpstream, ledger: Ledger
) -> None:
    go = threading.Event()

    def late(turn: Turn) -> None:
        assert go.wait(WAIT_SECONDS)
        taking(turn)

    upstream.begin(late)
    with RawClient(footprint.gateway.port) as client:
        assert client.send(request(UPLOAD, FORM, path="/v1/files"))
        upstream.wait_for(lambda: bool(upstream.turns), "the upload to begin")
        footprint.wait_until_still()
        extra, bodies = footprint.extra(), len(footprint.bodies())
        go.set()
        assert client.read_response().json() == hashed(UPLOAD)
    ledger.one(status="ok", http_status=200)
    assert extra < MOST_EXTRA
    assert bodies == 1


def test_a_model_behind_the_file_is_replaced_and_nothing_else(
    footprint: Footprint, upstream: RawUpstream, ledger: Ledger
) -> None:
    def ending_in(model: bytes) -> bytes:
        return form(("file", FILE), ("language", b"en"), ("response_format", b"json"), ("model", model))

    upstream.begin(taking)
    with RawClient(footprint.gateway.port) as client:
        arrived = upload(client, ending_in(b"ears"), "/v1/audio/transcriptions")
    ledger.one(status="ok", model="ears", upstream_model="whisper-large-v9")
    assert arrived == hashed(ending_in(b"whisper-large-v9"))
    assert footprint.extra() < MOST_EXTRA


def fall_silent(client: RawClient) -> None:
    """Stay until the gateway has had enough."""
    response = client.read_response()
    assert response.status == 408, response


LEAVING: Final = [
    pytest.param(lambda client: client.socket.close(), "client_abort", id="closes"),
    pytest.param(lambda client: client.reset(), "client_abort", id="resets"),
    pytest.param(fall_silent, "rejected", id="falls silent"),
]


@pytest.mark.parametrize(("leave", "status"), LEAVING)
def test_a_client_that_stops_in_the_middle_leaves_nothing_behind(
    leave: Callable[[RawClient], None],
    status: str,
    footprint: Footprint,
    upstream: RawUpstream,
    ledger: Ledger,
) -> None:
    upstream.begin(taking)
    descriptors = footprint.descriptors()
    for _ in range(2):  # more than there is room for at a time
        with RawClient(footprint.gateway.port) as client:
            assert client.send(request(UPLOAD, FORM, path="/v1/files")[: 25 * MIB])
            wait_until(lambda: len(footprint.bodies()) == 1, "the body to go to the disk")
            leave(client)
        ledger.one(status=status)
        wait_until(lambda: not footprint.bodies(), "the body to leave the disk")
    wait_until(lambda: footprint.descriptors() <= descriptors, "all descriptors to be closed")
    with RawClient(footprint.gateway.port) as client:
        assert upload(client, UPLOAD) == hashed(UPLOAD)
    assert list(footprint.directory.iterdir()) == []
    assert [turn.target for turn in upstream.turns] == ["/v1/files"]
    ledger.one(status="ok")


# Down


@pytest.mark.parametrize("chunked", [False, True], ids=["of known length", "in chunks"])
def test_a_download_arrives_byte_for_byte_in_little_memory(
    chunked: bool, footprint: Footprint, upstream: RawUpstream, ledger: Ledger
) -> None:
    upstream.begin(giving(FILE, chunked=chunked))
    with RawClient(footprint.gateway.port) as client:
        client.send(request(None, path=CONTENT, method="GET"))
        response = client.read_response()
    assert (response.status, response.whole, hashed(response.body)) == (200, True, hashed(FILE))
    ledger.one(status="ok", http_status=200)
    assert footprint.extra() < MOST_EXTRA


def test_a_download_that_its_client_does_not_take_waits_at_the_provider(
    footprint: Footprint, upstream: RawUpstream, ledger: Ledger
) -> None:
    upstream.begin(giving(FILE, chunked=False))
    with RawClient(footprint.gateway.port, receive_buffer=64 * 1024) as client:
        client.send(request(None, path=CONTENT, method="GET"))
        upstream.wait_for(lambda: bool(upstream.turns), "the download to begin")
        footprint.wait_until_still()
        extra = footprint.extra()
        assert hashed(client.read_response().body) == hashed(FILE)
    ledger.one(status="ok", http_status=200)
    assert extra < MOST_EXTRA
