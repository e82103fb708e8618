"""The load: sessions that send frames and take their echo, and what the server used meanwhile."""

from __future__ import annotations

import json
import subprocess
import time
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import quote

from bench.load import EDGE_KEY, NothingMeasuredError
from bench.machines import resident_bytes, tree_cpu_seconds
from bench.processes import LOAD_CORE, Server, pinned
from bench.steps import wait_until_quiet
from mgw.wire.whole_frames import mask

MODEL = "bench-realtime"
SMALL, AUDIO, BINARY = "200 B of text", "5 KiB of text (audio)", "4 KiB, binary (audio)"
_TEXT, _BINARY = 0x81, 0x82
_KEY = b"\x37\xfa\x21\x3d"


@dataclass(frozen=True, slots=True)
class Sessions:
    """One run of sessions; an echoed frame has been relayed twice, once each way; times in microseconds."""

    frames_per_second: float
    cpu_us: float
    """For each frame that was relayed."""
    busy: float
    p50_us: float
    """Of the way there and back."""
    p99_us: float
    frames: float
    failed: float
    kib_per_session: float
    """Resident memory that the open sessions added, before they were loaded."""
    open: float

    @property
    def whole(self) -> float:
        """How many sessions lasted; in each, a frame came back at least."""
        return self.open - self.failed


def frames() -> dict[str, bytes]:
    """Return what is sent, as bytes on the wire of a client."""
    random = Random(20_260_101)
    audio = b64encode(random.randbytes(3800)).decode()
    words = ("lorem ipsum " * 12)[:126]
    small = json.dumps({"type": "response.output_text.delta", "event_id": "event_1", "delta": words})
    append = json.dumps({"type": "input_audio_buffer.append", "audio": audio})
    return {
        SMALL: _frame(_TEXT, small.encode()),
        AUDIO: _frame(_TEXT, append.encode()),
        BINARY: _frame(_BINARY, b"\x00" + random.randbytes(4095)),
    }


def _frame(first: int, payload: bytes) -> bytes:
    return bytes([first, 0xFE]) + len(payload).to_bytes(2, "big") + _KEY + mask(payload, _KEY)


@dataclass(frozen=True, slots=True)
class Load:
    """How many sessions, what each sends, how often, and for how long."""

    kind: str
    sessions: int
    interval_ms: int
    """0: the next frame as soon as the last has come back."""
    seconds: int
    settle_seconds: float = 0.0
    """Until the memory is read."""


def run(server: Server, folder: Path, load: Load) -> Sessions:
    """Open the sessions, read the memory, and load them; what is used counts from then on.

    :raises NothingMeasuredError: the client has ended without a result.
    """
    frame = folder / f"{load.kind}.frame"
    frame.write_bytes(frames()[load.kind])
    path = f"/v1/realtime?model={quote(server.model_prefix + MODEL, safe='/')}"
    what = (str(load.sessions), str(frame), str(load.interval_ms), str(load.seconds))
    command = pinned(LOAD_CORE, str(folder / "sessions"), str(server.port), path, EDGE_KEY, *what)
    memory = resident_bytes(server.pid)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as client:
        assert client.stdout is not None
        opened = _result(client.stdout.readline())
        time.sleep(load.settle_seconds)
        memory = resident_bytes(server.pid) - memory
        wait_until_quiet(server)
        before, began = tree_cpu_seconds(server.pid), time.perf_counter()
        said, _ = client.communicate(b"\n")
        used, elapsed = tree_cpu_seconds(server.pid) - before, time.perf_counter() - began
    found = _result(said)
    relayed = 2 * found["echoes"]
    return Sessions(
        frames_per_second=relayed / found["seconds"],
        cpu_us=used / max(relayed, 1) * 1e6,
        busy=used / elapsed,
        p50_us=found["delay_p50_us"],
        p99_us=found["delay_p99_us"],
        frames=relayed,
        failed=found["failed"],
        kib_per_session=memory / 1024 / max(opened["open"], 1),
        open=opened["open"],
    )


def _result(line: bytes) -> dict[str, float]:
    try:
        found: dict[str, float] = json.loads(line)
    except ValueError:
        raise NothingMeasuredError(line.decode(errors="replace")) from None
    return found
