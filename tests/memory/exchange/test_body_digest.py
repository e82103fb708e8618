"""The digest of a body as it is sent: in memory, or stored, hashed as it came or not."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

import pytest
from twisted.internet.defer import Deferred

from mgw.bodies.source import BodySource, edit_source
from mgw.bodies.spliced import SplicedBody
from mgw.exchange.body_digest import HASHED_BYTES, digest_of
from mgw.exchange.offload import run_inline
from tests.support.bodies import MemorySource, patterned
from tests.support.deferreds import result_of

T = TypeVar("T")


def digest(body: bytes | BodySource) -> bytes:
    return result_of(Deferred.fromCoroutine(digest_of(body, run_inline)))


@pytest.mark.parametrize("size", [0, 1, HASHED_BYTES, HASHED_BYTES + 1])
def test_a_body_in_memory_is_hashed_in_a_thread_where_it_is_large(size: int) -> None:
    body, offloaded = patterned(size), 0

    def offload(work: Callable[[], T], /) -> Deferred[T]:
        nonlocal offloaded
        offloaded += 1
        return run_inline(work)

    found = result_of(Deferred.fromCoroutine(digest_of(body, offload)))
    assert (found, offloaded) == (sha256(body).digest(), size > HASHED_BYTES)


@pytest.mark.parametrize("size", [100, HASHED_BYTES + 1])
def test_a_spliced_body_is_hashed_as_it_is_sent_in_a_thread_where_it_is_large(size: int) -> None:
    body, offloaded = patterned(size), list[object]()

    def offload(work: Callable[[], T], /) -> Deferred[T]:
        offloaded.append(work)
        return run_inline(work)

    spliced = SplicedBody.of(body, [memoryview(body)[:10], b"another", memoryview(body)[12:]])
    found = result_of(Deferred.fromCoroutine(digest_of(spliced, offload)))
    assert found == sha256(body[:10] + b"another" + body[12:]).digest()
    assert bool(offloaded) == (size > HASHED_BYTES)


def test_a_stored_body_that_was_hashed_is_not_read_again() -> None:
    source = MemorySource(b"stored", digest=b"known")
    assert (digest(source), source.reads) == (b"known", [])


def test_a_stored_body_that_was_not_hashed_is_read_through() -> None:
    body = patterned(700_000)
    source = MemorySource(body)
    assert digest(source) == sha256(body).digest()
    assert len(source.reads) == 3


def test_the_digest_of_an_edited_body_is_that_of_the_bytes_that_are_sent() -> None:
    body = patterned(700_000)
    edits = [((10, 12), b"another"), ((600_000, 600_004), b"")]
    sent = body[:10] + b"another" + body[12:600_000] + body[600_004:]
    assert digest(edit_source(MemorySource(body, digest=b"of the source"), edits)) == sha256(sent).digest()
