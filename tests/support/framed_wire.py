"""A made-up kind of provider, second of two files: hosts of Anthropic's models with an API of their own.

::

    POST /api/model/MODEL/ask             a message with ``host_version``, without ``model`` and ``stream``
    POST /api/model/MODEL/ask-in-frames   the same; a frame is its length in four bytes, and an event as JSON
    POST /api/model/MODEL/count           answers {"inputTokens": N}
    GET /api/catalog?size=N               answers {"entries": ["MODEL", ...]}

A refusal says what is wrong in the header ``x-framed-error``; so does a frame with ``fault`` in it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

from mgw.canonical.catalog import ListedModel
from mgw.canonical.reply import UpstreamError
from mgw.config.provider import Provider
from mgw.dialects.dialect import ModelLister, ModelPage
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Operation
from mgw.upstream.address import base_path
from mgw.upstream.wires.wire import Framing, HostCall, ProviderWire, RequestEdits, Unframer, VendorCall
from mgw.wire.headers import RawHeaders, value_of
from mgw.wire.json_document import JsonDocument, removal_spans
from mgw.wire.json_spans import Edit
from mgw.wire.sse import render_event
from mgw.wire.target import quote_model_path

FRAMES: Final = b"application/x-length-prefixed"
ERROR_HEADER: Final = b"x-framed-error"
_MAX_FRAME: Final = 1024 * 1024
_STATUSES: Final = {b"Throttled": 429, b"Busy": 529, b"Denied": 403}
_VERBS: Final = {Operation.CHAT: b"ask", Operation.COUNT: b"count"}


def frame(event: dict[str, Any]) -> bytes:
    """Return a frame as the host sends it."""
    data = json.dumps(event).encode()
    return struct.pack(">I", len(data)) + data


def call(provider: Provider, vendor_call: VendorCall) -> HostCall:
    """Return where the host takes a call."""
    base = base_path(provider.base_url)
    if vendor_call.operation is Operation.MODELS:
        return HostCall(b"GET", base + b"/catalog", vendor_call.query)
    verb = _VERBS.get(vendor_call.operation)
    if verb is None or vendor_call.model is None:
        raise GatewayError(Reason.UNSUPPORTED_BY_KIND, "framed hosts serve messages and counts alone")
    verb += b"-in-frames" if vendor_call.stream else b""
    return HostCall(b"POST", b"%b/model/%b/%b" % (base, quote_model_path(vendor_call.model), verb))


def edits(_: Provider, vendor_call: VendorCall, body: bytes, headers: RawHeaders) -> RequestEdits:
    """Take the model and the stream out of the body, and the version into it."""
    document = JsonDocument(body)
    members = document.members(document.root)
    cut = [node for key in ("model", "stream") for node in members.get(key, ())]
    spans = removal_spans(sorted(cut, key=lambda node: node.start))
    version = json.dumps((value_of(headers, b"anthropic-version") or b"none").decode()).encode()
    start = document.root.start + 1
    rest = b"," if len(members) > len({"model", "stream"} & members.keys()) else b""
    found: list[Edit] = [((start, start), b'"host_version":%b%b' % (version, rest))]
    found += [(span, b"") for span in spans]
    return RequestEdits(found, [pair for pair in headers if not pair[0].lower().startswith(b"anthropic-")])


class Frames:
    """Makes an event stream of frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the events whose frames are complete."""
        self._held += data
        while len(self._held) >= 4:
            (size,) = struct.unpack_from(">I", self._held)
            if size > _MAX_FRAME:
                raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream sent a frame that is too large")
            if len(self._held) < 4 + size:
                break
            yield self._event(bytes(self._held[4 : 4 + size]))
            del self._held[: 4 + size]

    def finish(self) -> bytes:
        """Refuse a frame that was cut off."""
        if self._held:
            raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's last frame is incomplete")
        return b""

    @staticmethod
    def _event(data: bytes) -> bytes:
        event = json.loads(data)
        if "fault" in event:
            kind = "overloaded_error" if event["fault"] == "Busy" else "api_error"
            said = {"type": "error", "error": {"type": kind, "message": event["said"]}}
            return render_event(b"error", json.dumps(said).encode())
        return render_event(event["type"].encode(), data)


class Count:
    """Makes Anthropic's answer to a count of the host's, once that is whole."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Keep it."""
        self._held += data
        return ()

    def finish(self) -> bytes:
        """Return the answer."""
        return b'{"input_tokens":%d}' % json.loads(self._held)["inputTokens"]


def unframe(vendor_call: VendorCall, content_type: bytes) -> Framing | None:
    """Return what takes the frames off; whole answers are Anthropic's own."""
    found: Unframer
    if vendor_call.operation is Operation.COUNT:
        found = Count()
        return Framing(found, b"application/json")
    return Framing(Frames(), b"text/event-stream") if content_type == FRAMES else None


def error(status: int, headers: RawHeaders, body: bytes) -> UpstreamError | None:
    """Read a refusal whose name stands in the head."""
    name = value_of(headers, ERROR_HEADER)
    if name is None:
        return None
    said = json.loads(body)["said"]
    return UpstreamError(_STATUSES.get(name, status), said, name.decode(), own_message=said)


def _read_catalog(body: bytes) -> ModelPage:
    return ModelPage([ListedModel(name) for name in json.loads(body)["entries"]])


WIRE: Final = ProviderWire(
    call=call,
    edits=edits,
    unframe=unframe,
    error=error,
    lister=ModelLister(lambda size, _: f"size={size}", _read_catalog),
)
