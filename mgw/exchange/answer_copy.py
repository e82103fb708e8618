"""Read what a client gets of an answer, for the estimate of its tokens.

The bytes are those that are handed on, in the client's own dialect, so translated answers and those that pass
are read alike.  Of a stream only so much is kept as it came; then its events are read, and their text is kept
as far as the estimate needs it.  So an event costs little while the stream goes on, and memory is bounded.

Where the reader of the dialect finds nothing, words are found by the names of the fields in which dialects
have them: completions have no reader, and some hosts send odd events.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

from msgspec import MsgspecError
from msgspec.json import Decoder

from mgw.dialects import dialect_of, provider_side_of
from mgw.dialects.dialect import ReplySource
from mgw.dialects.hosted_calls import HostedCallReader
from mgw.dialects.refusal import AnswerError
from mgw.dialects.stream import StreamReader
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import DialectName
from mgw.tokens.answer import AnswerTokens
from mgw.tokens.estimate import estimate_sound
from mgw.wire.encodings import Gunzip
from mgw.wire.json_document import has_more_values
from mgw.wire.media_types import is_event_stream, media_type

KEPT_BYTES: Final = 64 * 1024
"""How much of a stream is kept as it came, for as long as no more has come."""
SLICE_BYTES: Final = 16 * 1024
"""How much of what is kept is read at a time, but for a longer piece: with hundreds of streams, the slices of
many may fall into one turn of the event loop."""
MAX_WHOLE_BYTES: Final = 4 * 2**20
"""How much of an answer is kept that is no stream; a longer one is read by its words."""
_GUNZIPPED_PIECE: Final = 4 * 2**20
"""What the kept part of a compressed stream may unfold into; it is read in the reactor's thread."""
_GUNZIPPED_WHOLE: Final = 16 * 2**20
_STRING: Final = rb'[ \t\r\n]*:[ \t\r\n]*"((?:[^"\\]|\\.)*+)'
"""The inside of a string behind a name; its end may be yet to come."""
_WORDS: Final = re.compile(
    rb'"(?:content|text|thinking|reasoning|reasoning_content|refusal|partial_json|name|arguments|delta)"'
    + _STRING
)
_MARKS_BESIDE: Final = b'"transcript"', b'"custom"'
_BESIDE: Final = re.compile(rb'"(?:transcript|input)"' + _STRING)
"""What the reader of chats does not know: what is spoken, and calls of custom tools."""
_TEXT: Final = b"text/"
"""What is no JSON, such as a transcription with the times of its lines."""
_SPOKEN: Final = b'"audio"'
_SOUND: Final = re.compile(rb'"data"[ \t\r\n]*:[ \t\r\n]*"([A-Za-z0-9+/=]*+)')
_BACKGROUND: Final = re.compile(rb'"background"[ \t\r\n]*:[ \t\r\n]*true')
"""Says in a response that it goes on when the client has its answer; within a string, quotes are escaped."""
_decode_words: Final = Decoder(list[str]).decode
_decode_text: Final = Decoder(str).decode
_FEW_OBJECTS: Final = 4_000
"""Answers have hardly more, but for their logprobs; thousands of calls would take long to put together."""
_BYTES_A_TOKEN: Final = 4
"""What is assumed of what cannot be read."""
_SAMPLE_BYTES: Final = 4 * 1024
"""How much of a stream says which part of it is text."""
_UNREADABLE: Final = (GatewayError, MsgspecError, UnicodeDecodeError, RecursionError)


