"""WebSocket sessions of the soak: frames of clients that leave at any byte, and how the provider reads them.

The number of messages that a client sends whole stands in the name of the model, ``m123.ws3``, so that the
provider knows what must have reached it: exactly those, with its own name of the model, in legal frames.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.support.frames import RawFrame, messages_of, split_frames
from tests.support.raw_sessions import frame

MOST_MESSAGES: Final = 5
CONTINUATION, TEXT, CLOSE, PING = 0x0, 0x1, 0x8, 0x9
_FIN: Final = 0x80
_MASKED: Final = 0x80


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a client sends before it leaves."""

    sent: bytes
    whole: int
    """How many messages of it are whole."""


def render_frame(opcode: int, payload: bytes, random: Random, *, final: bool = True) -> bytes:
    """Return one frame of a client."""
    return frame(opcode | (_FIN if final else 0), payload, random.randbytes(4))


def leaving(number: int, target: str, path: str) -> Leaving:
    """Return what the client of a session sends: messages in pieces, pings between them, cut off anywhere.

    :param target: the model as the client names it, but for the last digit.
    """
    # The digit takes the place of another: where the client leaves does not depend on it.
    whole = _leave(number, f"{target}0", path).whole
    return _leave(number, f"{target}{whole}", path)


def _leave(number: int, target: str, path: str) -> Leaving:
    random = Random(number)
    sent, ends = b"", []
    for index in range(random.randint(1, MOST_MESSAGES)):
        sent += _message(message(target, path, index), random)
        ends.append(len(sent))
    cut = random.choice([random.randint(0, len(sent)), len(sent)])
    return Leaving(sent[:cut], sum(end <= cut for end in ends))


def message(target: str, path: str, index: int) -> bytes:
    """Return a message that names its model."""
    if path == "/v1/realtime":
        return json.dumps({"type": "session.update", "session": {"model": target}, "n": index}).encode()
    return json.dumps({"type": "response.create", "model": target, "input": "x" * 40, "n": index}).encode()


def _message(payload: bytes, random: Random) -> bytes:
    """Return a message in one to four frames, with pings before them."""
    cuts = sorted(random.randrange(len(payload)) for _ in range(random.randrange(4)))
    pieces = [payload[start:end] for start, end in zip([0, *cuts], [*cuts, len(payload)], strict=True)]
    frames = []
    for index, piece in enumerate(pieces):
        if not random.randrange(3):
            frames.append(render_frame(PING, b"are you there", random))
        opcode = CONTINUATION if index else TEXT
        frames.append(render_frame(opcode, piece, random, final=index == len(pieces) - 1))
    return b"".join(frames)


@dataclass(slots=True)
class ProviderEnd:
    """What reaches the provider of one session."""

    model: str
    whole: int | None
    """How many messages must arrive; unknown where the session may be refused."""
    problems: list[str] = field(default_factory=list)

    def read(self, take: Callable[[int], bytes]) -> None:
        """Read frames to the end of the connection, or to a message that makes going on senseless.

        :param take: returns so many bytes, or fewer at the end.
        """
        frames: list[RawFrame] = []
        while (one := self._frame(take)) is not None:
            frames.append(one)
            if b".forbidden" in one.payload:
                self.problems.append("a message asked for a forbidden model")
                return
        closed = [at for at, one in enumerate(frames) if one.first & 0xF == CLOSE]
        if closed and closed[0] != len(frames) - 1:
            self.problems.append("a frame behind the close frame")
        for one in frames:
            self._look_at(one)
        try:
            messages, _ = messages_of(frames)
        except AssertionError as error:
            self.problems.append(str(error))
            return
        for number, (_, payload) in enumerate(messages):
            self._read(number, payload)
        if self.whole is not None and len(messages) != self.whole:
            self.problems.append(f"{len(messages)} messages of {self.whole} reached the provider")

    def _frame(self, take: Callable[[int], bytes]) -> RawFrame | None:
        """Return the next whole frame; ``None`` at the end."""
        head = take(2)
        if len(head) < 2:
            return None
        extended = {126: 2, 127: 8}.get(head[1] & 0x7F, 0)
        head += take(extended + (4 if head[1] & _MASKED else 0))
        size = int.from_bytes(head[2 : 2 + extended], "big") if extended else head[1] & 0x7F
        if head[0] & 0x70 or not head[1] & _MASKED:
            self.problems.append("a frame with reserved bits, or without a mask")
        found, _ = split_frames(head + take(size))
        return found[0] if found else None

    def _look_at(self, one: RawFrame) -> None:
        opcode = one.first & 0xF
        if opcode == CLOSE and len(one.payload) < 2:
            self.problems.append("a close frame without a code")
        elif opcode == PING and one.payload != b"are you there":
            self.problems.append("a ping that no client sent")
        elif opcode not in (CONTINUATION, TEXT, CLOSE, PING):
            self.problems.append(f"a frame of opcode {opcode}")

    def _read(self, number: int, payload: bytes) -> None:
        try:
            said = json.loads(payload)
            named = said.get("model") or said.get("session", {}).get("model")
        except (ValueError, AttributeError):
            self.problems.append("a message that is not the client's")
            return
        if named is not None and named != self.model:
            self.problems.append(f"a message for {named} in the session of {self.model}")
        if said.get("n") != number:
            self.problems.append("messages out of order")
