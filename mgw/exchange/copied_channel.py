"""A response channel that keeps a copy of the body for the estimate of its tokens; no byte changes."""

from __future__ import annotations

import re
from typing import Final

from mgw.exchange.answer_copy import AnswerCopy
from mgw.exchange.response_channel import ChunkWriter, Producer, ResponseChannel
from mgw.exchange.untold import UntoldUsage
from mgw.http.response_writer import RelayedHead
from mgw.wire.headers import RawHeaders, value_of

_FIRST_ERROR_STATUS: Final = 400
_LINE: Final = rb"^%b:[ \t]*([^\r\n]*)"
_TYPE: Final = re.compile(_LINE % b"content-type", re.IGNORECASE | re.MULTILINE)
_CODING: Final = re.compile(_LINE % b"content-encoding", re.IGNORECASE | re.MULTILINE)


class CopiedChannel:
    """Hands everything on to a channel, and shows the body of a good response to the copy."""

    __slots__ = ("_channel", "_copy", "_is_copied", "_untold")

    def __init__(self, channel: ResponseChannel, untold: UntoldUsage) -> None:
        self._channel = channel
        self._untold = untold
        self._copy = untold.answer
        self._is_copied = False

    @property
    def started(self) -> bool:
        """Whether the head of a response is on its way."""
        return self._channel.started

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of the response."""
        self._begin(status, headers)
        self._channel.start(status, reason, headers)
        self._untold.keep_body()

    def start_early(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of a response while the request is still needed."""
        self._begin(status, headers)
        self._channel.start_early(status, reason, headers)

    def forget_request(self) -> None:
        """Release the memory of a request that is not needed any more."""
        self._channel.forget_request()
        self._untold.keep_body()

    def relay_head(self, head: RelayedHead, lines: bytes) -> None:
        """Send the head of a response that is passed on."""
        self._begin_relayed(head, lines)
        self._channel.relay_head(head, lines)
        self._untold.keep_body()

    def relay_whole(self, head: RelayedHead, lines: bytes, body: bytes) -> None:
        """Send all of a response that is passed on, and end it."""
        self._begin_relayed(head, lines)
        self._take(body)
        self._channel.relay_whole(head, lines, body)

    def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        self._take(data)
        self._channel.write(data)

    def chunk_writer(self) -> ChunkWriter:
        """Return who takes chunks in place of :meth:`write`."""
        writer = self._channel.chunk_writer()
        return _CopiedChunks(writer, self._copy) if self._is_copied else writer

    def flush(self) -> None:
        """Send what waits for more of the body."""
        self._channel.flush()

    def finish(self, last_piece: bytes = b"") -> None:
        """End the response behind a last piece of the body, if there is one."""
        self._take(last_piece)
        self._channel.finish(last_piece)

    def abort(self) -> None:
        """End the connection visibly broken."""
        self._channel.abort()

    def register(self, producer: Producer) -> None:
        """Name what is to pause while the client reads slowly."""
        self._channel.register(producer)

    def unregister(self) -> None:
        """There is nothing to pause any more."""
        self._channel.unregister()

    def _begin(self, status: int, headers: RawHeaders) -> None:
        self._is_copied = self._untold.writes_text and status < _FIRST_ERROR_STATUS
        if self._is_copied:
            coding = value_of(headers, b"content-encoding") or b""
            self._copy.begin(value_of(headers, b"content-type") or b"", coding)

    def _begin_relayed(self, head: RelayedHead, lines: bytes) -> None:
        self._is_copied = self._untold.writes_text and head.status < _FIRST_ERROR_STATUS
        if self._is_copied:
            kind, coding = _TYPE.search(lines), _CODING.search(lines)
            self._copy.begin(b"" if kind is None else kind[1], b"" if coding is None else coding[1])

    def _take(self, data: bytes) -> None:
        if data and self._is_copied:
            self._copy.add(data)


class _CopiedChunks:
    """Takes chunks, of which the copy gets the content."""

    __slots__ = ("_copy", "_writer")

    def __init__(self, writer: ChunkWriter, copy: AnswerCopy) -> None:
        self._writer = writer
        self._copy = copy

    def write_chunk(self, data: bytes, start: int, stop: int) -> None:
        self._copy.add(data[start:stop])
        self._writer.write_chunk(data, start, stop)
