"""Malformed requests: each gets one complete refusal, none reaches a request, and the connection ends.

What two servers read differently is how one client's request ends up in another's.  The table follows the
published families of request smuggling: lengths, codings, line ends, hosts, targets and protocols.
"""

from __future__ import annotations

import pytest

from mgw.web.client_transport import LINGER_SECONDS
from tests.support.channels import Line, get

AFTER = b"GET /smuggled HTTP/1.1\r\nHost: gateway\r\n\r\n"


def request(line: bytes = b"POST / HTTP/1.1", *headers: bytes, host: bytes = b"Host: gateway") -> bytes:
    return b"\r\n".join([line, *([host] if host else []), *headers, b"", b""])


POST = b"POST / HTTP/1.1"
HEADS = {
    # lengths
    "two lengths": request(POST, b"Content-Length: 3", b"Content-Length: 4"),
    "two equal lengths": request(POST, b"Content-Length: 3", b"Content-Length: 3"),
    "a list of lengths": request(POST, b"Content-Length: 3, 3"),
    "a signed length": request(POST, b"Content-Length: +3"),
    "a negative length": request(POST, b"Content-Length: -3"),
    "a hexadecimal length": request(POST, b"Content-Length: 0x3"),
    "a length with a blank inside": request(POST, b"Content-Length: 3 3"),
    "a length with an underscore": request(POST, b"Content-Length: 1_0"),
    "a length in other digits": request(POST, "Content-Length: ３".encode()),
    "an empty length": request(POST, b"Content-Length:"),
    "a length beyond all numbers": request(POST, b"Content-Length: 99999999999999999999"),
    # codings
    "length and coding": request(POST, b"Content-Length: 3", b"Transfer-Encoding: chunked"),
    "coding and length": request(POST, b"Transfer-Encoding: chunked", b"Content-Length: 3"),
    "coding in 1.0": request(b"POST / HTTP/1.0", b"Transfer-Encoding: chunked"),
    "another coding": request(POST, b"Transfer-Encoding: gzip"),
    "identity": request(POST, b"Transfer-Encoding: identity"),
    "two codings": request(POST, b"Transfer-Encoding: gzip, chunked"),
    "two coding headers": request(POST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
    "coding and identity": request(POST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
    "identity and coding": request(POST, b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked"),
    "chunked twice": request(POST, b"Transfer-Encoding: chunked, chunked"),
    "chunked and a comma": request(POST, b"Transfer-Encoding: chunked,"),
    "chunked with a parameter": request(POST, b"Transfer-Encoding: chunked;q=1"),
    "chunked in quotes": request(POST, b'Transfer-Encoding: "chunked"'),
    "nearly chunked": request(POST, b"Transfer-Encoding: xchunked"),
    "chunked behind a vertical tab": request(POST, b"Transfer-Encoding: \x0bchunked"),
    "chunked before a NUL": request(POST, b"Transfer-Encoding: chunked\x00"),
    "an empty coding": request(POST, b"Transfer-Encoding:"),
    "a blank before the colon": request(POST, b"Transfer-Encoding : chunked"),
    "a tab before the colon": request(POST, b"Transfer-Encoding\t: chunked"),
    # lines
    "bare line feeds": request().replace(b"\r\n", b"\n"),
    "a bare line feed behind the request line": request().replace(b"1.1\r\n", b"1.1\n"),
    "a bare line feed between headers": request(POST, b"X: 1\nTransfer-Encoding: chunked"),
    "a bare carriage return between headers": request(POST, b"X: 1\rTransfer-Encoding: chunked"),
    "a bare line feed at the end": request()[:-2] + b"\n",
    "a folded header": request(POST, b"X: 1", b" Transfer-Encoding: chunked"),
    "a tab-folded header": request(POST, b"X: 1", b"\tTransfer-Encoding: chunked"),
    "a folded first header": request(POST, host=b" Host: gateway"),
    "a line without a colon": request(POST, b"Transfer-Encoding chunked"),
    "a header without a name": request(POST, b": 1"),
    "a name with a blank": request(POST, b"X Y: 1"),
    "a name with a NUL": request(POST, b"X\x00: 1"),
    "a name that is no token": request(POST, b"X(Y): 1"),
    "a name beyond ASCII": request(POST, "Ｘ: 1".encode()),
    "a value with a NUL": request(POST, b"X: \x00"),
    "a value with a control": request(POST, b"X: \x01"),
    # hosts
    "no host": request(host=b""),
    "two hosts": request(POST, b"Host: other"),
    "two equal hosts": request(POST, b"Host: gateway"),
    "two hosts in 1.0": request(b"POST / HTTP/1.0", b"Host: other"),
    "an empty host": request(host=b"Host:"),
    "a list of hosts": request(host=b"Host: gateway, other"),
    "a host with a path": request(host=b"Host: gateway/path"),
    "a host with a user": request(host=b"Host: me@gateway"),
    "a host with a blank": request(host=b"Host: gate way"),
    "a host with a bad port": request(host=b"Host: gateway:http"),
    "a host with a long port": request(host=b"Host: gateway:808080"),
    "a host with half a bracket": request(host=b"Host: [::1"),
    "a host beyond ASCII": request(host="Host: gatewaÿ".encode("latin-1")),
    # targets
    "another authority": request(b"GET http://other/ HTTP/1.1"),
    "another port": request(b"GET http://gateway:80/ HTTP/1.1"),
    "a user in the authority": request(b"GET http://me@gateway/ HTTP/1.1"),
    "no authority": request(b"GET http:///path HTTP/1.1"),
    "another scheme": request(b"GET ftp://gateway/ HTTP/1.1"),
    "a fragment": request(b"GET /path#there HTTP/1.1"),
    "a fragment behind the authority": request(b"GET http://gateway#there HTTP/1.1"),
    "an asterisk": request(b"OPTIONS * HTTP/1.1"),
    "an asterisk for GET": request(b"GET * HTTP/1.1"),
    "authority form": request(b"GET gateway:80 HTTP/1.1"),
    "CONNECT": request(b"CONNECT gateway:80 HTTP/1.1"),
    "CONNECT to a path": request(b"CONNECT / HTTP/1.1"),
    "no slash": request(b"GET path HTTP/1.1"),
    "a query alone": request(b"GET ?path HTTP/1.1"),
    "a target beyond ASCII": request(b"GET /\xff HTTP/1.1"),
    "a target with a tab": request(b"GET /a\tb HTTP/1.1"),
    "a target with a NUL": request(b"GET /a\x00b HTTP/1.1"),
    "a target with a blank": request(b"GET /a b HTTP/1.1"),
    # protocols
    "no version": b"GET /\r\n\r\n",
    "no version, but headers": request(b"GET /"),
    "HTTP/0.9": request(b"GET / HTTP/0.9"),
    "HTTP/1.2": request(b"GET / HTTP/1.2"),
    "HTTP/2.0": request(b"GET / HTTP/2.0"),
    "HTTP/1.10": request(b"GET / HTTP/1.10"),
    "HTTP/1": request(b"GET / HTTP/1"),
    "http/1.1": request(b"GET / http/1.1"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "PRI as a method": request(b"PRI / HTTP/1.1"),
    "RTSP": request(b"SETUP / RTSP/1.0"),
    "GET in RTSP": request(b"GET / RTSP/1.0"),
    "OPTIONS in RTSP": request(b"OPTIONS / RTSP/1.0"),
    "a method of RTSP": request(b"DESCRIBE / HTTP/1.1"),
    "ICE": request(b"SOURCE / ICE/1.0"),
    "a method of ICE": request(b"SOURCE / HTTP/1.1"),
    "no method": request(b" / HTTP/1.1"),
    "a method in small letters": request(b"get / HTTP/1.1"),
    "an unknown method": request(b"SMUGGLE / HTTP/1.1"),
    "two blanks before the target": request(b"GET  / HTTP/1.1"),
    "two blanks before the version": request(b"GET /  HTTP/1.1"),
    "a tab before the target": request(b"GET\t/ HTTP/1.1"),
    "a blank behind the version": request(b"GET / HTTP/1.1 "),
    "a blank before the method": request(b" GET / HTTP/1.1"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    # expectations
    "another expectation": request(POST, b"Content-Length: 3", b"Expect: 200-ok"),
    "two expectations": request(POST, b"Content-Length: 3", b"Expect: 100-continue", b"Expect: 100-continue"),
}
CHUNKS = {
    "no size": b"\r\nabc\r\n0\r\n\r\n",
    "a size that is no number": b"x\r\nabc\r\n0\r\n\r\n",
    "a signed size": b"+3\r\nabc\r\n0\r\n\r\n",
    "a negative size": b"-3\r\nabc\r\n0\r\n\r\n",
    "a prefixed size": b"0x3\r\nabc\r\n0\r\n\r\n",
    "a size with an underscore": b"1_0\r\n0123456789abcdef\r\n0\r\n\r\n",
    "a blank before the size": b" 3\r\nabc\r\n0\r\n\r\n",
    "a blank behind the size": b"3 \r\nabc\r\n0\r\n\r\n",
    "a size beyond all numbers": b"10000000000000003\r\nabc\r\n0\r\n\r\n",
    "a bare line feed behind the size": b"3\nabc\r\n0\r\n\r\n",
    "a bare carriage return behind the size": b"3\rabc\r\n0\r\n\r\n",
    "a line feed in an extension": b"3;a\nb\r\nabc\r\n0\r\n\r\n",
    "a carriage return in an extension": b"3;a\rb\r\nabc\r\n0\r\n\r\n",
    "a NUL in an extension": b"3;a\x00b\r\nabc\r\n0\r\n\r\n",
    "a chunk that is longer": b"3\r\nabcd\r\n0\r\n\r\n",
    "a chunk that is shorter": b"4\r\nabc\r\n0\r\n\r\n",
    "a bare line feed behind a chunk": b"3\r\nabc\n0\r\n\r\n",
    "a bare carriage return behind a chunk": b"3\r\nabc\r0\r\n\r\n",
    "no line end behind a chunk": b"3\r\nabc0\r\n\r\n",
    "a bare line feed at the end": b"3\r\nabc\r\n0\r\n\n",
    "a trailer that is no header": b"3\r\nabc\r\n0\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    "a trailer with a bare line feed": b"3\r\nabc\r\n0\r\nX: 1\n\r\n",
    "a trailer with a bare carriage return": b"3\r\nabc\r\n0\r\nX: 1\rY: 2\r\n\r\n",
    "a folded trailer": b"3\r\nabc\r\n0\r\nX: 1\r\n Y\r\n\r\n",
    "an extension whose quotes stay open": b'3;a="b\r\nabc\r\n0\r\n\r\n',
    "a line end in quotes": b'3;a="\r\n0\r\n\r\n"\r\nabc\r\n0\r\n\r\n',
    "extensions without end": b"3;" + b"x" * 9000,
    "trailers without end": b"0\r\n" + b"X: 1\r\n" * 2000,
    "many extensions": (b"1;" + b"x" * 1000 + b"\r\na\r\n") * 9,
}


@pytest.mark.parametrize("sent", HEADS.values(), ids=HEADS.keys())
@pytest.mark.parametrize("size", [1, 1000], ids=["bytes", "whole"])
def test_a_malformed_head_is_refused(sent: bytes, size: int) -> None:
    line = Line()
    whole = sent + AFTER
    for at in range(0, len(whole), size):
        line.send(whole[at : at + size])
    assert line.requests == []
    assert [status for status, _ in line.handler.refusals] == [400]
    answered = line.take()
    assert answered.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"\r\nConnection: close\r\n" in answered
    assert answered.count(b"\r\nContent-Length: ") == 1
    line.clock.advance(LINGER_SECONDS)
    assert line.closing


@pytest.mark.parametrize("sent", CHUNKS.values(), ids=CHUNKS.keys())
@pytest.mark.parametrize("size", [1, 10_000], ids=["bytes", "whole"])
def test_a_malformed_chunked_body_is_refused(sent: bytes, size: int) -> None:
    line = Line()
    head = get("/chunked", "Transfer-Encoding: chunked", method="POST")
    whole = head + sent + AFTER
    for at in range(0, len(whole), size):
        line.send(whole[at : at + size])
    assert [request.head.target for request in line.requests] == [b"/chunked"]
    assert "ended" not in line.requests[0].events
    assert line.requests[0].events[-1] == "broken"
    assert line.take().startswith(b"HTTP/1.1 400 Bad Request\r\n")
    line.clock.advance(LINGER_SECONDS)
    assert line.closing


def test_a_malformed_request_behind_a_good_one_spoils_only_itself() -> None:
    line = Line()
    line.send(get("/good") + request(POST, b"Content-Length: 3", b"Transfer-Encoding: chunked") + AFTER)
    assert [request.head.target for request in line.requests] == [b"/good"]
    assert line.take().count(b"\r\nContent-Length: ") == 2
    assert [status for status, _ in line.handler.refusals] == [400]


@pytest.mark.parametrize(
    "host", [b"gateway", b"gateway:8787", b"127.0.0.1:1", b"[::1]", b"[::1]:8787", b"a_b.example-1.com"]
)
def test_a_good_host_is_let_in(host: bytes) -> None:
    line = Line()
    line.send(request(b"GET / HTTP/1.1", host=b"Host: " + host))
    assert [request.head.host for request in line.requests] == [host]
