"""Files through the real SDKs, up and down; Google's in chunks, to an address that stands for a key."""

from __future__ import annotations

import base64
import hashlib
import io
import time
from collections.abc import Iterator
from typing import Final

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from mgw.exchange.upload_tokens import LIFETIME_SECONDS, upload_token
from tests.support.deployment import EDGE, KEYS, OTHER, Deployment, key_of, providers
from tests.support.gateway import start_gateway
from tests.support.grid import ANTHROPIC, GEMINI, OPENAI
from tests.support.operations import ask
from tests.support.raw_client import RawClient, RawResponse
from tests.support.raw_client import request as in_http
from tests.support.simulator import SeenRequest

CHUNK: Final = 8 * 1024 * 1024
"""What Google's SDK sends at a time."""
SMALL: Final = bytes(range(256)) * 12
LARGE: Final = bytes(range(256)) * (80 * 1024)
"""20 MiB."""
MIDDLING: Final = LARGE[: 3 * 1024 * 1024]
"""What waits on the gateway's disk."""
PLAIN: Final = types.UploadFileConfig(mime_type="text/plain", display_name="x")
START: Final = (
    b"X-Goog-Upload-Protocol: resumable",
    b"X-Goog-Upload-Command: start",
    b"X-Goog-Upload-Header-Content-Length: 3",
)
UPLOAD: Final = "/upload/v1beta/files"
BETA: Final = "files-api-2025-04-14"
GOOGLES: Final = b"x-goog-api-key: " + EDGE.encode()


@pytest.fixture(scope="module")
def deployment(deployment: Deployment) -> Deployment:
    """A deployment whose simulator keeps long bodies."""
    deployment.simulator.settings(keep_all=True)
    return deployment


@pytest.fixture(scope="module")
def open_stage(deployment: Deployment) -> Iterator[Deployment]:
    """A gateway without edge auth, behind a proxy on this machine."""
    text = providers(deployment.simulator.url) + 'trusted_proxies: ["127.0.0.0/8"]\n'
    with start_gateway(text) as gateway:
        yield Deployment(deployment.simulator, gateway, "nobody-canary")


@pytest.fixture(scope="module")
def plain_stage(deployment: Deployment) -> Iterator[Deployment]:
    """A gateway with edge auth that leaves addresses as they are."""
    text = providers(deployment.simulator.url) + f"edge_auth: {{enabled: true, keys: [{EDGE}]}}\n"
    with start_gateway(text + "rewrite_urls: false\n") as gateway:
        yield Deployment(deployment.simulator, gateway)


@pytest.fixture(autouse=True)
def _cleared(deployment: Deployment) -> None:
    deployment.simulator.clear()


def uploaded(requests: list[SeenRequest], provider: str = GEMINI) -> bytes:
    """What the chunks of one upload were, all of which were the provider's own requests."""
    start, *chunks = requests
    assert start.value("x-goog-upload-command") == "start"
    key = KEYS[GEMINI] if provider == GEMINI else f"other-{KEYS[GEMINI]}"
    at = 0
    for chunk in chunks:
        path, _, query = chunk.target.partition("?")
        assert path == start.target
        assert [name.partition("=")[0] for name in query.split("&")] == ["upload_id", "upload_protocol"]
        assert chunk.value("x-goog-upload-offset") == str(at)
        at += chunk.body_size
    for request in requests:
        assert key_of(request, GEMINI) == key
        assert request.value("x-provider") is None
        assert EDGE not in repr(request.headers)
    assert [chunk.value("x-goog-upload-command") for chunk in chunks] == [
        *["upload"] * (len(chunks) - 1),
        "upload, finalize",
    ]
    return b"".join(chunk.body for chunk in chunks)


def digest(data: bytes) -> str:
    """Google's notation of it."""
    return base64.b64encode(hashlib.sha256(data).hexdigest().encode()).decode()


# Google's SDK ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["deployment", "open_stage"])
@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "20 MiB"])
def test_googles_sdk_uploads_a_file(name: str, data: bytes, request: pytest.FixtureRequest) -> None:
    deployment: Deployment = request.getfixturevalue(name)
    file = deployment.by_gemini.files.upload(file=io.BytesIO(data), config=PLAIN)
    assert (file.size_bytes, file.sha256_hash) == (len(data), digest(data))
    seen = deployment.simulator.requests()
    assert uploaded(seen) == data
    assert [chunk.body_size for chunk in seen[1:]] == [
        len(data[at : at + CHUNK]) for at in range(0, len(data), CHUNK)
    ]
    assert deployment.by_gemini.files.get(name=file.name or "").state == types.FileState.ACTIVE
    events = deployment.events(len(seen) + 1)
    assert {(event["status"], event["modality"], event["provider"]) for event in events} == {
        ("ok", "platform", GEMINI)
    }


