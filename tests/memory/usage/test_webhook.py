"""What a webhook's receiver is sent, and what its answers mean."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.config.hooks import WebhookSettings
from mgw.nouns.secret import Secret
from mgw.reactor.treq_arguments import ExactURL
from mgw.usage.outbox import DELIVERED, Outbox, Result, Verdict
from mgw.usage.sinks import SinkTools
from mgw.usage.sinks.webhook import Webhook, WebhookSink, open_sink
from tests.support.deferreds import result_of
from tests.support.stored_events import spool_in, stored_lines
from tests.support.token_endpoints import TokenHosts, TokenPost
from tests.support.usage import AtOnce

ORIGIN = "http://receiver.example"
SECRET = Secret("canary-signing-secret")
LINES = [b'{"request_id":"1"}\n', b'{"request_id":"2"}\n']
KEY = "00064459417182401c80b8a2"
WALL = 1_764_000_000


def webhook(hosts: TokenHosts) -> Webhook:
    headers = ((b"Authorization", b"Bearer canary-token"),)
    url = ExactURL("http://receiver.example/in?x=canary")
    return Webhook(hosts.receiver(10.0), url, headers, SECRET, lambda: WALL + hosts.clock.seconds())


def attempt(status: int = 200, headers: str = "") -> tuple[TokenPost, Result]:
    """Deliver the lines to a receiver that answers so."""
    hosts = TokenHosts()
    done = webhook(hosts).deliver(KEY, LINES)
    post = hosts.newest(ORIGIN)
    post.answer(b"canary answer", status, headers)
    return post, result_of(done)


def test_a_batch_is_a_json_array_of_its_events() -> None:
    post, result = attempt()
    assert result is DELIVERED
    assert post.line == b"POST /in?x=canary"
    assert post.header(b"content-type") == b"application/json"
    assert json.loads(post.body) == [{"request_id": "1"}, {"request_id": "2"}]


def test_the_signature_is_that_of_the_body() -> None:
    post, _ = attempt()
    expected = hmac.new(b"canary-signing-secret", post.body, hashlib.sha256).hexdigest()
    assert post.header(b"x-gateway-signature") == b"sha256=" + expected.encode()


def test_without_a_secret_nothing_is_signed() -> None:
    hosts = TokenHosts()
    hook = webhook(hosts)
    hook.secret = None
    _ = hook.deliver(KEY, LINES)
    assert hosts.newest(ORIGIN).header(b"x-gateway-signature") is None
    assert hosts.newest(ORIGIN).header(b"x-gateway-signature-256") is None


def test_time_key_and_body_are_signed_together_anew_in_each_try() -> None:
    hosts = TokenHosts()
    hook, found = webhook(hosts), []
    for wait in (0.0, 300.9):
        hosts.clock.advance(wait)
        _ = hook.deliver(KEY, LINES)
        post = hosts.newest(ORIGIN)
        signed = b"%d.%b.%b" % (WALL + wait, KEY.encode(), post.body)
        expected = hmac.new(b"canary-signing-secret", signed, hashlib.sha256).hexdigest()
        assert post.header(b"x-gateway-signature-256") == b"t=%d,v1=%b" % (WALL + wait, expected.encode())
        found.append(post.body)
        post.answer(b"", 500)
    assert found[0] == found[1]


def documented_check() -> Callable[[bytes, Mapping[str, str], bytes], bool]:
    """Return the function that the page on sinks shows to receivers."""
    page = Path("docs/sinks.rst").read_text(encoding="utf-8")
    block = page.split(".. code-block:: python\n", 1)[1]
    lines = list(takewhile(lambda line: not line or line.startswith(" " * 8), block.splitlines()))
    names: dict[str, Any] = {}
    exec(dedent("\n".join(lines)), names)
    check: Callable[[bytes, Mapping[str, str], bytes], bool] = names["is_genuine"]
    return check


def test_the_documented_check_takes_what_is_sent_and_nothing_else() -> None:
    post, is_genuine, secret = attempt()[0], documented_check(), b"canary-signing-secret"
    names = ("Idempotency-Key", "X-Gateway-Signature-256")
    headers = {name: (post.header(name.lower().encode()) or b"").decode() for name in names}

    with pytest.MonkeyPatch.context() as patch:
        for age in (0, 300, -300):
            patch.setattr(time, "time", lambda age=age: WALL + age)
            assert is_genuine(secret, headers, post.body)
        for age in (301, -302):
            patch.setattr(time, "time", lambda age=age: WALL + age)
            assert not is_genuine(secret, headers, post.body), "somebody has recorded it"
        patch.setattr(time, "time", lambda: WALL)
        assert not is_genuine(b"another", headers, post.body)
        assert not is_genuine(secret, headers, post.body + b" ")
        assert not is_genuine(secret, {**headers, "Idempotency-Key": "another"}, post.body)
        later = headers["X-Gateway-Signature-256"].replace(f"t={WALL}", f"t={WALL + 1}")
        assert not is_genuine(secret, {**headers, "X-Gateway-Signature-256": later}, post.body)


def test_the_key_of_the_batch_and_the_operators_headers_are_sent() -> None:
    post, _ = attempt()
    assert post.header(b"idempotency-key") == KEY.encode()
    assert post.header(b"authorization") == b"Bearer canary-token"


def test_each_try_of_a_batch_sends_the_same() -> None:
    hosts = TokenHosts()
    hook = webhook(hosts)
    for _ in range(2):
        _ = hook.deliver(KEY, LINES)
    first, second = hosts.posts(ORIGIN)
    assert (first.head, first.body) == (second.head, second.body)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_the_end_of_it(status: int) -> None:
    hosts = TokenHosts()
    done = webhook(hosts).deliver(KEY, LINES)
    hosts.newest(ORIGIN).answer(b"", status)
    assert result_of(done) is DELIVERED


@pytest.mark.parametrize("status", [300, 301, 302, 307, 400, 401, 404, 409, 429, 500, 503])
def test_any_other_status_is_tried_again_and_no_redirect_is_followed(status: int) -> None:
    hosts = TokenHosts()
    done = webhook(hosts).deliver(KEY, LINES)
    hosts.newest(ORIGIN).answer(b"", status, "Location: http://elsewhere.example/\r\n")
    assert result_of(done) == Result(Verdict.RETRY, f"the receiver returned status {status}")
    assert set(hosts.endpoints) == {ORIGIN}


def test_410_ends_the_batch() -> None:
    _, result = attempt(410)
    assert result.verdict is Verdict.REFUSED


def test_silence_ends_in_time_and_closes_the_connection() -> None:
    hosts = TokenHosts()
    done = webhook(hosts).deliver(KEY, LINES)
    hosts.clock.advance(9.9)
    assert not done.called
    hosts.clock.advance(0.2)
    assert result_of(done) == Result(Verdict.RETRY, "no answer within 10 s")
    assert hosts.newest(ORIGIN).connection.aborted


def test_an_answer_that_breaks_off_is_tried_again() -> None:
    hosts = TokenHosts()
    done = webhook(hosts).deliver(KEY, LINES)
    connection = hosts.newest(ORIGIN).connection
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    connection.close()
    assert result_of(done).verdict is Verdict.RETRY


def test_an_endless_answer_is_not_read_to_its_end() -> None:
    hosts = TokenHosts()
    done = webhook(hosts).deliver(KEY, LINES)
    connection = hosts.newest(ORIGIN).connection
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 100_000)
    assert result_of(done) is DELIVERED
    assert connection.aborted


def sink_to(hosts: TokenHosts, folder: Path, **more: object) -> WebhookSink:
    """A sink whose settings have been loaded."""
    tools = SinkTools(
        hosts.clock,
        lambda reactor, name: AtOnce(),
        hosts.sink_client,
        spool_in(folder),
        hosts.clock.seconds,
    )
    settings = WebhookSettings.model_validate({"url": "http://receiver.example/in?x=canary", **more})
    return open_sink(settings, tools)


def test_a_failing_receiver_is_told_of_in_the_log_without_anything_secret(tmp_path: Path) -> None:
    hosts = TokenHosts()
    sink = sink_to(hosts, tmp_path, secret=SECRET, headers={"Authorization": Secret("canary-header")})
    with capturedLogs() as logs:
        sink.record_lines([b'{"model":"canary"}\n'])
        hosts.clock.advance(1)
        hosts.newest(ORIGIN).answer(b"canary answer", 500)
        hosts.clock.advance(1)
        hosts.newest(ORIGIN).answer(b"canary answer", 500)
    assert [log["reason"] for log in logs] == ["the receiver returned status 500"]
    assert "canary" not in str(logs)
    assert "canary" not in repr(sink)
    assert (sink.errors, sink.dropped) == (2, 0)


def test_a_batch_goes_to_the_receiver_when_it_is_full_or_due(tmp_path: Path) -> None:
    hosts = TokenHosts()
    sink = sink_to(hosts, tmp_path, batch_max=2, flush_seconds=5.0)
    sink.record_lines(LINES * 2)
    hosts.newest(ORIGIN).answer(b"")
    hosts.clock.advance(0)
    hosts.newest(ORIGIN).answer(b"")
    assert [len(json.loads(post.body)) for post in hosts.posts(ORIGIN)] == [2, 2]
    sink.record_lines(LINES[:1])
    hosts.clock.advance(4)
    assert len(hosts.posts(ORIGIN)) == 2
    hosts.clock.advance(1)
    assert len(hosts.posts(ORIGIN)) == 3


def test_closing_delivers_and_closes_the_connections(tmp_path: Path) -> None:
    hosts = TokenHosts()
    sink = sink_to(hosts, tmp_path)
    sink.record_lines(LINES)
    closed = sink.close()
    hosts.newest(ORIGIN).answer(b"")
    hosts.clock.advance(0)
    assert closed.called
    assert not stored_lines(tmp_path, "webhook")


def test_options_of_the_settings_reach_the_outbox(tmp_path: Path) -> None:
    sink = sink_to(TokenHosts(), tmp_path, batch_max=7, flush_seconds=2.0)
    assert isinstance(sink.outbox, Outbox)
    options = sink.outbox.options
    assert (options.batch_max, options.flush_seconds, options.save_first) == (7, 2.0, True)
    assert isinstance(sink.outbox.clock, Clock)
    assert isinstance(sink.close(), Deferred)
