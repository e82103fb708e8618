"""Frames are walked however they arrive, and what is illegal or behind a close does not go on."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import FrameProtocol

from mgw.wire.frames import HEAD_BYTES, Close, FrameReader, Message
from mgw.wire.whole_frames import BINARY, TEXT, mask, render_frame

KEY = b"\x01\x80\xfe\x7b"
MARKERS = (b'"usage"', b"done")


def frame(first: int, payload: bytes = b"", *, masked: bool = False) -> bytes:
    """A frame with whatever first byte, its length in as few bytes as it needs."""
    bit, size = 128 * masked, len(payload)
    if size < 126:
        header = bytes([first, bit | size])
    elif size < 1 << 16:
        header = bytes([first, bit | 126]) + size.to_bytes(2, "big")
    else:
        header = bytes([first, bit | 127]) + size.to_bytes(8, "big")
    return header + (KEY + mask(payload, KEY) if masked else payload)


@dataclass(frozen=True)
class Fragment:
    payload: str
    controls: tuple[tuple[str, bytes], ...]
    """What is sent before it, within the message if it is not the first."""
    cuts: tuple[int, ...]
    """Where the bytes of this frame are cut, and of the control frames before it."""
    is_joined: bool
    """The first byte arrives together with what was sent before."""


@dataclass(frozen=True)
class Sent:
    """A frame as it was sent, and what a reader must have found behind it."""

    data: bytes
    frames: int = 0
    payload_bytes: int = 0
    in_message: bool = False
    message: tuple[int, bytes] | None = None


PAYLOADS = st.lists(
    st.sampled_from(
        ['{"usage":1}', '"usa', 'ge"', "do", "ne", "{", "é", "x" * 125, "x" * 126, "x" * 2000, ""]
    ),
    max_size=3,
).map("".join)
FRAGMENTS = st.builds(
    Fragment,
    payload=PAYLOADS,
    controls=st.lists(
        st.tuples(st.sampled_from(["ping", "pong"]), st.sampled_from([b"", b"{}", b"done", b"x" * 125])),
        max_size=2,
    ).map(tuple),
    cuts=st.lists(st.one_of(st.integers(0, 14), st.integers(0, 3000)), max_size=3).map(tuple),
    is_joined=st.booleans(),
)
MESSAGES = st.tuples(st.sampled_from([TEXT, BINARY]), st.lists(FRAGMENTS, min_size=1, max_size=4))


def send(maker: FrameProtocol, opcode: int, fragments: list[Fragment]) -> list[list[Sent]]:
    """Return the frames of a message by fragment, those of control before their own."""
    sent = []
    whole = b""
    for number, fragment in enumerate(fragments):
        payload = fragment.payload.encode()
        whole += payload
        is_last = number == len(fragments) - 1
        frames = [
            Sent(bytes(maker.ping(data) if name == "ping" else maker.pong(data)), in_message=number > 0)
            for name, data in fragment.controls
        ]
        data = maker.send_data(fragment.payload if opcode == TEXT else payload, fin=is_last)
        message = (opcode, whole) if is_last else None
        frames.append(Sent(bytes(data), 1, len(payload), not is_last, message))
        sent.append(frames)
    return sent


def cut_up(fragments: list[Fragment], sent: list[list[Sent]]) -> list[bytes]:
    """Return the pieces in which the frames arrive."""
    pieces = [b""]
    for fragment, frames in zip(fragments, sent, strict=True):
        data = b"".join(one.data for one in frames)
        places = sorted({0, len(data), *(place for place in fragment.cuts if place < len(data))})
        first, *others = (data[start:end] for start, end in pairwise(places))
        if fragment.is_joined:
            pieces[-1] += first
        else:
            pieces.append(first)
        pieces += others
    return pieces


def is_of_interest(message: tuple[int, bytes] | None, limit: int, markers: tuple[bytes, ...]) -> bool:
    if message is None or not limit or len(message[1]) > limit:
        return False
    opcode, payload = message
    return (opcode == TEXT or payload[:1] == b"{") and (
        not markers or any(marker in payload for marker in markers)
    )


@given(
    masked=st.booleans(),
    limit=st.sampled_from([0, 1, 11, 300, 100_000]),
    markers=st.sampled_from([(), MARKERS[:1], MARKERS]),
    drawn=st.lists(MESSAGES, max_size=5),
    close=st.sampled_from([None, Close(None, ""), Close(1000, ""), Close(3000, "é" * 61), Close(1014, "x")]),
)
def test_legal_frames_are_read_however_they_are_cut(
    masked: bool,
    limit: int,
    markers: tuple[bytes, ...],
    drawn: list[tuple[int, list[Fragment]]],
    close: Close | None,
) -> None:
    maker = FrameProtocol(masked, [])
    parts = [frames for opcode, fragments in drawn for frames in send(maker, opcode, fragments)]
    pieces = cut_up([fragment for _, fragments in drawn for fragment in fragments], parts)
    sent = [one for frames in parts for one in frames]
    ends = list(accumulate(len(one.data) for one in sent))
    if close:
        last = bytes(maker.close(close.code, close.reason))
        pieces += [last[:3], last[3:]]

    reader = FrameReader(masked=masked, message_limit=limit, markers=markers)
    fed, found = 0, []
    for data in pieces:
        messages = reader.feed(data)
        found += [(fed + one.end, (one.opcode, one.payload)) for one in messages]
        fed += len(data)
        assert (reader.forwardable, reader.fault) == (len(data), None)
        if fed in ends:
            done = sent[: ends.index(fed) + 1]
            assert (reader.at_boundary, reader.in_message) == (True, done[-1].in_message)
            assert reader.frames == sum(one.frames for one in done)
            assert reader.payload_bytes == sum(one.payload_bytes for one in done)
        elif ends and 0 < fed < ends[-1]:
            assert not reader.at_boundary
    wanted = [(at, one.message) for at, one in zip(ends, sent, strict=True)]
    assert found == [(at, message) for at, message in wanted if is_of_interest(message, limit, markers)]
    assert (reader.close, reader.at_boundary) == (close, True)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
def test_lengths_are_read_in_all_their_forms(size: int, masked: bool) -> None:
    payload = (b"{" + b"x" * size)[:size]
    data = bytes(FrameProtocol(masked, []).send_data(payload.decode()))
    for cut in {0, 1, 2, 3, 4, 5, 9, 10, 11, 13, 14, 15, len(data) - 1, len(data)}:
        reader = FrameReader(masked=masked, message_limit=size or 1)
        found = [*reader.feed(data[:cut]), *reader.feed(data[cut:])]
        assert [(one.opcode, one.payload) for one in found] == [(TEXT, payload)]
        assert (reader.frames, reader.payload_bytes, reader.at_boundary) == (1, size, True)


def test_the_message_says_where_its_frames_stand() -> None:
    reader = FrameReader(masked=False, message_limit=100)
    first, second = frame(0x81, b"one"), frame(0x81, b"two")
    assert reader.feed(first[:1]) == ()
    ends = (len(first) - 1, len(first) - 1 + len(second))
    assert reader.feed(first[1:] + second + frame(0x89)) == [
        Message(TEXT, b"one", -1, ends[0]),
        Message(TEXT, b"two", ends[0], ends[1]),
    ]
    parts = frame(0x89, b"ping") + frame(0x01, b"o") + frame(0x89) + frame(0x80, b"ne")
    assert reader.feed(first + parts) == [
        Message(TEXT, b"one", 0, len(first)),
        Message(TEXT, b"one", len(first) + 6, len(first + parts)),
    ]


UNFINISHED = {
    "a frame": (frame(0x81, b"whole"), frame(0x81, b"cut")[:3]),
    "a header": (frame(0x81, b"whole"), frame(0x81, b"cut")[:1]),
    "a ping": (frame(0x81, b"whole") + frame(0x89), frame(0x89, b"cut")[:3]),
    "a fragment": (frame(0x89), frame(0x01, b"part")),
    "a fragment and a ping": (frame(0x01) + frame(0x80), frame(0x01, b"part") + frame(0x89, b"ping")[:3]),
    "a fragment and a header": (b"", frame(0x01, b"part") + frame(0x80, b"rest")[:1]),
}


@pytest.mark.parametrize(("whole", "rest"), UNFINISHED.values(), ids=UNFINISHED)
def test_where_the_unfinished_began_is_known(whole: bytes, rest: bytes) -> None:
    reader = FrameReader(masked=False, message_limit=100)
    reader.feed(whole + rest)
    assert reader.began == len(whole)
    reader = FrameReader(masked=False, message_limit=100)
    reader.feed(whole + rest[:1])
    assert reader.began == len(whole)
    reader.feed(rest[1:])
    assert reader.began < 0


@pytest.mark.parametrize("masked", [False, True])
def test_a_message_over_the_limit_or_without_a_marker_is_not_shown(masked: bool) -> None:
    reader = FrameReader(masked=masked, message_limit=20, markers=MARKERS)
    for payload in (b"done" + b"x" * 17, b"nothing here"):
        halves = frame(0x01, payload[:9], masked=masked) + frame(0x80, payload[9:], masked=masked)
        assert reader.feed(frame(0x81, payload, masked=masked) + halves) == ()
    assert [one.payload for one in reader.feed(frame(0x81, b"done" + b"x" * 16, masked=masked))]


@pytest.mark.parametrize("masked", [False, True])
def test_binary_is_shown_only_where_it_begins_like_an_object(masked: bool) -> None:
    reader = FrameReader(masked=masked, message_limit=100)
    for payload in (b"", b"[{}]", b"x{"):
        assert reader.feed(frame(0x82, payload, masked=masked)) == ()
        assert reader.feed(frame(0x02, masked=masked) + frame(0x80, payload, masked=masked)) == ()
    late = frame(0x02, masked=masked) + frame(0x00, b"{", masked=masked) + frame(0x80, b"}", masked=masked)
    assert [one.payload for one in reader.feed(late)] == [b"{}"]
    assert [(one.opcode, one.payload) for one in reader.feed(frame(0x82, b"{}", masked=masked))] == [
        (BINARY, b"{}")
    ]


@pytest.mark.parametrize(
    "code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999]
)
def test_codes_that_may_be_sent_are_read(code: int) -> None:
    reader = FrameReader(masked=True)
    data = frame(0x88, code.to_bytes(2, "big") + "Grüße".encode(), masked=True)
    reader.feed(data + frame(0x81, masked=True))
    assert (reader.close, reader.forwardable, reader.fault) == (Close(code, "Grüße"), len(data), None)
    assert reader.feed(frame(0x81, masked=True)) == ()
    assert (reader.forwardable, reader.frames) == (0, 0)


def _close(code: int, reason: bytes = b"") -> bytes:
    return code.to_bytes(2, "big") + reason


MASKED_LENGTHS = {
    "126 for 125": (bytes([0x81, 126, 0, 125]), 4),
    "127 for 65535": (bytes([0x81, 127]) + (65_535).to_bytes(8, "big"), 10),
    "127 for 5": (bytes([0x82, 127]) + (5).to_bytes(8, "big"), 10),
    "64 bits": (bytes([0x82, 127]) + (1 << 63).to_bytes(8, "big"), 10),
}
"""Headers, and how many of their bytes must be there until it is known that they are illegal."""

ILLEGAL = {
    **{f"reserved bit {bit:x}": (b"", frame(0x81 | bit), 1) for bit in (0x10, 0x20, 0x40)},
    "reserved bit of a control frame": (b"", frame(0xC9), 1),
    **{f"opcode {opcode}": (b"", frame(0x80 | opcode), 1) for opcode in (3, 7, 11, 15)},
    "a close in fragments": (b"", frame(0x08), 1),
    "a ping in fragments": (b"", frame(0x09), 1),
    "a long ping": (b"", frame(0x89, b"x" * 126), 2),
    "a long close": (b"", frame(0x88, _close(1000, b"x" * 124)), 2),
    "a continuation of nothing": (b"", frame(0x80), 1),
    "a continuation of a whole message": (frame(0x81, b"{}"), frame(0x00), 1),
    "a continuation of an ended message": (frame(0x01) + frame(0x80), frame(0x80), 1),
    "a message within a message": (frame(0x01, b"a"), frame(0x81, b"b"), 1),
    "a first frame within a message": (frame(0x02, b"a") + frame(0x89), frame(0x02, b"b"), 1),
    **{name: (b"", header + b"x" * 30, known) for name, (header, known) in MASKED_LENGTHS.items()},
    "half a code": (b"", frame(0x88, b"\x03"), 2),
    **{
        f"code {code}": (b"", frame(0x88, _close(code, b"why")), 7)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1999, 2000, 2999, 5000, 65_535)
    },
    "a reason that is not UTF-8": (b"", frame(0x88, _close(1000, b"\xff")), 5),
    "a reason that is cut": (b"", frame(0x88, _close(1000, "é".encode()[:1])), 5),
}
"""Legal frames, an illegal one, and how many of its bytes tell so; all without masks."""


def _masked(data: bytes) -> bytes:
    """The same frames with masks; those of the table are short, but for the headers with long lengths."""
    masked, position = b"", 0
    while position < len(data):
        first, length = data[position : position + 2]
        body = position + {126: 4, 127: 10}.get(length, 2)
        end = len(data) if length > 125 else body + length
        masked += bytes([first, 0x80 | length]) + data[position + 2 : body] + KEY + mask(data[body:end], KEY)
        position = end
    return masked


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("before", "illegal", "known"), ILLEGAL.values(), ids=ILLEGAL)
def test_nothing_of_an_illegal_frame_goes_on_once_it_is_known(
    before: bytes, illegal: bytes, known: int, masked: bool
) -> None:
    if masked:
        if known > 2 and illegal[0] == 0x88:
            known += 4
        before, illegal = _masked(before), _masked(illegal)
    behind = frame(0x81, b"behind", masked=masked)
    for cut in range(len(illegal) + 1):
        reader = FrameReader(masked=masked, message_limit=100)
        reader.feed(before + illegal[:cut])
        if cut < known:
            assert (reader.fault, reader.forwardable) == (None, len(before) + cut)
            reader.feed(illegal[cut:] + behind)
            assert (reader.forwardable, reader.at_boundary) == (0, cut == 0)
        else:
            assert (reader.forwardable, reader.at_boundary) == (len(before), True)
        assert reader.fault
        assert reader.close is None
        assert reader.feed(behind) == ()
        assert reader.forwardable == 0


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (frame(0xC1), "reserved bits that are set"),
        (frame(0x83), "the reserved opcode 3"),
        (frame(0x09), "a fragmented control frame"),
        (frame(0x80), "a continuation frame outside a message"),
        (frame(0x01) + frame(0x81), "a new message within an unfinished one"),
        (frame(0x88, _close(1005)), "a close frame with the code 1005"),
    ],
)
def test_the_fault_says_what_was_illegal(data: bytes, fault: str) -> None:
    reader = FrameReader(masked=False)
    reader.feed(data)
    assert reader.fault == fault


def test_a_frame_in_pieces_is_no_message_in_fragments() -> None:
    reader = FrameReader(masked=False)
    whole = frame(0x81, b"whole")
    reader.feed(whole[:4])
    assert (reader.in_message, reader.at_boundary) == (False, False)
    reader.feed(whole[4:] + frame(0x01, b"first"))
    assert (reader.in_message, reader.at_boundary) == (True, True)
    last = frame(0x80, b"last")
    reader.feed(last[:4])
    assert (reader.in_message, reader.at_boundary) == (True, False)


@pytest.mark.parametrize("masked", [False, True])
def test_the_mask_is_that_of_the_direction(masked: bool) -> None:
    for first in (0x81, 0x01, 0x89, 0x88):
        reader = FrameReader(masked=masked)
        legal = frame(0x82, b"x", masked=masked)
        reader.feed(legal + frame(first, masked=not masked))
        assert reader.fault == ("a frame without a mask" if masked else "a frame with a mask")
        assert (reader.forwardable, reader.at_boundary, reader.frames) == (len(legal), True, 1)


HOSTILE = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([*(illegal for _, illegal, _ in ILLEGAL.values())]),
    st.sampled_from(
        [frame(first, payload) for first in (0x01, 0x81, 0x80, 0x00, 0x89) for payload in (b"", b"{}")]
    ),
    st.sampled_from(
        [frame(0x88, _close(1000)), b"\x81", b"\x82\x7f", b"\x00\x7e", b"\x88\x02", b"\x81\xfe\x01"]
    ),
)


def test_the_header_of_a_later_fragment_makes_no_message_one_of_interest() -> None:
    reader = FrameReader(masked=False, message_limit=10)
    reader.feed(frame(0x01, b"too long to be shown") + frame(0x00)[:1])
    assert not reader.is_gathering
    reader = FrameReader(masked=False, message_limit=10)
    reader.feed(frame(0x81, b"too long to be shown") + frame(0x81)[:1])
    assert reader.is_gathering


@given(masked=st.booleans(), pieces=st.lists(HOSTILE, max_size=30))
def test_hostile_bytes_give_the_same_however_they_are_cut(masked: bool, pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    whole = FrameReader(masked=masked, message_limit=40)
    cut = FrameReader(masked=masked, message_limit=40)
    messages = [(one.opcode, one.payload) for one in whole.feed(data)]
    gone, found = 0, []
    for piece in pieces:
        is_over = cut.fault is not None or cut.close is not None
        found += [(one.opcode, one.payload) for one in cut.feed(piece)]
        assert 0 <= cut.forwardable <= (0 if is_over else len(piece))
        gone += cut.forwardable
    assert found == messages
    for name in ("frames", "payload_bytes", "in_message", "fault", "close"):
        assert getattr(cut, name) == getattr(whole, name)
    assert whole.forwardable <= gone <= whole.forwardable + 130
    assert cut.at_boundary == whole.at_boundary or cut.fault is not None


def test_little_is_held_of_hostile_bytes() -> None:
    random = Random(6455)
    readers = [
        FrameReader(masked=random.random() < 0.5, message_limit=1000, markers=MARKERS) for _ in range(500)
    ]
    headers = [
        b"\x01\xfe\xff\xff",
        b"\x81\x7f" + (1 << 40).to_bytes(8, "big"),
        b"\x01\x10",
        b"\x00\x7d",
        b"\x89\x7d",
    ]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for reader in readers:
        for _ in range(20):
            reader.feed(random.choice(headers) + random.randbytes(random.randrange(200)))
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert held < len(readers) * 2500


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
def test_a_message_in_tiny_pieces_takes_its_size(size: int) -> None:
    reader = FrameReader(masked=False, message_limit=1 << 20, markers=(b"never",))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    reader.feed(frame(0x01, b"{"))
    for _ in range((size - 2) // 1000):
        reader.feed(frame(0x00, b"x" * 1000))
    held = tracemalloc.get_traced_memory()[0] - before
    assert held < 1.3 * (1 << 20)
    reader.feed(frame(0x00, b"x" * ((size - 2) % 1000 + 1)))
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert (held < 4000) == (size > 1 << 20)


@pytest.mark.parametrize("masked", [False, True])
def test_the_largest_message_holds_nobody_up(masked: bool) -> None:
    limit = 32 * 1024 * 1024
    payload = b'"response.don' * (limit // 13)
    data = frame(0x81, payload, masked=masked)
    reader = FrameReader(masked=masked, message_limit=limit, markers=(b'"response.done"', b'"usage"'))
    longest = 0.0
    for start in range(0, len(data), 1 << 16):
        piece = data[start : start + (1 << 16)]
        began = process_time()
        reader.feed(piece)
        longest = max(longest, process_time() - began)
    assert reader.at_boundary
    assert longest < 0.25


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("step", [1, 64, 4096])
def test_a_message_without_the_marker_in_its_head_is_not_gathered(masked: bool, step: int) -> None:
    shown = b'{"type":"wanted","x":"' + b"y" * 300 + b'"}'
    other = b'{"type":"other","x":"' + b"y" * 300 + b'","z":"wanted"}'
    key = b"mask" if masked else None
    raw = render_frame(TEXT, shown, key) + render_frame(TEXT, other, key)
    reader = FrameReader(masked=masked, message_limit=1000, markers=(b"wanted",), head_marker=b'"wanted"')
    found = [message for at in range(0, len(raw), step) for message in reader.feed(raw[at : at + step])]
    if step < HEAD_BYTES:  # a head in pieces is gathered, and then the whole message is looked into
        assert [message.payload for message in found] == [shown, other]
    else:
        assert [message.payload for message in found] == [shown]
    assert reader.at_boundary


@given(payload=st.binary(max_size=9), key=st.binary(min_size=4, max_size=4))
def test_a_mask_is_taken_off_by_putting_it_on(payload: bytes, key: bytes) -> None:
    assert mask(payload, key) == bytes(byte ^ key[number % 4] for number, byte in enumerate(payload))
    long = payload * 15_001
    assert mask(mask(long, key), key) == long
    assert mask(long, key)[-9:] == bytes(
        long[n] ^ key[n % 4] for n in range(max(len(long) - 9, 0), len(long))
    )
