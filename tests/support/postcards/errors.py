"""Errors, both ways: ``{"sorry": message, "why": code}``."""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.reply import UpstreamError
from mgw.dialects.refusal import code_of
from mgw.nouns.errors import GatewayError


class _Error(Struct):
    sorry: str
    why: str | None = None


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder(_Error)


def parse_error(status: int, body: bytes) -> UpstreamError:
    found = _decode(body)
    return UpstreamError(status, "") if found is None else UpstreamError(status, found.sorry, found.why)


def find_error(document: bytes) -> UpstreamError | None:
    found = _decode(document)
    return None if found is None else UpstreamError(502, found.sorry, found.why)


def _decode(document: bytes) -> _Error | None:
    try:
        return _DECODER.decode(document)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def render_refusal(error: GatewayError, request_id: str) -> bytes:
    return _ENCODER.encode(_Error(error.message, code_of(error)))


def render_error(error: UpstreamError, request_id: str) -> tuple[int, bytes]:
    return error.status, _ENCODER.encode(_Error(error.message, error.code))
