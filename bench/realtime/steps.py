"""What is run on each of the servers, in this order."""

from __future__ import annotations

from dataclasses import dataclass

from bench.realtime.load import AUDIO, BINARY, SMALL, Load

KINDS = (SMALL, AUDIO, BINARY)
IDLE_SESSIONS = 1000
SESSIONS = 100
INTERVAL_MS = 50
"""Of the frames in each of many sessions."""


@dataclass(frozen=True, slots=True)
class Step:
    """One load, and how often it is run."""

    name: str
    load: Load
    rounds: int


def alone(kind: str) -> str:
    """Name the step of one session, whose next frame is sent as soon as the last has come back."""
    return f"1 session, {kind}"


def paced(kind: str) -> str:
    """Name the step of many sessions with a pause between frames."""
    return f"{SESSIONS} sessions, paced, {kind}"


def flat(kind: str) -> str:
    """Name the step of many sessions at full speed."""
    return f"{SESSIONS} sessions, full speed, {kind}"


IDLE = f"{IDLE_SESSIONS:,} idle sessions"
STEPS = (
    # The first, since memory that others have left would be used again.
    Step(IDLE, Load(SMALL, IDLE_SESSIONS, 0, 0, settle_seconds=1.0), 1),
    *(Step(alone(kind), Load(kind, 1, 0, 1), 3) for kind in KINDS),
    *(Step(paced(kind), Load(kind, SESSIONS, INTERVAL_MS, 2), 3) for kind in KINDS),
    *(Step(flat(kind), Load(kind, SESSIONS, 0, 1), 3) for kind in KINDS),
)