class AnswerCopy:
    """What is kept of one answer.

    :param new_reader: makes what reads a stream; ``None``: nothing reads one.
    :param in_pieces: whether a JSON answer is an array that arrives piece by piece.
    """

    __slots__ = (
        *("_content_type", "_dialect", "_gunzip", "_in_pieces", "_is_coded", "_is_stream", "_pieces"),
        *("_beside", "_reader", "_seed", "_size", "_sound", "_tokens", "_total", "_unread", "_words"),
        *("_hosted", "_hosted_calls", "_may_go_on", "has_ended", "is_background"),
    )

    def __init__(self, dialect: DialectName | None, seed: str, *, in_pieces: bool) -> None:
        self._dialect = dialect
        self._seed = seed
        self._in_pieces = in_pieces
        self._content_type = b""
        self._is_stream = self._is_coded = False
        self._pieces: list[bytes] = []
        self._size = 0
        """How many bytes are kept."""
        self._total = 0
        """How many have come."""
        self._unread = 0
        """How many of them cannot be read."""
        self._reader: StreamReader | None = None
        self._gunzip: Gunzip | None = None
        self._tokens, self._words = AnswerTokens(), AnswerTokens()
        """What the reader has found, and what was found without it, for as long as that has found nothing."""
        self._beside = AnswerTokens()
        """What no reader looks for."""
        self._hosted = AnswerTokens()
        """What is written to tools that the provider runs."""
        calls = None if dialect is None else dialect_of(dialect).hosted_calls
        self._hosted_calls = None if calls is None else HostedCallReader(calls)
        self._sound = 0
        """How many characters of base64 are sound."""
        self._may_go_on = dialect is not None and dialect_of(dialect).answer_places.background is not None
        self.is_background = False
        """Whether it says that the provider goes on with it when the client has it."""
        self.has_ended = False
        """Whether it was read to its end, be that an error; known once it is estimated."""

    def begin(self, content_type: bytes, content_encoding: bytes) -> None:
        """Know what comes."""
        self._content_type = content_type
        self._is_stream = self._in_pieces or is_event_stream(content_type)
        coding = content_encoding.strip().lower()
        self._is_coded = coding not in (b"", b"identity")
        if coding == b"gzip":
            self._gunzip = Gunzip(_GUNZIPPED_PIECE if self._is_stream else _GUNZIPPED_WHOLE)
        if self._is_stream and self._dialect is not None:
            self._reader = provider_side_of(self._dialect).stream_reader(self._seed)

    def add(self, data: bytes) -> None:
        """Take a piece that is handed on."""
        self._pieces.append(data)
        self._size += len(data)
        if self._is_stream:
            if self._size > (SLICE_BYTES if self._total else KEPT_BYTES):
                self._read_kept(SLICE_BYTES)
        elif self._size > MAX_WHOLE_BYTES:
            if self._is_coded:
                self._gunzip = None  # too long to be read
            self._read_kept()

    def estimate(self, factor: float) -> int:
        """Return about how many tokens have come; call it once, in any thread.

        :param factor: as for :func:`mgw.tokens.estimate.estimate_tokens`.
        """
        if self._is_stream or self._total:
            self._read_kept()
            is_complete = self._finish_reader()
        else:
            is_complete = self._read_whole(self._take())
        hosted = self._hosted.estimate(factor)
        if is_complete or self._has_found:
            found = self._tokens.estimate(factor) + hosted
        else:
            found = max(self._words.estimate(factor), hosted)  # which are partly the same
        rest = self._beside.estimate(factor) + estimate_sound(self._sound)
        return found + rest + self._unread // _BYTES_A_TOKEN

    def estimate_roughly(self) -> int:
        """Return the same at hardly any cost, by its length and a sample of what is kept of a stream."""
        kept = self._size
        if self._is_stream and not self._is_coded:
            kept = round(kept * self._share_of_words())
        read = self._tokens.characters or self._words.characters
        return (read + kept + self._unread) // _BYTES_A_TOKEN

    def _share_of_words(self) -> float:
        """Return what part of the kept bytes is text; 1 where no text is found: an event is mostly names."""
        pieces = self._pieces
        start = len(pieces) // 2
        count = _count_pieces(pieces[start:], _SAMPLE_BYTES)
        sample = b"".join(pieces[start : start + count])[:_SAMPLE_BYTES]
        words = AnswerTokens()
        _find_words(sample, words)
        return words.characters / len(sample) if words.characters else 1.0

    @property
    def is_stream(self) -> bool:
        """Whether it comes in pieces."""
        return self._is_stream

    @property
    def _has_found(self) -> bool:
        return bool(self._tokens.characters or self._tokens.media)

    def _take(self, size: int | None = None) -> bytes:
        """Return what is kept, decoded, and keep it no longer.

        :param size: so much of it, in whole pieces; ``None``: all.
        """
        count = None if size is None else _count_pieces(self._pieces, size)
        kept = b"".join(self._pieces[:count])
        del self._pieces[:count]
        self._total += len(kept)
        self._size -= len(kept)
        if not self._is_coded:
            return kept
        text = b"" if self._gunzip is None else self._gunzip.feed(kept)
        if self._gunzip is None or self._gunzip.given_up:
            self._unread += len(kept)
            return b""
        return text

    def _read_kept(self, size: int | None = None) -> None:
        """Read what is kept of a stream, or so much of it, and keep its text alone."""
        kept = self._take(size)
        reader = self._reader
        if reader is not None:
            try:
                self._tokens.add_events(reader.feed(kept))
            except _UNREADABLE:
                self._reader = None
        if self._reader is None and self._has_found:
            _find_words(kept, self._tokens)
        elif not self._has_found:
            _find_words(kept, self._words)
        self._find_beside(kept)
        if self._hosted_calls is not None:
            self._add_hosted(self._hosted_calls.read_stream(kept))

    def _add_hosted(self, texts: list[str]) -> None:
        for text in texts:
            self._hosted.add(text)

    def _finish_reader(self) -> bool:
        """Return whether the stream was read to its end."""
        reader = self._reader
        if self._hosted_calls is not None:
            self._add_hosted(self._hosted_calls.finish_stream())
        if reader is None:
            return False
        try:
            self._tokens.add_events(reader.finish())
        except _UNREADABLE:  # broken off
            return False
        self.has_ended = True
        return reader.complete

    def _find_beside(self, text: bytes) -> None:
        """Find what the readers leave out."""
        if self._may_go_on and not self.is_background:
            self.is_background = _BACKGROUND.search(text) is not None
        if self._dialect is not DialectName.OPENAI_CHAT:
            return
        if any(mark in text for mark in _MARKS_BESIDE):
            _add_strings(_BESIDE.findall(text), self._beside)
        if _SPOKEN in text:
            self._sound += sum(map(len, _SOUND.findall(text)))

    def _read_whole(self, body: bytes) -> bool:
        """Return whether a body is an answer of the dialect."""
        self._find_beside(body)
        calls = self._hosted_calls
        try:
            if self._dialect is not None and not has_more_values(body, _FEW_OBJECTS, len(body)):
                self._add_hosted([] if calls is None else calls.read_whole(body))
                parse = provider_side_of(self._dialect).text.parse_reply
                self._tokens.add_reply(parse(body, ReplySource(self._seed, self._content_type)))
                self.has_ended = True
                return True
        except AnswerError:
            self.has_ended = True
        except _UNREADABLE:
            pass
        if self._dialect is None and media_type(self._content_type).startswith(_TEXT):
            self._words.add(body.decode("utf-8", "replace"))
        else:
            _find_words(body, self._words)
        return False


def _count_pieces(pieces: list[bytes], size: int) -> int:
    """Return how many pieces, from the first on, have so many bytes."""
    ends = accumulate(map(len, pieces))
    return next((count for count, end in enumerate(ends, 1) if end >= size), len(pieces))


def _find_words(text: bytes, tokens: AnswerTokens) -> None:
    _add_strings(_WORDS.findall(text), tokens)


def _add_strings(strings: list[bytes], tokens: AnswerTokens) -> None:
    """Add the insides of strings."""
    if not strings:
        return
    try:
        words = _decode_words(b'["%b"]' % b'","'.join(strings))
    except (MsgspecError, UnicodeDecodeError):  # half a surrogate pair, no UTF-8, or cut within a character
        words = [_decode_word(string) for string in strings]
    tokens.add("".join(words))


def _decode_word(string: bytes) -> str:
    try:
        return _decode_text(b'"%b"' % string)
    except (MsgspecError, UnicodeDecodeError):
        return string.decode("utf-8", "replace")
