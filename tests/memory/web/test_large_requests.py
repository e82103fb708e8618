"""A large body reaches the provider as a small one does, however it comes and wherever its model stands."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.bodies.buffer import BodyBuffer
from mgw.exchange.body import COPIED_BYTES
from mgw.exchange.offload import SEARCHED_BYTES
from mgw.upstream.connection import MAX_UNWATCHED_BYTES
from mgw.web import client_transport, server_request
from mgw.web.client_transport import LARGE_BYTES
from mgw.wire.byte_search import LONG_BYTES
from tests.support.channels import post
from tests.support.exchanges import JSON, KEY, PATH
from tests.support.pipelines import answered
from tests.support.web_servers import WebServerHarness, settled

pytestmark = pytest.mark.usefixtures("heads")

SIZES: Final = [LONG_BYTES, COPIED_BYTES, MAX_UNWATCHED_BYTES, SEARCHED_BYTES, 3 * SEARCHED_BYTES]
THOUGHT: Final = b'{"type":"thinking","thinking":"","signature":"bWd3c2lnZ3J0QUJD"}'


def body_of(size: int, where: str, model: bytes, content: bytes = b"") -> bytes:
    """A body of ``size`` bytes, or a few more."""
    member = b'"model": "%b"' % model
    before = member + b"," if where == "front" else b""
    behind = b',%b,"n":1' % member if where == "middle" else b"," + member if where == "end" else b""
    messages = b'"messages":[{"role":"user","content":"'
    begin, end = b"{" + before + messages, b'"}%b]%b}' % (content, behind)
    return begin + b"x" * (size - len(begin) - len(end)) + end


def upstream_body(harness: WebServerHarness) -> bytes:
    *_, last = harness.connection.received.split(b"POST ")
    head, _, body = bytes(last).partition(b"\r\n\r\n")
    assert b"\r\nContent-Length: %d" % len(body) in head
    return body


@pytest.mark.parametrize("model", ["gpt-x", "main/gpt-x"])
@pytest.mark.parametrize("where", ["front", "middle", "end"])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_only_the_model_of_a_body_of_any_size_is_another(model: str, where: str, more: int) -> None:
    harness = WebServerHarness()
    for size in SIZES:
        for _ in range(2):
            body = body_of(size + more, where, model.encode())
            harness.send(post(body, KEY, JSON, path=PATH))
            assert upstream_body(harness) == body.replace(b"main/", b"")
            harness.connection.send(answered())
    assert settled(harness) == (0, 0, 0)


@given(
    cuts=st.lists(st.integers(0, 700_000), max_size=8),
    where=st.sampled_from(["front", "end"]),
    chunked=st.booleans(),
)
def test_a_body_that_comes_in_any_pieces_arrives_whole(cuts: list[int], where: str, chunked: bool) -> None:
    harness = WebServerHarness()
    body = body_of(700_000, where, b"main/gpt-x")
    pieces = [body[start:end] for start, end in pairwise([0, *sorted(cuts), len(body)])]
    if chunked:
        head = post(b"", KEY, JSON, path=PATH).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        pieces = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece] + [b"0\r\n\r\n"]
    else:
        head = post(body, KEY, JSON, path=PATH).removesuffix(body)
    for piece in (head, *pieces):
        harness.send(piece)
    assert upstream_body(harness) == body.replace(b"main/", b"")
    harness.connection.send(answered())
    assert (harness.status(), settled(harness)) == (200, (0, 0, 0))


@pytest.mark.parametrize("size", [1000, *SIZES])
def test_what_the_gateway_put_into_a_history_is_found_in_a_body_of_any_size(size: int) -> None:
    harness = WebServerHarness()
    for content in (b"", b',{"role":"assistant","content":[%b,{"type":"text","text":"hi"}]}' % THOUGHT) * 2:
        body = body_of(size, "front", b"claude/m", content)
        harness.send(post(body, KEY, JSON, path="/v1/messages"))
        expected = body.replace(THOUGHT + b",", b"").replace(b"claude/", b"")
        assert upstream_body(harness) == expected
        harness.connection.send(answered(b"{}"))


@pytest.mark.parametrize("size", [1000, *SIZES])
def test_a_list_of_models_is_renamed_in_a_body_of_any_size(size: int) -> None:
    harness = WebServerHarness()
    for listed in (b"", b'"models":["host/two","other"],', b"", b'"models":["host/two","other"],'):
        body = body_of(size, "front", b"host/one").replace(b'"messages"', listed + b'"messages"')
        harness.send(post(body, KEY, JSON, path=PATH))
        assert upstream_body(harness) == body.replace(b"host/", b"")
        harness.connection.send(answered())


@pytest.mark.parametrize(
    ("size", "told"), [(LARGE_BYTES, []), (LARGE_BYTES + 1, [True, False]), (900_000, [True, False])]
)
def test_more_is_read_at_once_while_a_large_body_comes(
    size: int, told: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, heard = WebServerHarness(), list[bool]()

    def read_much(transport: object, *, much: bool) -> None:
        if transport is harness.transport:  # not another client's, of those who sent the head before
            heard.append(much)

    monkeypatch.setattr(client_transport, "read_much", read_much)
    body = body_of(size, "front", b"gpt-x")
    request = post(body, KEY, JSON, path=PATH)
    for number in range(1, 4):
        harness.send(request[:-size])
        harness.send(request[-size:-1])
        assert heard == (told * number)[: -1 if told else None]
        harness.send(request[-1:])
        assert heard == told * number
        harness.connection.send(answered())
    harness.send(request)
    assert heard == told * 3


@pytest.mark.parametrize("chunked", [False, True])
def test_what_gathers_a_body_knows_how_long_it_will_be(
    chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers: list[BodyBuffer] = []

    def made(announced: int) -> BodyBuffer:
        buffers.append(BodyBuffer(announced))
        return buffers[-1]

    monkeypatch.setattr(server_request, "BodyBuffer", made)
    harness, body = WebServerHarness(), body_of(700_000, "front", b"main/gpt-x")
    head = post(body, KEY, JSON, path=PATH).removesuffix(body)
    if chunked:
        head = head.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    for piece in (head, body[:1000], body[1000:]):
        harness.send(piece)
    assert [one.announced for one in buffers] == [0 if chunked else len(body)]
