"""What the pictures of the dashboard are made with: the scene, its history, and PNG files of few colors."""

from __future__ import annotations

import random
import sqlite3
import struct
import zlib
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.load import parse
from mgw.usage.event import Outcome, UsageEvent, timestamp
from mgw.usage.record import encode
from mgw.usage.usage_table import UsageTable
from tools.screenshots import png
from tools.screenshots.history import DAY, load_at, write_history
from tools.screenshots.scene import ASKS, CLIENTS, VOICES, configuration, key_of

NOW: Final = 1_790_000_000.0
COLORS: Final = st.tuples(*[st.integers(0, 255)] * 3)


def test_the_configuration_of_the_scene_is_valid_and_has_its_clients() -> None:
    config = parse(configuration("http://127.0.0.1:8788", "/tmp/usage.db"), "mgw.yaml", {})
    assert {client for client, _ in VOICES} | {ask.client for ask in ASKS} == set(CLIENTS)
    assert len(config.edge_auth.keys) == len({key_of(client) for client in CLIENTS})


def test_a_request_of_the_scene_has_as_many_words_as_it_says() -> None:
    for ask in ASKS:
        body = ask.body()
        text = str(body.get("messages") or body.get("contents") or body.get("input"))
        assert len(text.replace("'", " ").split(" ")) >= ask.prompt


def recorded(folder: Path) -> Path:
    """A table with an answer, an error and a session."""
    common = {"dialect": "openai", "modality": "text", "transport": "http", "client": "web-app"}
    answer = {
        "model": "gpt-5.6-luna",
        "tokens_in": 640,
        "tokens_out": 140,
        "cost_usd": 0.001,
        "ttft_ms": 300.0,
    }
    lines = [
        {**answer, "route": "chat", "status": Outcome.OK, "latency_ms": 900.0},
        {"model": "llama-4", "route": "chat", "status": Outcome.UPSTREAM_ERROR, "latency_ms": 90.0},
        {
            "model": "gpt-realtime",
            "route": "realtime_ws",
            "status": Outcome.OK,
            "latency_ms": 9.0,
            "session_minutes": 0.1,
        },
    ]
    table = UsageTable(str(folder / "usage.db"))
    events = [
        UsageEvent(request_id=f"r{number}", time=NOW, **common, **line)  # type: ignore[arg-type]  # a table
        for number, line in enumerate(lines)
    ]
    table.add([encode(event) for event in events])
    table.close()
    return folder / "usage.db"


def test_the_history_is_a_day_of_copies_that_differ(tmp_path: Path) -> None:
    database = recorded(tmp_path)
    write_history(database, NOW, 400, seed=1)
    rows = sqlite3.connect(database).execute(
        "SELECT time, tokens_in, cost_usd, session_minutes FROM usage_events WHERE request_id LIKE 'req_%'"
    )
    times, tokens, costs, minutes = zip(*rows, strict=True)
    assert len(times) == 400
    assert timestamp(NOW - DAY) <= min(times) < max(times) <= timestamp(NOW)
    assert len(set(tokens) - {None}) > 100
    for count, cost in zip(tokens, costs, strict=True):
        assert (count is None) == (cost is None)
        assert cost is None or cost == pytest.approx(0.001 * count / 640, rel=0.01)
    assert any(minutes)


def test_the_same_seed_makes_the_same_history(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        database = recorded(tmp_path / name)
        write_history(database, NOW, 20, seed=3)
        found.append(sqlite3.connect(database).execute("SELECT * FROM usage_events").fetchall())
    assert found[0] == found[1]


def test_there_are_more_requests_by_day_than_at_night() -> None:
    assert load_at(3.5 * 3600) > 5 * load_at(20 * 3600) > 0
    assert all(0 < load_at(minute * 60) <= 1 for minute in range(24 * 60))


def written(rows: list[list[tuple[int, int, int]]], filters: list[int]) -> bytes:
    """Write a PNG as a browser may: each row with a filter of its own (PNG 9.2)."""
    raw, above = b"", bytes(3 * len(rows[0]))
    for row, kind in zip(rows, filters, strict=True):
        plain = bytes(sample for color in row for sample in color)
        raw += bytes([kind]) + bytes(
            (sample - predicted(kind, plain, above, place)) & 255 for place, sample in enumerate(plain)
        )
        above = plain
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")):
        data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return data


def predicted(kind: int, row: bytes, above: bytes, place: int) -> int:
    """What a filter takes from a sample: of the one left of it, above it, and above that."""
    left, corner = (row[place - 3], above[place - 3]) if place >= 3 else (0, 0)
    up = above[place]
    near = sorted(
        ((abs(up - corner), 0, left), (abs(left - corner), 1, up), (abs(left + up - 2 * corner), 2, corner))
    )
    return (0, left, up, (left + up) // 2, near[0][2])[kind]


def colors_of(data: bytes) -> list[list[tuple[int, int, int]]]:
    """The colors of a file with a palette and no filters, which is what the module writes."""
    place, chunks = 8, {}
    while place < len(data):
        size, name = struct.unpack_from(">I4s", data, place)
        body = data[place + 8 : place + 8 + size]
        assert struct.unpack_from(">I", data, place + 8 + size)[0] == zlib.crc32(name + body)
        chunks[name] = body
        place += size + 12
    width, height, depth, kind, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, kind) == (8, 3)
    palette = [tuple(chunks[b"PLTE"][at : at + 3]) for at in range(0, len(chunks[b"PLTE"]), 3)]
    assert len(palette) <= 256
    raw = zlib.decompress(chunks[b"IDAT"])
    rows = [raw[at : at + width + 1] for at in range(0, len(raw), width + 1)]
    assert len(rows) == height
    return [[palette[place] for place in row[1:]] for row in rows]  # type: ignore[misc]  # three samples each


@given(
    rows=st.integers(1, 5).flatmap(
        lambda width: st.lists(st.lists(COLORS, min_size=width, max_size=width), min_size=1, max_size=6)
    ),
    data=st.data(),
)
def test_a_picture_of_few_colors_keeps_all_of_them_whatever_its_filters(
    rows: list[list[tuple[int, int, int]]], data: st.DataObject
) -> None:
    filters = data.draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows)))
    file = written(rows, filters)
    assert png.read(file).rows == rows
    assert colors_of(png.reduce(file)) == rows


def test_of_many_colors_the_frequent_ones_are_kept_and_others_become_a_near_one() -> None:
    chance = random.Random(5)
    many = [(chance.randrange(256), chance.randrange(256), chance.randrange(256)) for _ in range(600)]
    rows = [[(10, 20, 30)] * 600, many]
    reduced = colors_of(png.reduce(written(rows, [0, 0])))
    assert reduced[0] == rows[0]
    far = [max(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in zip(many, reduced[1], strict=True)]
    assert 0 < max(far) < 40


@pytest.mark.parametrize(
    "data", [b"GIF89a", written([[(0, 0, 0)]], [0]).replace(b"\x08\x02\x00", b"\x10\x02\x00")]
)
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="PNG"):
        png.read(data)
