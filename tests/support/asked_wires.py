"""What a wire makes of calls of one kind of provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mgw.config.provider import Provider
from mgw.nouns.vocabulary import Kind, Operation
from mgw.upstream.wires.wire import HostCall, ProviderWire, RequestEdits, VendorCall
from mgw.wire.headers import RawHeaders
from mgw.wire.json_spans import apply_edits


def asked(model: str, operation: Operation = Operation.CHAT, **more: Any) -> VendorCall:
    """Return the call of Anthropic's API for a model."""
    return VendorCall(operation, b"POST", b"/messages", model=model, **more)


@dataclass(frozen=True)
class AskedWire:
    """A wire, with the kind and the usual host of its providers."""

    wire: ProviderWire
    kind: Kind
    host: str

    def provider(self, base_url: str = "", **more: Any) -> Provider:
        """Return a provider of the kind."""
        return Provider(name="claude", kind=self.kind, base_url=base_url or self.host, **more)

    def call(self, model: str, operation: Operation = Operation.CHAT, **more: Any) -> HostCall:
        """Return where a call for a model goes."""
        return self.wire.call(self.provider(), asked(model, operation, **more))

    def edits(
        self, body: str, headers: RawHeaders | None = None, of: Provider | None = None, **more: Any
    ) -> RequestEdits:
        """Return what becomes of a request."""
        assert self.wire.edits is not None
        return self.wire.edits(of or self.provider(), asked("m", **more), body.encode(), headers or [])

    def edited(self, body: str, headers: RawHeaders | None = None, **more: Any) -> str:
        """Return the body that is sent in place of one."""
        return apply_edits(body.encode(), self.edits(body, headers, **more).edits).decode()