def test_googles_sdk_uploads_into_a_store(deployment: Deployment) -> None:
    store = deployment.by_gemini.file_search_stores.create().name or ""
    deployment.simulator.clear()
    done = deployment.by_gemini.file_search_stores.upload_to_file_search_store(
        file_search_store_name=store, file=io.BytesIO(SMALL), config={"mime_type": "text/plain"}
    )
    assert done.done
    assert done.response
    assert done.response.parent == store
    seen = deployment.simulator.requests()
    assert seen[0].target == f"/upload/v1beta/{store}:uploadToFileSearchStore"
    assert uploaded(seen) == SMALL
    assert {event["provider"] for event in deployment.events(3)} == {GEMINI}


@pytest.mark.filterwarnings("ignore:Environments usage is experimental")
def test_googles_sdk_uploads_into_an_environment(deployment: Deployment) -> None:
    made = ask(deployment.simulator.port, "/v1beta/environments", b"x-goog-api-key: k-canary", body=b"{}")
    environment = made.json()["id"]
    deployment.simulator.clear()
    done = deployment.by_gemini.environments.files.upload(
        path="a folder/b.txt", file=SMALL, environment=environment
    )
    assert [file.path for file in done.files or ()] == ["a folder/b.txt"]
    seen = deployment.simulator.requests()
    assert [request.method for request in seen] == ["PUT", "POST"]
    assert seen[0].target == f"/upload/v1beta/environments/{environment}/files/a%20folder/b.txt"
    assert uploaded(seen) == SMALL
    assert {event["status"] for event in deployment.events(2)} == {"ok"}


@pytest.mark.parametrize("name", ["deployment", "open_stage"])
def test_the_chunks_go_to_the_provider_that_the_start_named(
    name: str, request: pytest.FixtureRequest
) -> None:
    deployment: Deployment = request.getfixturevalue(name)
    options = types.HttpOptions(base_url=deployment.gateway.url, headers={"X-Provider": OTHER + GEMINI})
    client = genai.Client(api_key=deployment.key, http_options=options)
    client.files.upload(file=io.BytesIO(SMALL), config=PLAIN)  # whose chunks carry no header of the client's
    assert uploaded(deployment.simulator.requests(), OTHER + GEMINI) == SMALL
    assert {event["provider"] for event in deployment.events(2)} == {OTHER + GEMINI}


def test_an_address_that_stays_leads_past_the_gateway(plain_stage: Deployment) -> None:
    file = plain_stage.by_gemini.files.upload(file=io.BytesIO(SMALL), config=PLAIN)
    assert file.size_bytes == len(SMALL)
    _, chunk = plain_stage.simulator.requests()
    assert key_of(chunk, GEMINI) is None  # the SDK sends none, and nobody was between to add one
    assert plain_stage.event()["route"] == "gemini_upload_files_create"


# The address ----------------------------------------------------------------------------------------------


def start(deployment: Deployment, *headers: bytes) -> str:
    """Start an upload of three bytes; return the address of its chunks."""
    response = ask(deployment.gateway.port, UPLOAD, *START, *headers, body=b"{}")
    assert response.status == 200
    assert response.value(b"x-goog-upload-status") == b"active"
    deployment.event()
    deployment.simulator.clear()
    return (response.value(b"x-goog-upload-url") or b"").decode()


def send(
    deployment: Deployment, target: str, command: bytes = b"upload, finalize", *headers: bytes
) -> RawResponse:
    """Send the three bytes without a key."""
    chunk = (b"X-Goog-Upload-Command: " + command, b"X-Goog-Upload-Offset: 0", *headers)
    return ask(deployment.gateway.port, target, *chunk, body=b"abc")


def target_of(address: str) -> str:
    return "/" + address.split("/", 3)[3]


