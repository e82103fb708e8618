"""Events, written as a stream of cards."""

from __future__ import annotations

from typing import Final

from mgw.canonical.conversation import JsonObject, Text, ToolCall
from mgw.canonical.reply import (
    ArgumentsAdded,
    CallBegan,
    CallEnded,
    CitationAdded,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    UpstreamError,
)
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.stream import StreamWriter, incomplete
from mgw.nouns.errors import GatewayError
from tests.support.postcards.errors import render_error, render_refusal
from tests.support.postcards.reply import ENCODER, render_card, render_end
from tests.support.postcards.usage import render_usage

KEEPALIVE: Final = b": still here\n\n"


class PostcardStreamWriter(StreamWriter):
    """Writes a card for each text, and one for each call once it is whole."""

    __slots__ = ("_calls", "_ending")

    content_type = b"text/event-stream"

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context.request_id)
        self._calls: dict[int, tuple[CallBegan, list[str]]] = {}
        self._ending: Ended | None = None

    def on_text(self, event: TextAdded) -> None:
        if not event.candidate and event.text and self._ending is None:
            self._write(render_card(Text(event.text)))

    def on_text_signed(self, event: TextSigned) -> None: ...

    def on_thinking(self, event: ThinkingAdded) -> None: ...

    def on_thinking_signed(self, event: ThinkingSigned) -> None: ...

    def on_refusal(self, event: RefusalAdded) -> None:
        self.on_text(TextAdded(event.text, event.candidate))

    def on_citation(self, event: CitationAdded) -> None: ...

    def on_media(self, event: MediaAdded) -> None: ...

    def on_logprobs(self, event: LogprobsAdded) -> None: ...

    def on_call_began(self, event: CallBegan) -> None:
        if not event.candidate:
            self._calls[event.call] = event, []

    def on_arguments(self, event: ArgumentsAdded) -> None:
        if not event.candidate and event.call in self._calls:
            self._calls[event.call][1].append(event.text)

    def on_call_ended(self, event: CallEnded) -> None:
        if event.candidate or event.call not in self._calls:
            return
        began, pieces = self._calls.pop(event.call)
        self._write(render_card(ToolCall(began.id, began.name, "".join(pieces))))

    def on_ended(self, event: Ended) -> None:
        if not event.candidate:
            self._ending = event

    def on_finish(self) -> None:
        if self._ending is None:
            self._break(incomplete())
        else:
            self._write({"end": render_end(self._ending.stop), "usage": render_usage(self._usage)})

    def on_error(self, error: GatewayError | UpstreamError) -> None:
        if isinstance(error, GatewayError):
            body = render_refusal(error, self._request_id)
        else:
            body = render_error(error, self._request_id)[1]
        self._out.append(b"data: %b\n\n" % body)

    def _keepalive(self) -> bytes:
        return KEEPALIVE

    def _write(self, card: JsonObject) -> None:
        self._out.append(b"data: %b\n\n" % ENCODER.encode(card))
