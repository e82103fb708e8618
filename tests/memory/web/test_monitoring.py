"""What load balancers, orchestrators and scrapers ask for: exactly these bytes, to whoever may ask."""

from __future__ import annotations

import pytest

from tests.support.channels import get
from tests.support.exchanges import KEY
from tests.support.web_servers import WebServerHarness, settled

pytestmark = pytest.mark.usefixtures("heads")

JSON = b"application/json"
HEALTHY = b'{"status":"ok"}'
READY = b'{"status":"ready"}'
DRAINING = b'{"status":"draining"}'
ROOT = b'{"service":"mgw"}'


def response(
    harness: WebServerHarness, status: bytes, body: bytes, content_type: bytes = JSON, *, head: bool = False
) -> bytes:
    """Return all bytes of a response of the gateway itself that nobody may store."""
    lines = [
        b"HTTP/1.1 %b" % status,
        b"Content-Type: %b" % content_type,
        b"Content-Length: %d" % len(body),
        b"X-Gateway-Request-Id: %b" % harness.observer.ids[-1].encode(),
        b"Date: Thu, 01 Jan 1970 00:00:00 GMT",
        b"Cache-Control: no-store",
    ]
    return b"\r\n".join([*lines, b"", b"" if head else body])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *(("/", ROOT), ("/healthz", HEALTHY), ("/readyz", READY)),
        *(("/healthz?verbose=1", HEALTHY), ("/readyz?", READY)),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [(), (KEY,), ("Authorization: Bearer wrong",)])
def test_a_probe_gets_these_bytes_with_any_key_and_without(
    path: str, body: bytes, method: str, headers: tuple[str, ...]
) -> None:
    harness = WebServerHarness()
    harness.send(get(path, *headers, method=method))
    assert harness.received() == response(harness, b"200 OK", body, head=method == "HEAD")
    assert harness.observer.lines == [(method, path.partition("?")[0], 200)]
    assert (harness.observer.have_events, harness.observer.errors) == ([False], [None])
    assert settled(harness) == (0, 0, 0)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_gateway_that_is_about_to_drain_lives_but_is_not_ready(method: str) -> None:
    harness = WebServerHarness()
    harness.monitoring.draining = lambda: True
    harness.send(get("/readyz", method=method))
    is_head = method == "HEAD"
    assert harness.received() == response(harness, b"503 Service Unavailable", DRAINING, head=is_head)
    assert harness.observer.lines == [(method, "/readyz", 503)]
    harness.connect()
    harness.send(get("/healthz", method=method))
    assert harness.received() == response(harness, b"200 OK", HEALTHY, head=is_head)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_metrics_take_a_key(method: str) -> None:
    harness = WebServerHarness()
    harness.send(get("/metrics", method=method))
    assert harness.status() == 401
    harness.connect()
    harness.send(get("/metrics", KEY, method=method))
    assert harness.received() == response(harness, b"200 OK", b"", b"text/plain")
    assert settled(harness) == (0, 0, 0)


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/metrics"])
def test_a_probe_with_another_method_is_told_which_there_are(path: str) -> None:
    harness = WebServerHarness()
    harness.send(get(path, KEY, method="PUT"))
    assert harness.status() == 405
    assert b"\r\nAllow: GET, HEAD\r\n" in harness.received()


@pytest.mark.parametrize(
    "path", ["/healthz/", "//healthz", "/readyz/x", "/metrics/", "/Healthz", "/%68ealthz"]
)
def test_no_other_path_is_a_probe(path: str) -> None:
    harness = WebServerHarness()
    harness.send(get(path, KEY))
    assert harness.status() == 404