def test_the_address_has_what_stands_for_the_key_and_no_key(deployment: Deployment) -> None:
    address = start(deployment, GOOGLES)
    assert address.startswith(f"http://gateway{UPLOAD}?upload_id=")
    assert EDGE not in address
    assert KEYS[GEMINI] not in address
    names = [part.partition("=")[0] for part in address.partition("?")[2].split("&")]
    assert names == ["upload_id", "upload_protocol", "provider", "mgw"]
    response = send(deployment, target_of(address))
    assert (response.status, response.json()["file"]["sizeBytes"]) == (200, "3")
    assert deployment.event()["status"] == "ok"


def test_a_key_in_the_query_starts_an_upload_and_goes_no_further(deployment: Deployment) -> None:
    response = ask(deployment.gateway.port, f"{UPLOAD}?key={EDGE}", *START, body=b"{}")
    target = target_of((response.value(b"x-goog-upload-url") or b"").decode())
    assert EDGE not in target
    assert send(deployment, target).status == 200
    assert deployment.simulator.requests()[0].target == UPLOAD
    assert EDGE not in repr([request.target for request in deployment.simulator.requests()])
    deployment.events(2)


def test_an_upload_in_one_request_arrives_byte_for_byte(deployment: Deployment) -> None:
    parts = (
        b'Content-Type: application/json\r\n\r\n{"file":{}}',
        b"Content-Type: text/plain\r\n\r\n" + SMALL,
    )
    body = b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + b"--b--\r\n"
    kind = b"Content-Type: multipart/related; boundary=b"
    sent = in_http(body, GOOGLES, kind, path=f"{UPLOAD}?uploadType=multipart&provider={OTHER}gemini")
    with RawClient(deployment.gateway.port) as client:
        client.send(sent)
        assert client.read_response().json()["file"]["sha256Hash"] == digest(SMALL)
    (seen,) = deployment.simulator.requests()
    assert (seen.target, seen.body) == (f"{UPLOAD}?uploadType=multipart", body)
    assert deployment.event()["provider"] == OTHER + GEMINI


