"""A whole response to a conversation, made from the provider's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mgw.canonical.reply import Reply, TokenUsage
from mgw.dialects.dialect import ClientSide, ProviderSide, ReplyContext, ReplySource
from mgw.dialects.stream import StreamReader
from mgw.dialects.tool_names import restore_names_in_reply
from mgw.dialects.unwrapping import UnwrappedReader, unwrap_reply
from mgw.wire.media_types import JSON


@dataclass(slots=True, eq=False, repr=False)
class TextResponse:
    """The response to one conversation, as a whole."""

    client: ClientSide
    provider: ProviderSide
    seed: str
    names: Mapping[str, str]
    """Tools that the provider knows by another name than the client."""
    context: ReplyContext
    wrapped: bool
    """Whether its text comes in a wrapping (:mod:`mgw.dialects.unwrapping`)."""
    unknown_stops: list[str] = field(default_factory=list)
    """Stop reasons that nobody knows."""

    def parse(self, body: bytes, content_type: bytes) -> Reply:
        """Return what the provider said."""
        reply = self.provider.text.parse_reply(body, ReplySource(self.seed, content_type))
        reply = restore_names_in_reply(reply, self.names)
        return unwrap_reply(reply) if self.wrapped else reply

    def reader(self) -> StreamReader:
        """Return what reads the provider's stream."""
        found = self.provider.stream_reader(self.seed)
        return UnwrappedReader(found) if self.wrapped else found

    def convert(self, body: bytes, content_type: bytes) -> tuple[bytes, bytes, TokenUsage]:
        """Return the client's body, its media type, and the counts."""
        reply = self.parse(body, content_type)
        self.unknown_stops += (one.unknown_stop for one in reply.candidates if one.unknown_stop is not None)
        return self.client.text.render_reply(reply, self.context), JSON, reply.usage
