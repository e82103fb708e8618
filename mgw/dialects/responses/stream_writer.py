"""A stream of Responses, rendered from events (contract 11.8).

Sources: the SDK's ``ResponseStreamEvent`` and its accumulator (``lib/streaming/responses``).  The grammar::

    stream   = response.created response.in_progress item* terminal
    item     = response.output_item.added BODY response.output_item.done
    terminal = response.completed | response.incomplete | response.failed

:mod:`mgw.dialects.responses.stream_items` has the bodies, and :mod:`mgw.dialects.serial_writer` the order.
The last event carries the whole response.

One item is open at a time.  What comes next ends it: texts, citations and words of a refusal belong to one
message as long as nothing comes between; a thought ends with its signature; a call whose arguments are whole
ends when something follows, or the answer does, since an answer that was cut off marks its last item.
Signatures travel in reasoning items (contract 11.6): a thought's in its own, a call's in one before it, a
text's in one behind its message.

A stream that breaks ends with ``response.failed``.  The item that was open gets no event of its end: clients
run a call when they read one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import (
    Citation,
    Media,
    MediaKind,
    Signature,
)
from mgw.canonical.identifiers import make_id, make_unique_id
from mgw.canonical.reply import (
    Began,
    CallBegan,
    CitationAdded,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    TokenLogprob,
    UpstreamError,
)
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.responses.blocks import CALL_ID, COMPLETED, INCOMPLETE, render_image
from mgw.dialects.responses.calls import CallHead, OpenStructuredCall, OpenTextCall, is_structured
from mgw.dialects.responses.errors import render_failure
from mgw.dialects.responses.options import ResponseRenderer, ResponseReplyOptions, is_cut, status_of
from mgw.dialects.responses.schema import ClientTool, ToolKind
from mgw.dialects.responses.stream_items import EventLog, OpenMessage, OpenThought, TextRun
from mgw.dialects.responses.thoughts import seal_call_signature, seal_text_signature
from mgw.dialects.serial_writer import FRAME_BYTES, ContentEvent, SerialStreamWriter
from mgw.nouns.errors import GatewayError

KEEPALIVE: Final = b": ping\n\n"
MAX_KEPT_BYTES: Final = 32 * 2**20
"""How large the output may become, which the last event has to repeat."""


class ResponsesStreamWriter(SerialStreamWriter):
    """Writes one response, of the first candidate, item by item."""

    __slots__ = ("_log", "_output", "_renderer")

    content_type = b"text/event-stream"

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context.request_id)
        self._output = OutputWriter(self._out, context)
        self._log = self._output.log
        self._renderer = ResponseRenderer(context)

    def on_text(self, event: TextAdded) -> None:
        """Write text."""
        run = self._output.text
        if run is not None and event.text and not event.candidate:  # as nearly always
            run.add(event.text)
            if self._log.kept_bytes > MAX_KEPT_BYTES:
                self._is_full()
        elif event.text and self._is_due(event, len(event.text)):
            self._output.add_text(event.text)

    def on_text_signed(self, event: TextSigned) -> None:
        """Write the signature of a text, as an item behind its message."""
        if self._is_due(event, len(event.signature.value)):
            self._output.sign_text(event.signature)

    def on_thinking(self, event: ThinkingAdded) -> None:
        """Write a part of a thought."""
        if event.text and self._is_due(event, len(event.text)):
            self._output.add_thinking(event.text)

    def on_thinking_signed(self, event: ThinkingSigned) -> None:
        """End a thought with its signature."""
        if self._is_due(event, len(event.signature.value)):
            self._output.sign_thinking(event.signature)

    def on_refusal(self, event: RefusalAdded) -> None:
        """Write the words of a refusal."""
        if event.text and self._is_due(event, len(event.text)):
            self._output.add_refusal(event.text)

    def on_citation(self, event: CitationAdded) -> None:
        """Write where a text comes from."""
        if self._is_due(event, len(event.citation.url or "") + len(event.citation.title or "")):
            self._output.add_citation(event.citation)

    def on_media(self, event: MediaAdded) -> None:
        """Write an image."""
        if self._is_due(event, len(event.media.data or "")):
            self._output.add_media(event.media)

    def on_logprobs(self, event: LogprobsAdded) -> None:
        """Write how likely the last tokens were."""
        if self._is_due(event, len(event.tokens)):
            self._output.add_logprobs(event.tokens)

    def on_call_began(self, event: CallBegan) -> None:
        """Begin a call, or hold it while another one is open."""
        if not self._is_full():
            super().on_call_began(event)

    def on_error(self, error: GatewayError | UpstreamError) -> None:
        """Write ``response.failed``, with what there is of the output."""
        if not self._began:
            self._begin(Began())
        items = self._output.abandon()
        failure = render_failure(error)
        self._write_terminal("failed", self._renderer.render_failed(failure, items, self._usage))
        self._forget_held()

    def _keepalive(self) -> bytes:
        """Return a comment."""
        return KEEPALIVE

    def _is_due(self, event: ContentEvent, size: int) -> bool:
        """Whether an event can be written now, and what it makes can still be kept."""
        return super()._is_due(event, size) and not self._is_full()

    def _begin(self, began: Began) -> None:
        self._began = True
        renderer = self._renderer
        renderer.model = began.model or renderer.model
        response = [renderer.render_begun()]
        self._log.write_response(b"response.created", response)
        self._log.write_response(b"response.in_progress", response)

    def _conclude(self, ending: Ended) -> None:
        pieces = self._renderer.render_ended(ending.stop, self._log.items, self._usage)
        self._write_terminal(status_of(ending.stop), pieces)
        self._closed = True

    def _write_terminal(self, status: str, response: list[bytes]) -> None:
        self._log.write_response(f"response.{status}".encode(), response)

    def _begin_call(self, began: CallBegan) -> None:
        self._output.begin_call(began.id, began.name, began.signature)

    def _add_arguments(self, text: str) -> None:
        self._output.add_arguments(text)
        self._is_full()

    def _end_arguments(self) -> None:
        self._output.end_arguments()

    def _end_content(self, ending: Ended) -> None:
        if not self._is_full():
            self._output.end_item(INCOMPLETE if is_cut(ending.stop) else COMPLETED)

    def _is_full(self) -> bool:
        """Whether no more can be kept, which ends the stream."""
        if self._log.kept_bytes > MAX_KEPT_BYTES:
            self._break_off()
        return self._closed


class OutputWriter:
    """Writes the items of one response, and keeps them."""

    __slots__ = ("_awaits_tokens", "_before", "_citations", "_ids", "_open", "_tools", "log", "text")

    def __init__(self, out: list[bytes], context: ReplyContext) -> None:
        self.log = EventLog(out, context.request_id)
        options = ResponseReplyOptions.of(context.options)
        self._tools: Mapping[str, ClientTool] = options.client_tools
        self._open: OpenMessage | OpenThought | OpenTextCall | OpenStructuredCall | None = None
        self.text: TextRun | None = None
        """The text to which more can be added as it comes: nothing else is open or waits."""
        self._before = 0
        """The characters of the texts that have ended; places in a text count from its own begin."""
        self._citations: list[Citation] = []
        """The citations that came before their text."""
        self._ids: set[str] = set()
        """The identifiers of the calls."""
        self._awaits_tokens = bool(options.echoed.get("top_logprobs"))
        """Whether texts wait for their tokens."""

    def add_text(self, text: str) -> None:
        """Add text; some."""
        if self.text is not None:
            self.text.add(text)
            return
        part = self._continue_message().begin_text()
        if self._awaits_tokens:
            part.hold(text)
        else:
            self.text = part.run
            part.run.add(text)
        if self._citations:
            for citation in self._citations:
                part.annotate(self._place(citation))
            self._citations.clear()

    def sign_text(self, signature: Signature) -> None:
        """Sign the text of the open message, or an empty one."""
        message = self._open
        if isinstance(message, OpenMessage) and message.signature is None:
            message.signature = signature  # citations and tokens may still come
            self.text = None
        else:
            self.end_item()
            self._write_seal(seal_text_signature(signature))

    def add_refusal(self, text: str) -> None:
        """Add words of a refusal; some."""
        self.text = None
        self._continue_message().add_refusal(text)

    def add_citation(self, citation: Citation) -> None:
        """Add a citation to the text that is open, or that comes next; one without an address is left out."""
        if citation.url is None:
            return
        part = self._open.text if isinstance(self._open, OpenMessage) else None
        if part is not None:
            part.annotate(self._place(citation))
        else:
            self._citations.append(citation)
            self.log.kept_bytes += len(citation.url) + len(citation.title or "") + FRAME_BYTES

    def add_logprobs(self, tokens: tuple[TokenLogprob, ...]) -> None:
        """Add the tokens of the text that is open; further texts wait for theirs."""
        part = self._open.text if isinstance(self._open, OpenMessage) else None
        if part is not None and tokens:
            self._awaits_tokens, self.text = True, None
            part.add_logprobs(tokens)

    def add_thinking(self, text: str) -> None:
        """Add words of a thought; some."""
        if not isinstance(self._open, OpenThought):
            self.end_item()
            self._open = OpenThought(self.log)
        self._open.add(text)

    def sign_thinking(self, signature: Signature) -> None:
        """End the thought with its signature; a redacted one is a thought of its own."""
        if signature.redacted or not isinstance(self._open, OpenThought):
            self.end_item()
            self._open = OpenThought(self.log)
        self._open.end(COMPLETED, signature)
        self._open = None

    def add_media(self, media: Media) -> None:
        """Write an image; other media is left out."""
        if media.kind is MediaKind.IMAGE and media.data:
            self.end_item()
            if media.signature is not None:
                self._write_seal(seal_call_signature(media.signature))
            self.log.add_item(*render_image(self.log.seed, len(self.log.items), media))

    def begin_call(self, call_id: str, name: str, signature: Signature | None) -> None:
        """Begin a call of the client's own kind."""
        self.end_item()
        if signature is not None:
            self._write_seal(seal_call_signature(signature))
        call_id = call_id or make_id(self.log.seed, len(self._ids))  # unlike that of every other response
        tool = self._tools.get(name) or ClientTool(ToolKind.FUNCTION, name)
        head = CallHead(tool, make_unique_id(call_id, self._ids, CALL_ID))
        self._open = (OpenStructuredCall if is_structured(tool.kind) else OpenTextCall)(self.log, head)

    def add_arguments(self, text: str) -> None:
        """Add arguments of the open call."""
        if isinstance(self._open, OpenTextCall | OpenStructuredCall):
            self._open.add(text)

    def end_arguments(self) -> None:
        """The arguments of the open call are whole."""
        if isinstance(self._open, OpenTextCall | OpenStructuredCall):
            self._open.end_text()

    def end_item(self, status: bytes = COMPLETED) -> None:
        """End the item that is open; thoughts, and what a signature follows, are complete whatever comes."""
        item, self._open, self.text = self._open, None, None
        if item is None:
            return
        signature = None
        if isinstance(item, OpenMessage):
            signature = item.signature
            if item.text is not None:
                self._before += item.text.count_characters()
        item.end(COMPLETED if signature is not None or isinstance(item, OpenThought) else status)
        if signature is not None:
            self._write_seal(seal_text_signature(signature))

    def abandon(self) -> list[bytes]:
        """Return the items of a response that failed; the open one has no end."""
        item = self._open
        if isinstance(item, OpenTextCall | OpenStructuredCall) and item.ended:
            self.end_item()
            item = None
        rendered = None if item is None else item.render()
        return self.log.items if rendered is None else [*self.log.items, rendered]

    def _place(self, citation: Citation) -> Citation:
        """Return a citation with its place in the text that is open."""
        before, start, end = self._before, citation.start, citation.end
        if not before or start is None or end is None:
            return citation
        return replace(citation, start=max(start - before, 0), end=max(end - before, 0))

    def _continue_message(self) -> OpenMessage:
        """Return the message that is open and not signed, or a new one."""
        message = self._open
        if not isinstance(message, OpenMessage) or message.signature is not None:
            self.end_item()
            self._open = message = OpenMessage(self.log)
        return message

    def _write_seal(self, encrypted_content: str) -> None:
        """Write an item that only carries a signature."""
        OpenThought(self.log).end_sealed(COMPLETED, encrypted_content)