def test_an_upload_is_asked_after_and_given_up(deployment: Deployment) -> None:
    target = target_of(start(deployment, GOOGLES))
    assert send(deployment, target, b"upload").value(b"x-goog-upload-status") == b"active"
    assert send(deployment, target, b"query").value(b"x-goog-upload-size-received") == b"3"
    assert send(deployment, target, b"cancel").value(b"x-goog-upload-status") == b"cancelled"
    assert send(deployment, target, b"upload, finalize").status == 400
    deployment.events(4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("&mgw=", "&nothing="),
        ("&mgw=", "&mgw=1"),
        ("&provider=gemini", f"&provider={OTHER}gemini"),
        ("&provider=gemini", ""),
        ("upload_id=", "upload_id=x"),
        ("/upload/v1beta/files", "/upload/v1/files"),
        ("/upload/v1beta/files", "/upload/v1beta/fileSearchStores/s:uploadToFileSearchStore"),
        ("/upload/v1beta/files", "/v1beta/files"),
    ],
)
def test_a_changed_address_opens_nothing(deployment: Deployment, old: str, new: str) -> None:
    target = target_of(start(deployment, GOOGLES))
    assert old in target
    response = send(deployment, target.replace(old, new))
    assert (response.status, response.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert deployment.simulator.requests() == []
    assert send(deployment, target).status == 200
    deployment.event()


@pytest.mark.parametrize(("age", "status"), [(LIFETIME_SECONDS - 600, 200), (LIFETIME_SECONDS + 600, 401)])
def test_the_address_lasts_a_day(deployment: Deployment, age: int, status: int) -> None:
    target, _, _ = target_of(start(deployment, GOOGLES)).partition("&mgw=")
    token = upload_token(hashlib.sha256(EDGE.encode()).digest(), target.encode(), time.time() - age)
    assert send(deployment, f"{target}&mgw={token}").status == status
    assert len(deployment.simulator.requests()) == (status == 200)
    if status == 200:
        deployment.event()


def test_an_edge_key_opens_the_address_as_well(deployment: Deployment) -> None:
    target, _, _ = target_of(start(deployment, GOOGLES)).partition("&mgw=")
    assert send(deployment, target, b"upload, finalize", GOOGLES).status == 200
    (request,) = deployment.simulator.requests()
    assert key_of(request, GEMINI) == KEYS[GEMINI]
    deployment.event()


def test_without_turned_addresses_a_chunk_that_comes_without_a_key_is_refused(
    plain_stage: Deployment,
) -> None:
    address = start(plain_stage, GOOGLES)
    assert address.startswith(plain_stage.simulator.url)
    # As Google's SDK does where a call's own http_options name the gateway.
    response = send(plain_stage, target_of(address))
    assert (response.status, response.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert plain_stage.simulator.requests() == []


def test_without_edge_auth_the_address_has_no_token(open_stage: Deployment) -> None:
    address = start(open_stage)
    assert address.startswith(f"http://gateway{UPLOAD}?")
    assert address.endswith("&provider=gemini")
    assert send(open_stage, target_of(address)).status == 200
    open_stage.event()


def test_a_trusted_proxy_says_that_the_client_came_by_https(
    open_stage: Deployment, deployment: Deployment
) -> None:
    said = b"X-Forwarded-Proto: https"
    assert start(open_stage, said).startswith(f"https://gateway{UPLOAD}?")
    assert start(deployment, said, GOOGLES).startswith(f"http://gateway{UPLOAD}?")  # which trusts nobody


def test_the_public_address_comes_before_all_others(deployment: Deployment) -> None:
    text = providers(deployment.simulator.url) + "public_url: https://llm.example/gate/\n"
    with start_gateway(text) as gateway:
        public = Deployment(deployment.simulator, gateway)
        assert start(public).startswith(f"https://llm.example/gate{UPLOAD}?upload_id=")


# OpenAI's and Anthropic's SDKs ----------------------------------------------------------------------------


@pytest.mark.parametrize("data", [SMALL, MIDDLING], ids=["small", "3 MiB"])
def test_openais_sdk_uploads_and_downloads_a_file(deployment: Deployment, data: bytes) -> None:
    files = deployment.by_openai.files
    file = files.create(file=("a.jsonl", data), purpose="batch")
    assert (file.bytes, file.filename) == (len(data), "a.jsonl")
    (request,) = deployment.simulator.requests()
    assert data in request.body
    assert (key_of(request, OPENAI), EDGE in repr(request.headers)) == (KEYS[OPENAI], False)
    assert files.content(file.id).content == data
    with files.with_streaming_response.content(file.id) as response:
        assert b"".join(response.iter_bytes()) == data
    assert file.id in [one.id for one in files.list()]
    assert files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        files.retrieve(file.id)
    assert {event["modality"] for event in deployment.events(6)} == {"platform"}


def test_openais_sdk_uploads_a_file_in_parts(deployment: Deployment) -> None:
    done = deployment.by_openai.uploads.upload_file_chunked(
        file=MIDDLING,
        filename="a.jsonl",
        bytes=len(MIDDLING),
        mime_type="text/jsonl",
        purpose="batch",
        part_size=1024 * 1024,
    )
    assert done.status == "completed"
    assert done.file
    begun, *parts, ended = deployment.simulator.requests()
    assert (begun.target, ended.target) == ("/v1/uploads", f"/v1/uploads/{done.id}/complete")
    assert [part.target for part in parts] == [f"/v1/uploads/{done.id}/parts"] * 3
    assert all(MIDDLING[: 1024 * 1024] in part.body for part in parts)
    assert deployment.by_openai.files.content(done.file.id).content == MIDDLING
    assert {event["status"] for event in deployment.events(6)} == {"ok"}


@pytest.mark.parametrize("provider", [ANTHROPIC, OTHER + ANTHROPIC])
def test_anthropics_sdk_uploads_and_downloads_a_file(deployment: Deployment, provider: str) -> None:
    headers = {"X-Provider": provider, "anthropic-beta": BETA}
    files = deployment.by_anthropic.with_options(default_headers=headers).beta.files
    file = files.upload(file=("a.txt", MIDDLING, "text/plain"))
    assert file.size_bytes == len(MIDDLING)
    assert files.download(file.id).read() == MIDDLING
    assert files.retrieve_metadata(file.id).filename == "a.txt"
    assert file.id in [one.id for one in files.list()]
    assert files.delete(file.id).type == "file_deleted"
    with pytest.raises(anthropic.NotFoundError):
        files.retrieve_metadata(file.id)
    key = KEYS[ANTHROPIC] if provider == ANTHROPIC else f"other-{KEYS[ANTHROPIC]}"
    for request in deployment.simulator.requests():
        assert (key_of(request, ANTHROPIC), request.value("x-provider")) == (key, None)
        assert request.values("anthropic-beta") == [BETA]
    assert {event["provider"] for event in deployment.events(6)} == {provider}
