"""A head that never came before costs less where its path and its model did, and is sent like any other."""

from __future__ import annotations

import gzip

import pytest

from mgw.memo.request_memo import MAX_SENT, MAX_TARGETS
from tests.memory.web.test_admission import reload, serve, upstream_heads
from tests.support.channels import post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import KEY, PATH
from tests.support.pipelines import CHAT
from tests.support.web_servers import WebServerHarness

TRANSLATED = b'{"model": "smart", "messages": [{"role": "user", "content": "hello"}]}'


def sent(harness: WebServerHarness, *lines: str, body: bytes = CHAT, path: str = PATH) -> list[bytes]:
    """Serve a request with these lines, and return those that the provider got."""
    before = len(upstream_heads(harness))
    serve(harness, post(body, KEY, "Accept: */*", *lines, path=path))
    *_, head = upstream_heads(harness)[before:]
    return head.split(b"\r\n")[1:]


@pytest.mark.parametrize("body", [CHAT, TRANSLATED], ids=["relayed", "translated"])
def test_each_head_is_sent_with_its_own_lines(body: bytes) -> None:
    harness = WebServerHarness()
    for number in range(3 * MAX_SENT):
        title = f"X-Title: {number % (MAX_SENT + 1)}"
        lines = sent(harness, title, f"X-Unknown: {number}", body=body)
        assert [line for line in lines if line.startswith((b"X-Title", b"X-Unknown"))] == [title.encode()]


def test_heads_that_differ_in_what_is_not_passed_on_are_sent_alike() -> None:
    harness = WebServerHarness()
    first = sent(harness, "X-Title: t", "X-Unknown: 1")
    assert sent(harness, "X-Title: t", "X-Unknown: 2") == first
    assert sent(harness, "X-Unknown: 3", "X-Title: t") == first


def test_a_coded_body_is_read_where_others_of_its_model_came_before() -> None:
    harness = WebServerHarness()
    for number in range(3):
        sent(harness, f"X-Unknown: {number}")
    lines = sent(harness, "Content-Encoding: gzip", "X-Unknown: 3", body=gzip.compress(CHAT))
    assert not [line for line in lines if line.lower().startswith(b"content-encoding")]
    assert harness.connection.received.endswith(b'\r\n\r\n{ "model" : "gpt-b", "messages": [] }')


def test_the_same_path_with_another_query_is_sent_with_its_own() -> None:
    harness = WebServerHarness()
    for query in ("", "?beta=1", "?beta=2", ""):
        sent(harness, f"X-Unknown: {query}", path=PATH + query)
        assert harness.connection.received.startswith(b"POST %b HTTP" % (PATH + query).encode())


@pytest.mark.parametrize("provider", ["main", "host"])
def test_a_header_that_chooses_the_provider_is_looked_at_each_time(provider: str) -> None:
    harness = WebServerHarness()
    path = "/v1/moderations"
    for number, name in enumerate(["main", "host", provider, provider]):
        lines = sent(harness, f"X-Provider: {name}", f"X-Unknown: {number}", body=b'{"input":"x"}', path=path)
    asked = {"main": b"Host: openai.example", "host": b"Host: host.example"}
    assert asked[provider] in lines


def test_a_model_that_a_reload_leads_elsewhere_is_looked_up_anew() -> None:
    harness = WebServerHarness()
    assert b"Host: openai.example" in sent(harness, "X-Unknown: 1")
    reload(harness, THREE_FAMILIES.replace("main/gpt-b", "host/other"))
    assert b"Host: host.example" in sent(harness, "X-Unknown: 2")
    assert b'"other"' in harness.connection.received


def test_no_more_models_are_kept_than_there_is_room_for() -> None:
    harness = WebServerHarness()
    for number in range(MAX_TARGETS + 5):
        sent(harness, body=b'{"model": "host/invented-%d"}' % number)
    kept = harness.pipeline.generation.memo.targets
    assert len(kept) == MAX_TARGETS
    assert {str(model).rpartition("-")[2] for *_, model in kept} == {
        str(n) for n in range(5, MAX_TARGETS + 5)
    }
    sent(harness, body=b'{"model": "host/%b"}' % (b"x" * 1000))
    assert len(kept) == MAX_TARGETS
