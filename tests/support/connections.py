"""Requests on one connection to a provider in memory."""

from __future__ import annotations

from mgw.upstream.client import UpstreamFailure
from mgw.upstream.request import WRITTEN_BYTES
from mgw.upstream.response import UpstreamResponse
from tests.support.upstreams import Result, UpstreamHarness, memory_upstream, outcome_of, post

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def asked(body: bytes = b"{}") -> tuple[UpstreamHarness, Result]:
    b = memory_upstream()
    return b, outcome_of(b.upstream.open(post(body)))


def answering(head: bytes = CHUNKED) -> tuple[UpstreamHarness, UpstreamResponse]:
    b, result = asked()
    b.connection.send(head)
    return b, result.response


def failure_of(result: Result) -> UpstreamFailure:
    assert isinstance(result.error, UpstreamFailure)
    return result.error


LARGE = b"x" * (WRITTEN_BYTES + 1)


def asked_at_length() -> tuple[UpstreamHarness, Result]:
    """A request with a large body, of which the transport has not sent all."""
    b = memory_upstream()
    b.endpoint.full = True
    return b, outcome_of(b.upstream.open(post(LARGE)))
