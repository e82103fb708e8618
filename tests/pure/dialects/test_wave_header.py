"""The head of a WAVE file."""

from __future__ import annotations

import io
import wave

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects.speech import MAX_SAMPLES_BYTES, wave_header


@given(
    samples=st.binary(max_size=64).map(lambda data: data * 2),
    rate=st.sampled_from([8_000, 24_000, 44_100, 192_000]),
)
def test_the_standard_librarys_reader_finds_the_samples_unchanged(samples: bytes, rate: int) -> None:
    with wave.open(io.BytesIO(wave_header(len(samples), rate) + samples)) as found:
        assert found.readframes(found.getnframes()) == samples
        assert (found.getframerate(), found.getnchannels(), found.getsampwidth()) == (rate, 1, 2)


def test_two_channels_make_frames_of_four_bytes() -> None:
    with wave.open(io.BytesIO(wave_header(8, 48_000, 2) + bytes(8))) as found:
        assert (found.getnchannels(), found.getnframes()) == (2, 2)


def test_the_head_says_how_many_bytes_a_second_has() -> None:
    assert int.from_bytes(wave_header(8, 48_000, 2)[28:32], "little") == 48_000 * 2 * 2


def test_the_head_says_how_much_follows_it() -> None:
    head = wave_header(1_000, 24_000)
    assert len(head) == 44
    assert int.from_bytes(head[4:8], "little") == len(head) - 8 + 1_000


@pytest.mark.parametrize("size", [0, MAX_SAMPLES_BYTES])
def test_the_least_and_the_most_can_be_said(size: int) -> None:
    assert int.from_bytes(wave_header(size, 24_000)[40:], "little") == size
