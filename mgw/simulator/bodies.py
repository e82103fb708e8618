"""The body of a request, as its row takes it."""

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

import zstandard

from mgw.simulator.answer import Json, Refusal
from mgw.simulator.forms import BadFormError, Form, read_form
from mgw.simulator.table import Reads

_MOST_BODY: Final = 256 * 1024 * 1024


def read_body(
    raw: bytearray, headers: Mapping[str, str], reads: Reads, *, is_upload: bool
) -> tuple[Json, Form | None]:
    """The JSON object or the form that a body is, as far as its row wants to know.  Raises Refusal."""
    said = headers.get("content-type", "")
    media = said.partition(";")[0].strip().lower()
    if reads is Reads.JSON and media != "application/json":
        raise Refusal(400, f"Unsupported content type {media!r}: this request wants application/json.")
    if reads is Reads.NOTHING:
        return {}, None
    if media.startswith("multipart/"):
        return {}, _form(raw, said)
    is_json = media == "application/json" and (bool(raw) or reads is Reads.JSON)
    if not is_json or (is_upload and "x-goog-upload-offset" in headers):
        return {}, None
    return _object(_unpacked(raw, headers.get("content-encoding", "identity"))), None


def _form(raw: bytearray, content_type: str) -> Form:
    try:
        return read_form(raw, content_type)
    except BadFormError as error:
        raise Refusal(400, f"We could not parse the multipart body of your request: {error}") from None


def _object(raw: bytes | bytearray) -> Json:
    try:
        value: Any = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"We could not parse the JSON body of your request: {error}") from None
    if not isinstance(value, dict):
        raise Refusal(400, "The body of a request is a JSON object.")
    return value


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _unpacked(raw: bytearray, coding: str) -> bytes | bytearray:
    try:
        match coding.strip().lower():
            case "identity":
                return raw
            case "gzip":
                return zlib.decompressobj(wbits=31).decompress(raw, _MOST_BODY)
            case "zstd":
                return zstandard.ZstdDecompressor().decompressobj().decompress(bytes(raw))
    except (zlib.error, zstandard.ZstdError):
        raise Refusal(400, f"The body is no {coding}.") from None
    raise Refusal(400, f"Unsupported Content-Encoding {coding!r}.")
