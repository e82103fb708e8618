"""The promises of mgw.upstream.connect and mgw.upstream.address that need no network."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import DNSLookupError, NoRouteError
from twisted.internet.error import TimeoutError as TcpTimedOut
from twisted.internet.interfaces import (
    IConnector,
    IHostnameResolver,
    IHostResolution,
    IResolutionReceiver,
)
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.nouns.errors import Reason
from mgw.upstream.address import address_of
from mgw.upstream.client import Phase, UpstreamLimits, build_upstream
from mgw.upstream.connect import ATTEMPT_SECONDS, describe_connect_error
from tests.support.upstreams import get, outcome_of

API = address_of("https://api.example.com/v1/")


@pytest.mark.parametrize(
    ("base_url", "host", "port", "host_header", "path"),
    [
        ("https://api.example.com/v1", "api.example.com", 443, b"api.example.com", b"/v1"),
        ("https://api.example.com:443/v1/", "api.example.com", 443, b"api.example.com", b"/v1"),
        ("http://api.example.com", "api.example.com", 80, b"api.example.com", b""),
        ("http://127.0.0.1:8080/a/b", "127.0.0.1", 8080, b"127.0.0.1:8080", b"/a/b"),
        ("http://[::1]:8080/", "::1", 8080, b"[::1]:8080", b""),
        ("https://[2001:db8::1]/v1", "2001:db8::1", 443, b"[2001:db8::1]", b"/v1"),
    ],
)
def test_an_address_is_taken_apart(
    base_url: str, host: str, port: int, host_header: bytes, path: bytes
) -> None:
    address = address_of(base_url)
    assert (address.host, address.port, address.host_header, address.path) == (host, port, host_header, path)


@pytest.mark.parametrize(
    "base_url",
    ["ftp://a/", "api.example.com/v1", "https:///v1", "https://user:pw@a/", "https://a/#x", "https://ü/"],
)
def test_what_is_no_base_address_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the text is for people
        address_of(base_url)


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        (Refused(), Reason.UPSTREAM_BROKEN, "refused the connection"),
        (DNSLookupError(), Reason.UPSTREAM_BROKEN, "no address"),
        (NoRouteError(), Reason.UPSTREAM_BROKEN, "no route"),
        (TimeoutError(), Reason.UPSTREAM_TOO_SLOW, "within 10 s"),
        (TcpTimedOut(), Reason.UPSTREAM_TOO_SLOW, "within 10 s"),
        (ValueError("sk-canary"), Reason.UPSTREAM_BROKEN, "host name that is not valid"),
        (RuntimeError("sk-canary"), Reason.UPSTREAM_BROKEN, "could not be reached"),
    ],
)
def test_a_failed_attempt_is_told_in_plain_words(error: Exception, reason: Reason, words: str) -> None:
    failure = describe_connect_error(error, "main", API, 10)
    assert (failure.reason, failure.phase) == (reason, Phase.CONNECT)
    assert failure.message.startswith("provider main ")
    assert words in failure.message
    assert "canary" not in failure.message
    assert "api.example.com" not in failure.message
    assert failure.detail == "at api.example.com"


@pytest.mark.parametrize(("url", "host"), [("http://127.0.0.1:81", "127.0.0.1"), ("http://[::1]:81", "::1")])
def test_an_ip_address_is_dialled_without_a_name_service(url: str, host: str) -> None:
    reactor = MemoryReactorClock()
    upstream = build_upstream("main", url, UpstreamLimits(), reactor)
    outcome_of(upstream.open(get()))
    assert reactor.tcpClients[0][:2] == (host, 81)


def test_a_file_without_certificates_is_refused_when_the_upstream_is_built(tmp_path: Path) -> None:
    empty = tmp_path / "ca.pem"
    empty.write_text("nothing")
    with pytest.raises(ValueError):  # noqa: PT011  # cryptography's own text
        build_upstream("main", "https://api.example", UpstreamLimits(), MemoryReactorClock(), str(empty))


def test_a_missing_file_of_certificates_is_refused_when_the_upstream_is_built(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.pem")
    with pytest.raises(FileNotFoundError):
        build_upstream("main", "https://api.example", UpstreamLimits(), MemoryReactorClock(), absent)


class Resolving(MemoryReactorClock):
    """A reactor whose resolver knows every name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self.asked: list[str] = []

    def resolve(self, name: str, timeout: object = ()) -> Deferred[str]:
        self.asked.append(name)
        return succeed("10.0.0.7")


def test_a_host_with_an_underscore_is_resolved_and_dialled() -> None:
    reactor = Resolving()
    upstream = build_upstream("local", "http://my_service:8000/v1", UpstreamLimits(), reactor)
    outcome_of(upstream.open(get()))
    assert reactor.asked == ["my_service"]
    assert [dial[:2] for dial in reactor.tcpClients] == [("10.0.0.7", 8000)]


@implementer(IHostnameResolver)
class TwoAddresses:
    """A resolver that knows two addresses for every name."""

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        *_: object,
        **__: object,
    ) -> IHostResolution:
        nothing = cast(IHostResolution, None)
        resolutionReceiver.resolutionBegan(nothing)
        for host in ("10.0.0.1", "10.0.0.2"):
            resolutionReceiver.addressResolved(IPv4Address("TCP", host, portNumber))
        resolutionReceiver.resolutionComplete()
        return nothing


def test_a_name_with_several_addresses_is_dialled_at_one_after_the_other() -> None:
    reactor = MemoryReactorClock()
    reactor.nameResolver = TwoAddresses()
    upstream = build_upstream("main", "http://api.example:8000/v1", UpstreamLimits(), reactor)
    outcome = outcome_of(upstream.open(get()))
    assert [dial[0] for dial in reactor.tcpClients] == ["10.0.0.1"]
    _, _, first, _, _ = reactor.tcpClients[0]
    first.clientConnectionFailed(cast(IConnector, None), Failure(Refused()))
    reactor.advance(ATTEMPT_SECONDS)
    assert [dial[0] for dial in reactor.tcpClients] == ["10.0.0.1", "10.0.0.2"]
    assert outcome.error is None
