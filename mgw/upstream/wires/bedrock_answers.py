"""What Bedrock answers: frames that hold Anthropic's events, exceptions in frames and heads, and counts.

A frame of an event ``chunk`` holds one event of Anthropic's stream, in base64.  An exception in a frame is
raised as what it is: where it is the first thing in the stream, it becomes the response, with the status that
it would have had in a head.  Sources: botocore's model of ``bedrock-runtime`` for the names and statuses;
Anthropic's SDK, ``lib/bedrock/_stream_decoder.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, MsgspecError, Struct, UnsetType
from msgspec.json import Decoder
from msgspec.structs import replace

from mgw.canonical.reply import UpstreamError
from mgw.dialects import error_reader_of
from mgw.dialects.refusal import AnswerError
from mgw.dialects.stream import incomplete
from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.nouns.vocabulary import DialectName
from mgw.wire.amazon_errors import error_type, short_name
from mgw.wire.event_stream import AmazonFrameReader, read_headers
from mgw.wire.headers import RawHeaders
from mgw.wire.json_document import neutralize_surrogates

_OK: Final = "AccessDeniedException"
_FORBIDDEN: Final = 403
_FAILED: Final = 500
_MESSAGE_KEYS: Final = ("message", "Message")
_TYPES: Final = MappingProxyType(
    {
        name.lower(): (status, vendor_type)
        for status, vendor_type, names in (
            (400, "invalid_request_error", ("ValidationException", "ConflictException")),
            (400, "rate_limit_error", ("ServiceQuotaExceededException",)),
            (
                403,
                "authentication_error",
                ("UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"),
            ),
            (403, "permission_error", ("AccessDeniedException",)),
            (404, "not_found_error", ("ResourceNotFoundException",)),
            (408, "timeout_error", ("ModelTimeoutException",)),
            (424, "api_error", ("ModelErrorException", "ModelStreamErrorException")),
            (429, "rate_limit_error", ("ThrottlingException", "ModelNotReadyException")),
            (500, "api_error", ("InternalServerException",)),
            (503, "overloaded_error", ("ServiceUnavailableException",)),
        )
        for name in names
    }
)
"""The status and Anthropic's name of each type of Amazon's, in lower case: frames begin theirs with a small
letter."""
_OTHER: Final = "api_error"
_BY_STATUS: Final = MappingProxyType({503: "overloaded_error"})
"""What a status stands for that Anthropic's API does not have."""


class _Chunk(Struct, frozen=True):
    data: bytes | UnsetType = msgspec.field(default=UNSET, name="bytes")


class _Event(Struct, frozen=True):
    type: str | UnsetType = UNSET


class _Count(Struct, frozen=True):
    inputTokens: Annotated[int, Meta(ge=0)]


_CHUNK: Final = Decoder(_Chunk)
_EVENT: Final = Decoder(_Event)
_COUNT: Final = Decoder(_Count)
_ANY: Final = Decoder()
_LINE_ENDS: Final = b"\r\n"
_LAST: Final = frozenset({"message_stop", "error"})
"""The events behind which a stream may end."""
_MAX_COUNT: Final = 64 * 1024
_MAX_EXCEPTION: Final = 64 * 1024
"""A longer payload is no exception's, and takes seconds to search for credentials."""
_UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)


