"""A gateway that is full, over real sockets: who is connected is served, who comes is told so."""

from __future__ import annotations

import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from tests.support.certificates import authority, issue
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import CHAT, Incoming, RawClient, asking, request
from tests.support.raw_upstream import RawUpstream
from tests.support.waiting import wait_until

HEALTH = request(None, path="/healthz", method="GET")


def configuration(upstream: RawUpstream, more: str = "max_clients: 3") -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
{more}
"""


def test_a_full_gateway_serves_who_is_connected_and_tells_who_comes(upstream: RawUpstream) -> None:
    with start_gateway(configuration(upstream)) as gateway, ExitStack() as stack:
        connected = [stack.enter_context(RawClient(gateway.port)) for _ in range(3)]
        for client in connected:
            client.send(request(asking("gpt-1")))
            assert client.read_response().status == 200
        for _ in range(5):
            response = ask(gateway.port, CHAT, body=asking("gpt-1"))
            assert (response.status, response.whole, response.value(b"connection")) == (503, True, b"close")
            assert response.json()["error"]["code"] == "overloaded"
            assert ask(gateway.port, "/healthz").status == 200
        connected[0].send(request(None, path="/metrics", method="GET"))
        text = connected[0].read_response().body
        assert b"\nmgw_client_connections 3.0\n" in text
        assert b"\nmgw_client_connections_max 3.0\n" in text
        assert b"\nmgw_client_connections_refused_total 10.0\n" in text
        connected[1].socket.close()
        wait_until(lambda: ask(gateway.port, CHAT, body=asking("gpt-1")).status == 200, "a free place")
        log = gateway.log(b"max_clients: 3 clients are connected")
        assert log.count(b"max_clients") == 1


def test_a_large_upload_to_a_full_gateway_learns_why_it_is_refused(upstream: RawUpstream) -> None:
    with start_gateway(configuration(upstream, "max_clients: 1")) as gateway, RawClient(gateway.port) as one:
        one.send(HEALTH)
        assert one.read_response("GET").status == 200
        with RawClient(gateway.port) as client:
            client.send(request(bytes(20_000_000)))
            assert client.read_response().status == 503


def test_a_full_gateway_behind_tls_says_so_over_tls(upstream: RawUpstream, tmp_path: Path) -> None:
    by = authority(tmp_path)
    files = issue(by, "localhost", "127.0.0.1")
    more = f"max_clients: 1\ntls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}"
    trusting = ssl.create_default_context(cafile=str(by.ca_file))
    with start_gateway(configuration(upstream, more)) as gateway, RawClient(gateway.port) as silent:
        # not even a handshake, and yet it has the only place
        wait_until(lambda: asked_over_tls(gateway, trusting) == b"HTTP/1.1 503", "the gateway to be full")
        silent.socket.close()
        wait_until(lambda: asked_over_tls(gateway, trusting) == b"HTTP/1.1 200", "a free place")


def asked_over_tls(gateway: GatewayProcess, trusting: ssl.SSLContext) -> bytes:
    plain = socket.create_connection(("127.0.0.1", gateway.port), 20)
    with closing(trusting.wrap_socket(plain, server_hostname="localhost")) as secure:
        secure.sendall(b"GET / HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n")
        return Incoming(secure).rest()[:12]


@contextmanager
def files_to_open(count: int) -> Iterator[None]:
    """Let processes that are started within the block open so many files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_clients_than_the_process_has_files_for_are_warned_of(upstream: RawUpstream) -> None:
    with files_to_open(4096), start_gateway(configuration(upstream, "max_clients: 5000")) as gateway:
        gateway.log(b"max_clients: 5000 clients may need more than 10000 open files")


def test_a_process_without_descriptors_left_goes_on_and_says_so_once(upstream: RawUpstream) -> None:
    with start_gateway(configuration(upstream, "max_clients: 5000")) as gateway, ExitStack() as stack:
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (48, 48))
        for _ in range(100):
            stack.enter_context(RawClient(gateway.port))
        gateway.log(b"a connection could not be accepted")
        stack.close()
        wait_until(lambda: served(gateway), "the gateway to serve again")
        assert gateway.stderr.data.count(b"could not be accepted") == 1
        assert b"EMFILE" not in gateway.stderr.data


def served(gateway: GatewayProcess) -> bool:
    with RawClient(gateway.port) as client:
        client.send(HEALTH)
        return b" 200 " in (client.incoming.until(b"\r\n\r\n") or b"")
