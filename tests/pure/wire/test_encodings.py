"""Bodies are decoded within a limit, whatever they were encoded with."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from time import process_time

import brotli  # type: ignore[import-untyped]  # it ships no types
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.encodings import MAX_MEMBERS, Gunzip, decode_content

MIB = 1024 * 1024


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def zstd_without_size(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return compressor.compress(data) + compressor.flush()


def br(data: bytes) -> bytes:
    compressed: bytes = brotli.compress(data, quality=4)
    return compressed


Encoder = Callable[[bytes], bytes]
ENCODERS: dict[str, tuple[bytes, Encoder]] = {
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b"X-GZip", gzip.compress),
    "deflate": (b"deflate", zlib.compress),
    "raw deflate": (b"deflate", raw_deflate),
    "br": (b"br", br),
    "zstd": (b"zstd", zstd),
    "zstd without a size": (b"zstd", zstd_without_size),
}
each_encoder = pytest.mark.parametrize(("name", "encode"), ENCODERS.values(), ids=ENCODERS)

BODIES = st.binary(max_size=200) | st.sampled_from([b"{}" * 200_000, bytes(range(256)) * 300])


def refusal_of(body: bytes, name: bytes, max_bytes: int = MIB) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        decode_content(body, name, max_bytes)
    return caught.value


@given(BODIES, st.lists(st.sampled_from(list(ENCODERS.values())), max_size=4))
def test_every_list_of_codings_is_undone_from_its_end(
    body: bytes, codings: list[tuple[bytes, Encoder]]
) -> None:
    encoded = body
    for _, encode in codings:
        encoded = encode(encoded)
    names = b" , ".join(name for name, _ in codings)
    assert decode_content(encoded, names, MIB) == body


@pytest.mark.parametrize("name", [b"", b"identity", b"identity, ,Identity"])
def test_a_body_without_codings_is_the_same_object(name: bytes) -> None:
    body = b"\x1f\x8b"
    assert decode_content(body, name, 1) is body


def test_an_empty_body_has_nothing_to_decode() -> None:
    assert decode_content(b"", b"gzip", MIB) == b""


@each_encoder
def test_the_limit_is_the_last_size_that_passes(name: bytes, encode: Encoder) -> None:
    body = b"abc" * 100_000
    assert decode_content(encode(body), name, len(body)) == body
    assert refusal_of(encode(body), name, len(body) - 1).reason is Reason.BODY_TOO_LARGE


@each_encoder
def test_a_bomb_costs_no_more_than_the_limit(name: bytes, encode: Encoder) -> None:
    bomb = encode(bytes(40 * MIB))
    begun = process_time()
    assert refusal_of(bomb, name).reason is Reason.BODY_TOO_LARGE
    assert process_time() - begun < 0.8


def test_a_bomb_within_a_coding_costs_no_more_than_the_limit() -> None:
    assert (
        refusal_of(gzip.compress(gzip.compress(bytes(64 * MIB))), b"gzip, gzip").reason
        is Reason.BODY_TOO_LARGE
    )


@each_encoder
def test_a_body_cut_short_anywhere_is_malformed(name: bytes, encode: Encoder) -> None:
    encoded = encode(b"hello, hello, hello")
    for size in range(1, len(encoded)):
        assert refusal_of(encoded[:size], name).reason is Reason.MALFORMED


@each_encoder
def test_garbage_behind_a_body_is_malformed(name: bytes, encode: Encoder) -> None:
    assert refusal_of(encode(b"hello") + b"garbage", name).reason is Reason.MALFORMED


@pytest.mark.parametrize("name", [b"gzip", b"br", b"zstd", b"deflate"])
@pytest.mark.parametrize("body", [b"{}", b"\x00" * 50, b"\xff" * 50, b'{"model":"x"}'])
def test_a_body_that_is_not_what_it_says_is_malformed(name: bytes, body: bytes) -> None:
    error = refusal_of(body, name)
    assert error.reason is Reason.MALFORMED
    assert error.param == "Content-Encoding"


def test_a_wrong_checksum_is_malformed() -> None:
    encoded = bytearray(gzip.compress(b"hello"))
    encoded[-5] ^= 1
    assert refusal_of(bytes(encoded), b"gzip").reason is Reason.MALFORMED


@pytest.mark.parametrize(
    "name", [b"compress", b"gzip;q=1", b"aws-chunked, gzip", b"gzip, gzip, gzip, gzip, gzip"]
)
def test_unknown_codings_and_too_many_of_them_are_malformed(name: bytes) -> None:
    assert refusal_of(gzip.compress(b"x"), name).reason is Reason.MALFORMED


@given(st.lists(BODIES, min_size=1, max_size=5))
def test_members_and_frames_in_a_row_are_one_body(bodies: list[bytes]) -> None:
    whole = b"".join(bodies)
    assert decode_content(b"".join(map(gzip.compress, bodies)), b"gzip", 3 * MIB) == whole
    assert decode_content(b"".join(map(zstd, bodies)), b"zstd", 3 * MIB) == whole


def test_zeros_behind_gzip_are_padding() -> None:
    assert (
        decode_content(gzip.compress(b"a") + bytes(100_000) + gzip.compress(b"b") + b"\x00", b"gzip", MIB)
        == b"ab"
    )


@pytest.mark.parametrize(("name", "encode"), [(b"gzip", gzip.compress), (b"zstd", zstd)])
def test_members_without_end_are_refused_quickly(name: bytes, encode: Encoder) -> None:
    body = encode(b"") * (MAX_MEMBERS + 1)
    assert decode_content(encode(b"") * MAX_MEMBERS, name, MIB) == b""
    assert refusal_of(body * 20, name).reason is Reason.MALFORMED


def test_a_zstd_window_beyond_the_web_s_is_malformed() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = compressor.compress(bytes(1000)) + compressor.flush()
    assert refusal_of(body, b"zstd").reason is Reason.MALFORMED


GZIPPED = st.lists(BODIES, min_size=1, max_size=3)


@given(GZIPPED, st.integers(1, 50))
def test_metering_reads_gzip_however_it_arrives(bodies: list[bytes], size: int) -> None:
    stream = b"".join(map(gzip.compress, bodies))
    gunzip = Gunzip(16 * MIB)
    read = [gunzip.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert b"".join(read) == b"".join(bodies)


def test_metering_sees_an_event_as_soon_as_it_is_flushed() -> None:
    compressor = zlib.compressobj(wbits=31)
    gunzip = Gunzip(MIB)
    for event in (b"data: a\n\n", b"data: b\n\n"):
        assert gunzip.feed(compressor.compress(event) + compressor.flush(zlib.Z_SYNC_FLUSH)) == event


def test_metering_gives_up_where_a_piece_swells_past_its_room() -> None:
    compressor = zlib.compressobj(wbits=31)
    gunzip = Gunzip(1000)
    assert gunzip.feed(compressor.compress(bytes(1000)) + compressor.flush(zlib.Z_SYNC_FLUSH)) == bytes(1000)
    assert not gunzip.given_up
    bomb = compressor.compress(bytes(1001)) + compressor.flush(zlib.Z_SYNC_FLUSH)
    assert gunzip.feed(bomb) == b""
    assert gunzip.given_up
    assert gunzip.feed(compressor.compress(b"after") + compressor.flush()) == b""


def test_metering_a_bomb_costs_no_more_than_its_room() -> None:
    bomb = gzip.compress(bytes(128 * MIB), compresslevel=1)
    began = process_time()
    assert Gunzip(4 * MIB).feed(bomb) == b""
    assert process_time() - began < 0.1


@pytest.mark.parametrize(
    "garbage",
    [b"{}", br(b"hello"), gzip.compress(b"x", mtime=0)[:5] + b"\xff" * 20],
    ids=["text", "another coding", "broken off"],
)
def test_metering_is_silent_about_what_it_cannot_read(garbage: bytes) -> None:
    gunzip = Gunzip(MIB)
    assert gunzip.feed(garbage) == b""
    assert gunzip.feed(gzip.compress(b"late")) == b""
