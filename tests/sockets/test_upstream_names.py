"""Whatever dials checks the name in the certificate, and every doubt refuses before a byte was sent.

Each certificate here is signed by an authority that the provider's ``ca_file`` trusts: only its names can
tell a stranger from the provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

import pytest
from cryptography import x509
from OpenSSL import SSL
from treq.client import HTTPClient
from twisted.internet.ssl import DefaultOpenSSLContextFactory

from mgw.nouns.errors import GatewayError, Reason
from mgw.upstream import certificate_names
from mgw.upstream.agent import build_agent
from mgw.upstream.client import Phase, UpstreamFailure, UpstreamLimits, UpstreamRequest, build_upstream
from tests.support.certificates import Authority, Issued, issue, issue_naming
from tests.support.gateway import start_gateway
from tests.support.listening import Provider, Server, body_of
from tests.support.operations import ask
from tests.support.reactor import in_reactor, running_reactor

LIMITS: Final = UpstreamLimits(connect=5.0, first_byte=10.0, idle=10.0)
POST: Final = UpstreamRequest(b"POST", b"/v1/chat", [(b"Authorization", b"Bearer sk-canary")], b"{}")
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
KEY: Final = b"x-api-key: edge-canary-1"

DNS = x509.DNSName
NAMES: Final[dict[str, Sequence[x509.GeneralName]]] = {
    "none at all": (),
    "a star": (DNS("*"),),
    "a star and one label": (DNS("*.internal"),),
    "all of a domain": (DNS("*.com"),),
    "a star in an address": (DNS("*.0.0.1"),),
    "an address as a name": (DNS("127.0.0.1"),),
    "a number": (DNS("1"),),
    "two stars": (DNS("*.*.example.com"),),
    "a part of a label": (DNS("lo*.example.com"),),
    "the right one beside one that cannot be read": (DNS("localhost"), DNS("*.internal")),
    "another name": (DNS("other.example"),),
    "a name that begins so": (DNS("localhost.example"),),
    "another address": (x509.IPAddress(ip_address("192.0.2.1")),),
    "a mailbox": (x509.RFC822Name("admin@localhost"),),
    "an address with a scheme": (x509.UniformResourceIdentifier("https://localhost/"),),
}


@dataclass
class Stranger:
    """A TLS server with a certificate of its own; ``server.heard`` counts what it could read."""

    server: Server
    port: int


def answer_ok(provider: Provider) -> None:
    provider.transport.write(OK)


@contextmanager
def listening(issued: Issued, highest: int | None = None) -> Iterator[Stranger]:
    reactor = running_reactor()
    server = Server(answer_ok)
    context = DefaultOpenSSLContextFactory(str(issued.key_file), str(issued.cert_file), SSL.TLS_METHOD)
    if highest is not None:
        context.getContext().set_max_proto_version(highest)

    async def listen() -> Any:
        return reactor.listenSSL(0, server, context, interface="127.0.0.1")

    async def close(port: Any) -> None:
        server.hang_up()
        await port.stopListening()

    port = in_reactor(listen)
    try:
        yield Stranger(server, port.getHost().port)
    finally:
        in_reactor(lambda: close(port))


def relayed(url: str, ca_file: str) -> bytes:
    async def run() -> bytes:
        upstream = build_upstream("main", url, LIMITS, running_reactor(), ca_file)
        try:
            return await body_of(await upstream.open(POST))
        finally:
            assert upstream.active == 0
            upstream.close()
            await upstream.when_closed()

    return in_reactor(run)


def asked_by_treq(url: str, ca_file: str) -> bytes:
    async def run() -> bytes:
        agent = build_agent(running_reactor(), LIMITS, 2, ca_file)
        try:
            response = await HTTPClient(agent).post(url, data=b"client_secret=canary")
            return bytes(await response.content())
        finally:
            agent.close()

    return in_reactor(run)


DIALLERS: Final = {"relay": relayed, "treq": asked_by_treq}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_a_doubtful_name_is_refused_and_nothing_is_sent(
    ca: Authority, names: Sequence[x509.GeneralName], host: str
) -> None:
    with listening(issue_naming(ca, "localhost", names)) as stranger:
        with pytest.raises(UpstreamFailure) as caught:
            relayed(f"https://{host}:{stranger.port}/v1", str(ca.ca_file))
        assert stranger.server.heard == 0
    assert (caught.value.reason, caught.value.phase) == (Reason.UPSTREAM_BROKEN, Phase.CONNECT)
    assert caught.value.message.startswith("provider main has a certificate ")


@pytest.mark.parametrize("highest", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION], ids=["1.2", "1.3"])
@pytest.mark.parametrize("dial", DIALLERS.values(), ids=DIALLERS)
def test_whoever_dials_and_in_each_version_of_tls(
    ca: Authority, dial: Callable[[str, str], bytes], highest: int
) -> None:
    with listening(issue_naming(ca, "localhost", ()), highest) as stranger:
        with pytest.raises(GatewayError):
            dial(f"https://localhost:{stranger.port}/", str(ca.ca_file))
        assert stranger.server.heard == 0
    with listening(issue(ca, "localhost"), highest) as provider:
        assert dial(f"https://localhost:{provider.port}/", str(ca.ca_file)) == b"hi"
        assert provider.server.heard


def test_an_exception_in_the_check_itself_refuses(ca: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    def trips(*_: object) -> None:
        raise RuntimeError("sk-canary")

    monkeypatch.setattr(certificate_names, "verify_service_identity", trips)
    with listening(issue(ca, "localhost")) as provider:
        with pytest.raises(UpstreamFailure) as caught:
            relayed(f"https://localhost:{provider.port}/v1", str(ca.ca_file))
        assert provider.server.heard == 0
    assert "canary" not in caught.value.message


def test_a_running_gateway_tells_a_stranger_nothing(ca: Authority) -> None:
    with listening(issue_naming(ca, "localhost", (DNS("*"),))) as stranger:
        text = f"""
providers:
  main:
    kind: openai
    base_url: "https://localhost:{stranger.port}/v1"
    api_key: sk-canary
    ca_file: "{ca.ca_file}"
health_checks: {{enabled: true, timeout: 5}}
edge_auth: {{enabled: true, keys: [edge-canary-1]}}
"""
        with start_gateway(text) as gateway:
            body = b'{"model":"main/m","messages":[]}'
            chat = ask(gateway.port, "/v1/chat/completions", KEY, body=body)
            health: Any = ask(gateway.port, "/v1/health/providers", KEY).json()
            lists: Any = ask(gateway.port, "/v1/models?live=1", KEY).json()
        assert stranger.server.accepted == 3
        assert stranger.server.heard == 0
    assert chat.status == 502
    assert [each["error"] for each in health["providers"]] == ["unreachable"]
    assert lists["data"] == []
