"""What a dialect brings to a translation: both ways, for requests, answers, streams and errors.

All of it is pure.  A request walks ``parse_request`` of the client's dialect, then ``render_request`` of the
provider's; an answer walks ``parse_reply`` of the provider's dialect, then ``render_reply`` of the client's.
In pieces it walks :class:`StreamReader` and :class:`StreamWriter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from mgw.canonical.conversation import Conversation
from mgw.canonical.embedding import EmbeddingReply, EmbeddingRequest
from mgw.canonical.features import Feature
from mgw.canonical.reply import Reply, ReplyEvent, TokenUsage, UpstreamError
from mgw.canonical.speech import SpeechReply, SpeechRequest
from mgw.dialects.fields import Ledger
from mgw.dialects.models import ModelRow
from mgw.errors import GatewayError
from mgw.vocabulary import Family, Kind


class Asked(Struct, frozen=True):
    """What a request says outside of its body."""

    model: str
    """As the client names it."""
    stream: bool = False
    """The path asks for a stream (Gemini's wire)."""
    raw_query: bytes | None = None


class AnswerStyle(Struct, frozen=True):
    """How the client wants its answer written, where its dialect leaves a choice."""

    include_usage: bool = False
    """Chat: a last chunk with usage, and ``usage: null`` in the others (``stream_options``)."""
    legacy_functions: bool = False
    """Chat: the request spoke of ``functions``; the answer says ``function_call``."""
    in_array: bool = False
    """Gemini: an array in pieces in place of an event stream."""


PLAIN: Final = AnswerStyle()
"""Nothing special."""


class Parsed(Struct, frozen=True):
    """A request, understood."""

    conversation: Conversation
    unread: frozenset[str]
    """The client's paths of what was not understood."""
    said: Mapping[Feature, frozenset[str]]
    """Each feature that the client asked for, and its paths of it."""
    style: AnswerStyle = PLAIN

    def dropped(self, rendered: Rendered) -> frozenset[str]:
        """Return the client's paths of all that does not arrive: the rule of decisions, part 8.

        What the renderer does not know is dropped without a word of its own about it.
        """
        return dropped(self.unread, self.said, rendered)


def parsed(conversation: Conversation, ledger: Ledger, style: AnswerStyle = PLAIN) -> Parsed:
    """Close the account of a request."""
    said = {feature: frozenset(found) for feature, found in ledger.said.items()}
    return Parsed(conversation, ledger.unread(), said, style)


def dropped(
    unread: Iterable[str], said: Mapping[Feature, Iterable[str]], rendered: Rendered
) -> frozenset[str]:
    """Return the paths that nobody read, and those of features that a renderer did not carry."""
    paths = set(unread)
    for feature, found in said.items():
        if feature not in rendered.carried or feature in rendered.lost:
            paths.update(found)
    return frozenset(paths)


class Setting(Struct, frozen=True):
    """What a request is rendered for: the target, and what the operator settled."""

    model: str
    """The provider's own id."""
    kind: Kind
    row: ModelRow
    default_max_tokens: int = 8192
    max_tokens_field: str = "max_completion_tokens"
    """Chat: ``max_tokens`` or ``max_completion_tokens``."""
    stream_usage: bool = True
    """Chat: ask for usage in streams."""
    extra_fields: frozenset[str] = frozenset()
    """Chat: what the provider takes beyond OpenAI's own fields (``top_k``)."""
    version: str | None = None
    """Anthropic: the API version that the client stated."""
    thoughts: bool = True
    """Whether thoughts of earlier turns go with the request; not, where the provider has refused them."""


class Rendered(Struct, frozen=True):
    """A request in a provider's wire."""

    target: bytes
    """Path and query below the provider's base address, with its leading ``/``."""
    body: bytes
    carried: frozenset[Feature]
    """What the renderer has words for; a feature that is not among them never arrives."""
    lost: frozenset[Feature] = frozenset()
    """Those of ``carried`` that did not arrive this time, or not everywhere."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Beside ``Content-Type``."""
    renamed: Mapping[str, str] = {}
    """Names of tools as the provider knows them, and the client's own, for :mod:`mgw.canonical.renaming`."""
    wrapped: bool = False
    """The answer comes in a wrapping, for :mod:`mgw.dialects.unwrapping`."""
    thoughts: bool = False
    """Whether it holds thoughts of earlier turns that the provider may refuse."""


class Answering(Struct, frozen=True):
    """What an answer is written with."""

    request_id: str
    model: str
    """The upstream model, for a provider that does not name it."""
    created: int
    """Unix seconds."""
    style: AnswerStyle = PLAIN


class StreamReader(Protocol):
    """Turns a provider's stream into events, however it is cut; holds bounded memory."""

    @property
    def usage(self) -> TokenUsage:
        """The counts so far."""

    @property
    def done(self) -> bool:
        """Whether the wire's own last event has come: nothing of the answer can follow."""

    @property
    def whole(self) -> bool:
        """Whether a break of the connection would take nothing of the answer away."""

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return what these bytes complete.  What the wire does not know is skipped, never raised.

        Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) for what is no such stream at all.
        """

    def finish(self) -> list[ReplyEvent]:
        """Return what the end of the stream completes.

        Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) where the answer had not ended.
        """


class StreamWriter(Protocol):
    """Writes events in the exact grammar of the client's dialect; it cannot write a wrong order."""

    @property
    def content_type(self) -> bytes:
        """The media type of the stream."""

    @property
    def broken(self) -> bool:
        """Whether the stream was ended with an error, be it asked for or the writer's own."""

    def write(self, events: Iterable[ReplyEvent]) -> bytes:
        """Return the bytes of these events; the same bytes however they are grouped."""

    def finish(self) -> bytes:
        """Return the end of the stream, after the last ``Ended``; nothing after ``Broke`` or ``fail``."""

    def fail(self, error: GatewayError | UpstreamError) -> bytes:
        """Return what shows the client that the stream broke; nothing where it has ended already."""

    def keepalive(self) -> bytes:
        """Return bytes that mean nothing, for a client that has waited for long."""


