"""The output of a response, item after item, for a stream and for a whole answer alike.

One item is open at a time.  What comes next ends it: texts, citations and words of a refusal belong to one
message as long as nothing comes between; a thought ends with its signature; a call whose arguments are whole
ends when something follows, or the answer does, since an answer that was cut off marks its last item.

Signatures travel in reasoning items (contract 11.6): a thought's in its own, a call's in one before it, a
text's in one behind its message.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mgw.canonical.conversation import Citation, Media, MediaKind, Signature
from mgw.canonical.identifiers import make_id, make_unique_id
from mgw.canonical.reply import TokenLogprob
from mgw.dialects.dialect import ClientTool, ReplyContext, ToolKind
from mgw.dialects.responses.encrypted_content import seal_call_signature, seal_text_signature
from mgw.dialects.responses.item_events import (
    EventLog,
    OpenMessage,
    OpenTextCall,
    OpenThought,
    TextRun,
)
from mgw.dialects.responses.output_items import (
    CALL_ID,
    COMPLETED,
    CallHead,
    is_structured,
    render_image,
    render_structured_call,
)
from mgw.dialects.serial_writer import FRAME_BYTES, STRING_BYTES


class _StructuredCall:
    """A call that is written when its arguments are whole."""

    __slots__ = ("_arguments", "_log", "ended", "head")

    def __init__(self, log: EventLog, head: CallHead) -> None:
        self._log = log
        self._arguments: list[str] = []
        self.head = head
        self.ended = False

    def add(self, arguments: str) -> None:
        """Keep more of the arguments."""
        self._log.kept_bytes += len(arguments) + STRING_BYTES
        self._arguments.append(arguments)

    def end_text(self) -> None:
        """Take the arguments as whole."""
        self.ended = True

    def end(self, status: bytes) -> None:
        """Write the call, of the client's own kind where its arguments fit."""
        log, arguments = self._log, "".join(self._arguments)
        rendered = render_structured_call(self.head, log.seed, len(log.items), arguments, status)
        if rendered is not None:
            log.add_item(*rendered)
            return
        call = OpenTextCall(
            log, CallHead(ClientTool(ToolKind.FUNCTION, self.head.tool.name), self.head.call_id)
        )
        call.add(arguments)
        call.end(status)

    def render(self) -> None:
        """Nothing of it has been written."""


class OutputWriter:
    """Writes the items of one response, and keeps them."""

    __slots__ = ("_awaits_tokens", "_before", "_citations", "_ids", "_open", "_tools", "log", "text")

    def __init__(self, out: list[bytes], context: ReplyContext) -> None:
        self.log = EventLog(out, context.request_id)
        self._tools: Mapping[str, ClientTool] = context.options.client_tools
        self._open: OpenMessage | OpenThought | OpenTextCall | _StructuredCall | None = None
        self.text: TextRun | None = None
        """The text to which more can be added as it comes: nothing else is open or waits."""
        self._before = 0
        """The characters of the texts that have ended; places in a text count from its own begin."""
        self._citations: list[Citation] = []
        """The citations that came before their text."""
        self._ids: set[str] = set()
        """The identifiers of the calls."""
        self._awaits_tokens = bool(context.options.echoed.get("top_logprobs"))
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
        self._open = (_StructuredCall if is_structured(tool.kind) else OpenTextCall)(self.log, head)

    def add_arguments(self, text: str) -> None:
        """Add arguments of the open call."""
        if isinstance(self._open, OpenTextCall | _StructuredCall):
            self._open.add(text)

    def end_arguments(self) -> None:
        """The arguments of the open call are whole."""
        if isinstance(self._open, OpenTextCall | _StructuredCall):
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
        if isinstance(item, OpenTextCall | _StructuredCall) and item.ended:
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
