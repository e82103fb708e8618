"""What a reload takes from clients with tokens: over connections, in requests that wait, and in uploads."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.memory.web.test_admission import known, reload, serve
from tests.memory.web.test_tokens import PATH, TEXT, UPLOAD, TokenHarness, TokenSession, ask, status, waiting
from tests.support.channels import post
from tests.support.exchanges import JSON
from tests.support.pipelines import answered

RULES: Final = "rules: [{when: {role: llm}, groups: [research]}, {when: {role: guest}}]"
WITHOUT_GROUP: Final = TEXT.replace(RULES, "rules: [{when: {role: guest}}]")
OTHER_ISSUER: Final = TEXT.replace("https://login.example.com", "https://other.example.com")
WITHOUT_ISSUERS: Final = TEXT[: TEXT.index("  jwt:")]
CHANGES: Final = {"rule": WITHOUT_GROUP, "issuer": OTHER_ISSUER, "all issuers": WITHOUT_ISSUERS}
REFUSED: Final = {"rule": 403, "issuer": 401, "all issuers": 401}


@pytest.mark.parametrize("change", CHANGES)
def test_a_reload_shuts_out_clients_over_their_connections(change: str) -> None:
    harness = TokenHarness()
    request = ask(harness.token())
    for _ in range(3):
        assert status(serve(harness, request)) == 200
    assert known(harness, request) is not None
    harness.connect()
    harness.channel.dataReceived(request)
    harness.pipeline.endpoint.connections[-1].send(answered())
    assert harness.status() == 200
    before = len(harness.received())
    reload(harness, CHANGES[change])
    harness.channel.dataReceived(request)
    assert status(harness.received()[before:]) == REFUSED[change]


@pytest.mark.parametrize("change", CHANGES)
def test_a_waiting_request_meets_the_configuration_of_its_end(change: str) -> None:
    harness, _ = waiting()
    harness.channel.dataReceived(ask(harness.token()))
    reload(harness, CHANGES[change])
    harness.keys.known["corp"] = harness.issuer.key_set()
    harness.keys.asked[0].callback(None)
    assert harness.status() == REFUSED[change]
    assert not harness.pipeline.endpoint.connections


def test_a_waiting_request_gets_what_a_reload_gives() -> None:
    harness = TokenHarness(WITHOUT_GROUP)
    harness.keys.may_ask = True
    harness.issuer.rotate()
    harness.connect()
    harness.channel.dataReceived(ask(harness.token()))
    reload(harness, TEXT)
    harness.keys.known["corp"] = harness.issuer.key_set()
    harness.keys.asked[0].callback(None)
    harness.connection.send(answered())
    assert harness.event.client_groups == ("research",)


@pytest.mark.parametrize("change", ["issuer", "all issuers"])
@pytest.mark.parametrize("cuts", [True, False])
def test_a_session_ends_with_its_issuer_where_that_is_wanted(change: str, cuts: bool) -> None:
    harness = TokenSession(cuts=cuts)
    harness.switch()
    harness.take_head()
    text = CHANGES[change].replace("name: corp", "name: another")
    reload(harness, text.replace("enabled: true", f"enabled: true\n  cut_revoked: {str(cuts).lower()}"))
    harness.changes.follow()
    assert [frame.code for frame in harness.client_frames()] == ([1008] if cuts else [])
    harness.changes.stop()


def begin_upload(harness: TokenHarness) -> str:
    """Begin an upload, and return the address of its chunks."""
    harness.connect()
    start = ("X-Goog-Upload-Command: start", JSON)
    harness.send(post(b"{}", f"x-goog-api-key: {harness.token()}", *start, path=UPLOAD))
    harness.connection.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
        b"X-Goog-Upload-URL: https://gemini.example/upload/v1beta/files?upload_id=7\r\n\r\n{}"
    )
    found = re.search(rb"X-Goog-Upload-URL: http://[^/]*(/\S+)", harness.received())
    assert found is not None
    return found[1].decode()


def upload(harness: TokenHarness, address: str) -> int:
    return status(serve(harness, post(b"data", "X-Goog-Upload-Command: upload", path=address)))


@pytest.mark.parametrize("change", CHANGES)
def test_an_address_of_uploads_ends_with_what_its_client_was_let_in_by(change: str) -> None:
    harness = TokenHarness()
    address = begin_upload(harness)
    assert upload(harness, address) == 200
    reload(harness, TEXT.replace("clock_skew: 0", "clock_skew: 1"))
    assert upload(harness, address) == 200
    reload(harness, CHANGES[change])
    assert upload(harness, address) == 401


def test_an_address_of_uploads_is_worth_nothing_elsewhere() -> None:
    harness = TokenHarness()
    address = begin_upload(harness)
    token = address.partition("mgw=")[2].partition("&")[0]
    others = (
        f"{PATH}?mgw={token}",
        f"{UPLOAD}?mgw={token}",
        f"{UPLOAD}?upload_id=8&mgw={token}",
        address.replace("v1beta", "v1"),
        address.replace("-i", "-I"),
        f"{address}&upload_id=8",
        address.replace("gem", "main"),
    )
    for other in others:
        assert upload(harness, other) in (401, 404), other


def test_an_address_of_uploads_lasts_a_day() -> None:
    harness = TokenHarness()
    address = begin_upload(harness)
    harness.unix_seconds += 86_400
    assert upload(harness, address) == 200
    harness.unix_seconds += 1
    assert upload(harness, address) == 401