class Counting(Struct, frozen=True):
    """The dialect's token count."""

    parse_request: Callable[[bytes, Asked], Parsed]
    render_request: Callable[[Conversation, Setting], Rendered]
    parse_reply: Callable[[bytes], TokenUsage]
    """Raises :class:`GatewayError` (``UPSTREAM_BROKEN``)."""
    render_reply: Callable[[TokenUsage], bytes]


class EmbeddingAsker(Struct, frozen=True):
    """The client's side of embeddings."""

    parse_request: Callable[[bytes], tuple[EmbeddingRequest, Ledger]]
    render_reply: Callable[[EmbeddingReply, EmbeddingRequest, str], bytes]
    """The reply, what was asked, and the name of the model."""


class EmbeddingGiver(Struct, frozen=True):
    """The provider's side of embeddings."""

    render_request: Callable[[EmbeddingRequest, Setting], Rendered]
    parse_reply: Callable[[bytes], EmbeddingReply]


class Spoken(Struct, frozen=True):
    """Speech as the client gets it."""

    body: bytes
    content_type: bytes


class SpeechAsker(Struct, frozen=True):
    """The client's side of speech."""

    parse_request: Callable[[bytes], tuple[SpeechRequest, Ledger]]
    render_reply: Callable[[SpeechReply, Answering], Spoken]
    body_of: Family
    """Whose request body it is: a provider of that family gets the client's own."""
    natively: Callable[[bytes], bytes] | None = None
    """Makes a request to a provider of the client's own family ask for sound, where another path does not."""


class SpeechGiver(Struct, frozen=True):
    """The provider's side of speech."""

    render_request: Callable[[SpeechRequest, Setting], Rendered]
    parse_reply: Callable[[bytes, bytes, SpeechRequest], SpeechReply | UpstreamError]
    """The body, its ``Content-Type`` and what was asked; an error where the provider refuses to say it.

    Raises :class:`GatewayError` (``UPSTREAM_BROKEN``) where there is no sound.
    """
    relay_request: Callable[[bytes, SpeechRequest, Setting], Rendered] | None = None
    """Takes a body in the provider's own words, of a client of another family."""


class Translator(Struct, frozen=True):
    """One dialect's side of a translated conversation."""

    parse_request: Callable[[bytes, Asked], Parsed]
    """Raises :class:`GatewayError` (``MALFORMED``)."""
    render_request: Callable[[Conversation, Setting], Rendered]
    """Raises :class:`GatewayError` (``MALFORMED``) for what the target can in no way do."""
    parse_reply: Callable[[bytes, str], Reply]
    """A whole answer, and a seed for identifiers; raises :class:`GatewayError` (``UPSTREAM_BROKEN``)."""
    render_reply: Callable[[Reply, Answering], bytes]
    stream_reader: Callable[[str], StreamReader]
    """Takes the seed for identifiers."""
    stream_writer: Callable[[Answering], StreamWriter]
    parse_error: Callable[[int, bytes], UpstreamError]
    """The status and body of a refused request; never raises."""
    render_error: Callable[[UpstreamError, str], tuple[int, bytes]]
    """The status and body for the client; takes the request id."""
    refuses_thoughts: Callable[[UpstreamError], bool] | None = None
    """Whether a refusal is about thoughts of earlier turns, without which the request may be sent again."""
    counting: Counting | None = None
    embedding_asker: EmbeddingAsker | None = None
    embedding_giver: EmbeddingGiver | None = None
    speech_asker: SpeechAsker | None = None
    speech_giver: SpeechGiver | None = None