class BedrockEvents:
    """Makes Anthropic's event stream of frames."""

    __slots__ = ("_chunk_headers", "_frames", "_has_ended")

    def __init__(self) -> None:
        self._frames = AmazonFrameReader()
        self._chunk_headers: bytes | None = None
        """The headers of frames with events, which are the same in each."""
        self._has_ended = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the event of each frame, which is empty where a frame means nothing.

        :raises GatewayError: ``UPSTREAM_BROKEN``; an :class:`~mgw.dialects.refusal.AnswerError` for an
            exception of the host's.
        """
        for headers, payload in self._frames.feed(data):
            if headers == self._chunk_headers or self._is_chunk(headers, payload):
                yield self._event_of(payload)
            else:
                yield b""

    def finish(self) -> bytes:
        """Refuse an end before the last event.

        :raises GatewayError: ``UPSTREAM_BROKEN``.
        """
        self._frames.finish()
        if not self._has_ended:
            raise incomplete().because(Cause.TRUNCATED)
        return b""

    def _is_chunk(self, headers: bytes, payload: bytes) -> bool:
        """Whether a frame holds an event of the model's.

        :raises AnswerError: it holds an exception.
        """
        said = read_headers(headers)
        kind = said.get(":message-type")
        if kind == "exception":
            raise _exception(said.get(":exception-type", ""), _message_in(payload))
        if kind == "error":
            raise _exception(said.get(":error-code", ""), said.get(":error-message"))
        if kind != "event" or said.get(":event-type") != "chunk":
            return False
        self._chunk_headers = headers
        return True

    def _event_of(self, payload: bytes) -> bytes:
        try:
            data = _CHUNK.decode(payload).data
        except _UNREADABLE:
            message = "the upstream sent a frame with a payload that cannot be read"
            raise GatewayError(Reason.UPSTREAM_BROKEN, message).because(Cause.UNREADABLE) from None
        if data is UNSET:
            return b""
        try:
            kind = _EVENT.decode(data).type
        except _UNREADABLE:
            kind = _type_of(data)
        if not kind or not kind.isprintable():
            return b""
        if kind in _LAST:
            self._has_ended = True
        if b"\n" in data or b"\r" in data:  # JSON has none within strings
            data = data.translate(None, _LINE_ENDS)
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _type_of(data: bytes) -> str | UnsetType:
    """Return the type of an event that is not read at once: lone halves of surrogate pairs may be in it."""
    try:
        return _EVENT.decode(neutralize_surrogates(data)).type
    except _UNREADABLE:
        return UNSET


class BedrockCount:
    """Makes Anthropic's count of tokens of Amazon's."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Keep the answer until it is whole.

        :raises GatewayError: ``UPSTREAM_BROKEN``: it is too long.
        """
        self._held += data
        if len(self._held) > _MAX_COUNT:
            raise _no_count()
        return ()

    def finish(self) -> bytes:
        """Return the count.

        :raises GatewayError: ``UPSTREAM_BROKEN``: there is none.
        """
        try:
            return b'{"input_tokens":%d}' % _COUNT.decode(bytes(self._held)).inputTokens
        except _UNREADABLE:
            raise _no_count() from None


def _no_count() -> GatewayError:
    return GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response is no count of tokens")


def read_error(status: int, headers: RawHeaders, body: bytes) -> UpstreamError | None:
    """Return what a refusal of Amazon's or of something before it says; ``None``: it is Anthropic's own."""
    document = _decode(body)
    if document.get("type") == "error":
        return None
    name = error_type(headers, body)
    message = _message_of(document)
    if name is None and message is None:  # a page, perhaps
        error = error_reader_of(DialectName.ANTHROPIC)(status, body)
        return replace(error, vendor_type=_BY_STATUS.get(status))
    if name is None:
        vendor_type = _BY_STATUS.get(status)
    else:
        vendor_type = _TYPES.get(name.lower(), (status, _OTHER))[1]
    said = message or f"the upstream rejected the request with status {status}"
    return UpstreamError(status, said, name, own_message=message, vendor_type=vendor_type)


def is_access_denied(status: int, headers: RawHeaders, body: bytes) -> bool:
    """Whether a list is refused to a credential that was accepted."""
    return status == _FORBIDDEN and error_type(headers, body) == _OK


def _exception(name: str, message: str | None) -> GatewayError:
    """Return what an exception in a frame is."""
    name = short_name(name) or "InternalServerException"
    status, vendor_type = _TYPES.get(name.lower(), (_FAILED, _OTHER))
    name = name[:1].upper() + name[1:]
    said = message or "the upstream's response was cut off"
    error = UpstreamError(status, said, name, own_message=message, vendor_type=vendor_type)
    return AnswerError(error).because(Cause.UPSTREAM_ERROR_EVENT).quoting(message)


def _message_in(payload: bytes) -> str | None:
    return _message_of(_decode(payload)) if len(payload) <= _MAX_EXCEPTION else None


def _message_of(document: dict[str, Any]) -> str | None:  # Any: JSON of whatever type
    found = (document.get(key) for key in _MESSAGE_KEYS)
    return next((message for message in found if type(message) is str and message), None)


def _decode(body: bytes) -> dict[str, Any]:  # Any: JSON of whatever type
    try:
        found = _ANY.decode(body)
    except _UNREADABLE:
        return {}
    return found if type(found) is dict else {}
