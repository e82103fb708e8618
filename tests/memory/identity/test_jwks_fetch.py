"""One fetch of an issuer's keys: what is asked, whom the bearer token is shown, and hostile answers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from twisted.internet.error import ConnectionRefusedError as Refused

from mgw.clients.tokens.key_set import MAX_SET_BYTES
from mgw.config.proxy import parse_proxy
from mgw.identity.key_refresh import FETCH_SECONDS
from tests.support.issuers import HOST, ISSUER, JWKS, IssuerBench, IssuerLines, discovery, entry, jwk, key_set
from tests.support.token_endpoints import TokenPost

TOKEN = "canary-token-of-a-pod-0001"
API_SERVER = "https://10.0.0.1:6443"


@pytest.fixture
def bench() -> IssuerBench:
    return IssuerBench()


def test_keys_are_found_by_discovery(bench: IssuerBench) -> None:
    bench.begin(entry())
    (first,) = bench.asked()
    assert first.line == b"GET /realms/main/.well-known/openid-configuration"
    assert first.header(b"authorization") is None
    assert first.header(b"accept-encoding") == b"identity"
    assert bench.keys.keys_of("corp") is None
    first.answer(discovery())
    second = bench.newest()
    assert second.line == b"GET /keys"
    second.answer(key_set(jwk("a"), jwk("b", "two")))
    assert bench.ids() == {"a", "b"}


def test_a_slash_at_the_end_of_the_issuer_is_not_doubled(bench: IssuerBench) -> None:
    bench.begin(entry(issuer=ISSUER + "/"))
    assert bench.newest().line == b"GET /realms/main/.well-known/openid-configuration"
    bench.newest().answer(discovery(issuer=ISSUER + "/"))
    bench.serve(jwk("a"))
    assert bench.ids() == {"a"}


def test_with_an_address_of_the_keys_nothing_is_discovered(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=f"{HOST}/other?v=1"))
    assert bench.newest().line == b"GET /other?v=1"
    bench.serve(jwk("a"))
    assert bench.ids() == {"a"}
    assert len(bench.asked()) == 1


def test_authorities_and_proxy_are_those_of_the_entry(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS, ca_file="/etc/ca.pem", proxy="http://proxy.example:3128"))
    assert bench.opened == [("/etc/ca.pem", parse_proxy("http://proxy.example:3128"))]


def test_what_is_asked_for_without_tls_is_on_this_machine_and_not_on_that_of_a_proxy(
    bench: IssuerBench,
) -> None:
    proxy = parse_proxy("http://proxy.example:3128")
    bench.begin(entry(proxy=proxy))
    assert bench.opened == [(None, proxy)]
    bench.newest().answer(discovery(jwks_uri="http://localhost/keys"))
    assert bench.opened == [(None, proxy), (None, None)]
    bench.keys.use([entry(issuer="http://[::1]:8080", proxy=proxy)])
    assert bench.opened[2:] == [(None, None)]
    bench.newest("http://[::1]:8080").answer(discovery(issuer="http://[::1]:8080"))
    assert bench.opened[3:] == [(None, proxy)]


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return str(path)


def shown(post: TokenPost) -> bool:
    """Whether a request shows the token."""
    found = post.header(b"authorization")
    assert found in (None, f"Bearer {TOKEN}".encode())
    return found is not None


@pytest.mark.parametrize(
    ("settings", "jwks_uri", "origin", "is_shown"),
    [
        ({}, JWKS, HOST, True),
        ({}, f"{HOST}:443/keys", HOST, True),
        ({}, "https://LOGIN.example.com/keys", HOST, True),
        ({}, f"{HOST}:8443/keys", f"{HOST}:8443", False),
        ({}, "https://cdn.example/keys", "https://cdn.example", False),
        ({}, "http://localhost/keys", "http://localhost", False),
        ({}, f"{API_SERVER}/openid/v1/jwks", API_SERVER, False),
        ({"ca_file": "/etc/ca.pem"}, f"{API_SERVER}/openid/v1/jwks", API_SERVER, True),
        ({"ca_file": "/etc/ca.pem"}, "HTTPS://10.0.0.1:6443/keys", API_SERVER, True),
        ({"ca_file": "/etc/ca.pem"}, "http://localhost/keys", "http://localhost", False),
        ({"ca_file": "/etc/ca.pem"}, "http://[::1]:8080/keys", "http://[::1]:8080", False),
    ],
)
def test_a_host_that_only_the_issuer_names_gets_the_token_if_our_authorities_vouch_for_it(
    bench: IssuerBench,
    token_file: str,
    settings: dict[str, str],
    jwks_uri: str,
    origin: str,
    is_shown: bool,
) -> None:
    bench.begin(entry(token_file=token_file, **settings))
    assert shown(bench.newest())
    bench.newest().answer(discovery(jwks_uri=jwks_uri))
    assert shown(bench.newest(origin)) is is_shown
    bench.newest(origin).answer(key_set(jwk("a")))
    assert bench.ids() == {"a"}


def test_the_token_is_read_each_time_and_known_as_a_secret(bench: IssuerBench, token_file: str) -> None:
    bench.begin(entry(jwks_url="https://keys.example/set", token_file=token_file))
    assert shown(bench.newest("https://keys.example")), "the operator has named this host"
    bench.newest("https://keys.example").answer(key_set(jwk("a")))
    Path(token_file).write_text("canary-other\n")
    bench.clock.advance(3600)
    assert bench.newest("https://keys.example").header(b"authorization") == b"Bearer canary-other"
    assert [secret.reveal() for secret in bench.secrets] == [TOKEN, "canary-other"]


@pytest.mark.parametrize("content", [None, "", " \n", "canary one\n", "canary\r\nX: y", "canary-é"])
def test_without_a_token_in_its_file_nothing_is_asked(
    bench: IssuerBench, token_file: str, content: str | None
) -> None:
    if content is None:
        Path(token_file).unlink()
    else:
        Path(token_file).write_text(content)
    with IssuerLines() as lines:
        bench.begin(entry(token_file=token_file))
    assert not bench.asked()
    assert "token_file" in lines[0]
    assert "canary" not in lines[0]


def answer(body: object, status: int = 200, headers: str = "") -> Callable[[TokenPost], None]:
    return lambda post: post.answer(body, status, headers)


def gzipped(post: TokenPost) -> None:
    post.answer(gzip.compress(key_set(jwk("a")) + b" " * 10_000_000), headers="Content-Encoding: gzip\r\n")


def break_off(post: TokenPost) -> None:
    post.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    post.connection.close()


def send_endlessly(post: TokenPost) -> None:
    post.connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(100):
        if not post.connection.closing and not post.connection.aborted:
            post.connection.send(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
    assert post.connection.closing or post.connection.aborted, "enough is enough"


HOSTILE = {
    "a redirect": answer(b"", 302, "Location: https://canary.example/\r\n"),
    "another status": answer({"keys": []}, 500),
    "no content": answer(b"", 204),
    "keys with another status": answer(key_set(jwk("x")), 203),
    "a refusal": answer({"error": "canary"}, 401),
    "a page": answer(b"<html>canary</html>"),
    "a list": answer([1]),
    "keys that are none": answer({"keys": {"canary": 1}}),
    "no keys": answer({"keys": []}),
    "a shared secret alone": answer({"keys": [{"kty": "oct", "k": "canary", "kid": "x"}]}),
    "too many keys": answer(key_set(*(jwk(str(number)) for number in range(101)))),
    "too many bytes": answer(key_set(jwk("a")) + b" " * MAX_SET_BYTES),
    "nested without end": answer(b'{"keys":' + b"[" * 500_000),
    "bytes of no text": answer(b'{"keys": ["\xff"]}'),
    "gzip that was not asked for": gzipped,
    "half of it": break_off,
    "no end": send_endlessly,
    "no HTTP": lambda post: post.connection.send(b"canary\r\n\r\n"),
    "nothing": lambda post: post.connection.close(),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_an_answer_without_keys_leaves_those_that_are_known(
    bench: IssuerBench, hostile: Callable[[TokenPost], None]
) -> None:
    bench.begin(entry(jwks_url=JWKS))
    bench.serve(jwk("a"))
    bench.clock.advance(3600)
    count = len(bench.asked())
    with IssuerLines() as lines:
        hostile(bench.newest())
    assert bench.ids() == {"a"}
    (line,) = lines
    assert line.startswith("issuer corp: the keys could not be fetched: ")
    assert "canary" not in line
    bench.clock.advance(1)
    assert len(bench.asked()) == count + 1, "it is tried again"
    bench.serve(jwk("b"))
    assert bench.ids() == {"b"}


def test_exactly_as_many_bytes_as_may_be_are_read(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    document = key_set(jwk("a"))
    bench.newest().answer(document + b" " * (MAX_SET_BYTES - len(document)))
    assert bench.ids() == {"a"}


@pytest.mark.parametrize("media_type", ["text/html", "application/octet-stream", "application/jwk-set+json"])
def test_the_media_type_of_keys_does_not_matter(bench: IssuerBench, media_type: str) -> None:
    bench.begin(entry(jwks_url=JWKS))
    bench.serve(jwk("a"), headers=f"Content-Type: {media_type}\r\n")
    assert bench.ids() == {"a"}


def test_a_host_that_drips_has_ten_seconds_for_everything(bench: IssuerBench) -> None:
    bench.begin(entry())
    discovering = bench.newest()
    bench.clock.advance(FETCH_SECONDS - 1)
    discovering.answer(discovery())
    dripping = bench.newest()
    dripping.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    with IssuerLines() as lines:
        for _ in range(3):
            dripping.connection.send(b" ")
            bench.clock.advance(0.3)
        assert not dripping.connection.closing
        bench.clock.advance(0.1)
    assert dripping.connection.closing or dripping.connection.aborted
    assert lines == ["issuer corp: the keys could not be fetched: no complete answer within 10 s"]


def test_a_host_that_cannot_be_reached_is_named_without_its_path(bench: IssuerBench) -> None:
    bench.hosts.endpoint(HOST).refusal = Refused()
    with IssuerLines() as lines:
        bench.begin(entry())
    (line,) = lines
    assert f"the discovery document at {HOST}:443 cannot be reached" in line
    assert "realms" not in line


def test_a_document_that_is_as_it_was_is_not_parsed_again(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    for _ in range(3):
        bench.serve(jwk("a"))
        bench.clock.advance(3600)
    assert len(bench.parsed) == 1


def test_another_issuer_s_document_leads_nowhere(bench: IssuerBench) -> None:
    bench.begin(entry())
    with IssuerLines() as lines:
        bench.newest().answer(discovery(issuer="https://canary.example"))
    assert len(bench.asked()) == 1
    assert "issuer is not exactly" in lines[0]
