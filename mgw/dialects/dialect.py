"""The parts of a dialect: errors, meter, model list, and both sides of a translation.

All of it is pure.  There are four operations (text, token counts, embeddings, speech), all of one shape.  A
request walks ``parse_request`` of the client's side, then ``render_request`` of the provider's; a complete
answer walks ``parse_reply`` of the provider's side, then ``render_reply`` of the client's.  Text in pieces
walks :class:`StreamReader` and :class:`StreamWriter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from enum import Enum, auto
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from msgspec import Struct

from mgw.canonical.answer_places import AnswerPlaces
from mgw.canonical.catalog import CatalogEntry, ListedModel
from mgw.canonical.conversation import Conversation
from mgw.canonical.embedding import EmbeddingReply, EmbeddingRequest
from mgw.canonical.features import Feature
from mgw.canonical.reply import Reply, TokenUsage, UpstreamError
from mgw.canonical.speech import SpeechReply, SpeechRequest
from mgw.dialects.fields import Ledger
from mgw.dialects.foreign_history import FindTagged
from mgw.dialects.hosted_calls import HostedCalls
from mgw.dialects.metering import UsageReader
from mgw.dialects.renamed_tools import ToolPlaces
from mgw.dialects.stream import StreamReader, StreamWriter
from mgw.dialects.stream_end import StreamEnd, StreamEvents
from mgw.dialects.system_prompt import PrependSystem
from mgw.nouns.errors import GatewayError
from mgw.nouns.kinds import KINDS
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import ChatTemplate, DialectName, Family, Kind
from mgw.wire.json_spans import Edit
from mgw.wire.nested_strings import JsonPath

JSON: Final = b"application/json"

Request = TypeVar("Request")
"""A request in its canonical form."""
Answer = TypeVar("Answer")
"""An answer in its canonical form."""


def identity(usage: TokenUsage) -> TokenUsage:
    """Return the usage that a token count is."""
    return usage


def _json(_: object) -> bytes:
    return JSON


class RequestContext(Struct, frozen=True):
    """What a request says outside of its body."""

    model: str
    """The model that the client names."""
    stream: bool = False
    """The path asks for a stream (Gemini's wire)."""
    raw_query: bytes | None = None
    drop_hosted_tools: bool = False
    """Responses: tools that only OpenAI's servers run are left out and reported, not refused."""
    base64_vectors: bool = True
    """Embeddings: whether vectors may be asked for in base64."""


class ReplyOptions(Struct, frozen=True):
    """How a client wants its answer written, where its dialect leaves a choice: each dialect has its own."""

    @classmethod
    def of(cls, options: ReplyOptions) -> Self:
        """Return the options of this dialect; its defaults where the request was not of this dialect."""
        return options if isinstance(options, cls) else cls()


DEFAULT_OPTIONS: Final = ReplyOptions()
"""Reply options of a request that asks for nothing special."""


class Parsed(Struct, Generic[Request], frozen=True):
    """A request, understood."""

    request: Request
    unread: frozenset[str]
    """The client's paths of what was not understood."""
    said: Mapping[Feature, Set[str]]
    """Each feature that the client asked for, and its paths of it."""
    reply_options: ReplyOptions = DEFAULT_OPTIONS

    def dropped(self, rendered: Rendered) -> frozenset[str]:
        """Return the client's paths of all that does not arrive: the rule of contract 8.2.

        What the renderer does not know is dropped without a word of its own about it.
        """
        if not rendered.lost and self.said.keys() <= rendered.carried:
            return self.unread
        paths = set(self.unread)
        for feature, found in self.said.items():
            if feature not in rendered.carried or feature in rendered.lost:
                paths |= found
        return frozenset(paths)


def finish_parsing(
    request: Request, ledger: Ledger, reply_options: ReplyOptions = DEFAULT_OPTIONS
) -> Parsed[Request]:
    """Close the account of a request."""
    return Parsed(request, ledger.unread(), ledger.said, reply_options)


class RenderOptions(Struct, frozen=True):
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
    chat_template: ChatTemplate = ChatTemplate.STRICT
    """Chat: which orders of messages the host takes, where its kind has templates."""
    on_vertex: bool = False
    """Gemini: the provider is Vertex AI, which differs from the Gemini API (contract 8.30)."""
    version: str | None = None
    """Anthropic: the API version that the client stated."""
    thoughts: bool = True
    """Whether thoughts of earlier turns go with the request; not, where the provider has refused them."""

    @property
    def is_template_strict(self) -> bool:
        """Whether messages go through a chat template that refuses some orders (contract 8.29)."""
        return self.chat_template is ChatTemplate.STRICT and KINDS[self.kind].has_chat_template

    @property
    def places_instructions(self) -> bool:
        """Whether instructions may stand in one place only: before all else, or in the user's text."""
        return self.is_template_strict or not self.row.system


class Rendered(Struct, frozen=True):
    """A request in a provider's wire."""

    target: bytes
    """Path and query below the provider's base address, with its leading ``/``."""
    body: bytes
    carried: frozenset[Feature]
    """What the renderer has words for; a feature that is not among them never arrives."""
    lost: frozenset[Feature] = frozenset()
    """The features of ``carried`` that did not arrive this time, or not everywhere."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers in addition to ``Content-Type``."""
    renamed: Mapping[str, str] = {}
    """The client's name of each tool that the provider knows by another (:mod:`mgw.dialects.tool_names`)."""
    wrapped: bool = False
    """The answer comes in a wrapping, for :mod:`mgw.dialects.unwrapping`."""
    thoughts: bool = False
    """Whether it holds thoughts of earlier turns that the provider may refuse."""


class ReplyContext(Struct, frozen=True):
    """What an answer is written with."""

    request_id: str
    model: str
    """The upstream model, for a provider that does not name it."""
    created: int
    """Unix seconds."""
    options: ReplyOptions = DEFAULT_OPTIONS


class ReplySource(Struct, frozen=True):
    """Where a complete answer comes from."""

    seed: str
    """Seeds the identifiers that the provider did not give."""
    content_type: bytes = JSON
    request: Any = None
    """What was asked, in its canonical form."""


class ClientOperation(Struct, Generic[Request, Answer], frozen=True):
    """One operation as clients of a dialect ask for it, and read its answer."""

    parse_request: Callable[[bytes, RequestContext], Parsed[Request]]
    """:raises GatewayError: ``MALFORMED``."""
    render_reply: Callable[[Answer, ReplyContext], bytes]
    content_type: Callable[[Answer], bytes] = _json
    """Returns the media type of what ``render_reply`` returns."""
    body_of: Family | None = None
    """The family of the client's own request body, if a provider of that family may get it."""
    natively: Callable[[bytes], bytes] | None = None
    """Makes a request to a provider of the client's own family ask for sound, where another path does not."""


class ProviderOperation(Struct, Generic[Request, Answer], frozen=True):
    """One operation as providers of a dialect are asked for it, and answer."""

    render_request: Callable[[Request, RenderOptions], Rendered]
    """:raises GatewayError: ``MALFORMED`` for what the target can in no way do."""
    parse_reply: Callable[[bytes, ReplySource], Answer]
    """:raises GatewayError: ``UPSTREAM_BROKEN``; ``AnswerError`` for an error of the provider's."""
    usage: Callable[[Answer], TokenUsage] = attrgetter("usage")
    """What the answer says that it took."""
    accept: bytes = JSON
    """What the provider is asked to answer with."""
    relay_request: Callable[[bytes, Request, RenderOptions], Rendered] | None = None
    """Takes a body in the provider's own words, of a client of another family."""


class ClientSide(Struct, frozen=True):
    """How clients of a dialect are answered across families."""

    text: ClientOperation[Conversation, Reply]
    stream_writer: Callable[[ReplyContext], StreamWriter]
    render_error: Callable[[UpstreamError, str], tuple[int, bytes]]
    """The status and body for the client; takes the request id."""
    count: ClientOperation[Conversation, TokenUsage] | None = None
    embedding: ClientOperation[EmbeddingRequest, EmbeddingReply] | None = None
    speech: ClientOperation[SpeechRequest, SpeechReply] | None = None


class ProviderSide(Struct, frozen=True):
    """How providers of a dialect are asked across families."""

    dialect: DialectName
    text: ProviderOperation[Conversation, Reply]
    stream_reader: Callable[[str], StreamReader]
    """Takes the seed for identifiers."""
    parse_error: Callable[[int, bytes], UpstreamError]
    """The status and body of a refused request; never raises."""
    refuses_thoughts: Callable[[UpstreamError], bool] | None = None
    """Whether a refusal is about thoughts of earlier turns, without which the request may be sent again."""
    count: ProviderOperation[Conversation, TokenUsage] | None = None
    embedding: ProviderOperation[EmbeddingRequest, EmbeddingReply] | None = None
    speech: ProviderOperation[SpeechRequest, SpeechReply] | None = None
    voices: Mapping[str, str] = {}
    """Speech: what to send for each voice that is known, by its name in lower case."""


class Meter(Protocol):
    """Reads token counts from a copy of a passing response body.

    A meter never raises, whatever bytes come, and holds bounded memory.  ``usage`` may be read at any
    moment; it is complete after ``finish``.
    """

    @property
    def usage(self) -> TokenUsage:
        """What is known so far, in the canonical convention."""

    def feed(self, data: bytes) -> None:
        """Look at the next bytes of the body, cut anywhere, without any content coding."""

    def finish(self) -> None:
        """Say that nothing more comes, be it the end or a break."""


class MakeMeter(Protocol):
    """Makes a meter."""

    def __call__(self, content_type: bytes, end: StreamEnd | None = None, /) -> Meter:
        """Return one for a ``Content-Type``; ``end`` is shown what may tell how a stream ends."""


class ModelPage(Struct, frozen=True):
    """One page of an upstream's own model list."""

    models: Sequence[ListedModel]
    next_page: str | None = None
    """What the next page is asked for with; ``None``: this is the last."""


class ModelLister(Struct, frozen=True):
    """How an upstream of this dialect is asked for its models, at ``/models`` below its base address."""

    query: Callable[[int, str | None], str]
    """Returns the query for a page of so many models, behind what the page before said of the next."""
    read: Callable[[bytes], ModelPage]
    """The body of an answer; raises ``ValueError`` where it is no such list."""


def _never(_: bytes) -> bool:
    """No message is of that kind."""
    return False


class ResponseStep(Enum):
    """What a message of a session is to a response that was asked for."""

    OTHER = auto()
    BEGINS = auto()
    GOES_ON = auto()
    ENDS = auto()
    REFUSED = auto()
    """An error: in place of a response, or about another message of the client's."""


def _no_step(_: bytes) -> ResponseStep:
    """No message is a part of one."""
    return ResponseStep.OTHER


def _no_error(_: bytes) -> UpstreamError | None:
    """No message is one."""
    return None


class SessionMessages(Struct, frozen=True):
    """The messages of a realtime session that the gateway has to understand."""

    usage_marker: bytes
    """Stands in every message of the provider that tells token counts."""
    update_usage: Callable[[bytes, TokenUsage], TokenUsage]
    """What is known of the session's tokens after a message, given what was known before; never raises."""
    model_places: tuple[JsonPath, ...]
    """Where a client's messages may name a model, in all sessions of the family together."""
    render_error: Callable[[GatewayError], bytes] | None = None
    """A refusal of one message, for a client whose session goes on; ``None``: the session has to end."""
    first_only: bool = False
    """Whether only the first message of a client names a model."""
    repeat_marker: bytes | None = None
    """Stands in the messages that may repeat the session's own model, where messages name no other."""
    error_marker: bytes | None = None
    """Stands in every message of the provider that is an error; ``None``: they only close."""
    find_error: Callable[[bytes], UpstreamError | None] = _no_error
    """The error that a message of the provider with that marker is; never raises."""
    asks_response: Callable[[bytes], bool] = _never
    """Whether a client's message asks for a response, where those count as requests; never raises."""
    response_marker: bytes = b'"response"'
    """Stands in every message of the provider that begins or ends one."""
    read_step: Callable[[bytes], ResponseStep] = _no_step
    """What a message of the provider's is to a response; never raises."""
    replaces_http: bool = False
    """It takes the place of HTTP requests: clients open it ahead of the first, and can fall back to HTTP."""


class Rewriting(Struct, frozen=True):
    """What the profile of a subscription may change in a dialect's requests."""

    tool_places: ToolPlaces
    """Where tools are named."""
    prepend_system: PrependSystem
    """Puts texts in front of the system prompt."""


class ChunkRemover(Protocol):
    """Takes something out of a stream, however that is cut; all other bytes pass as they come."""

    @property
    def is_open(self) -> bool:
        """Whether an event has begun that has not ended."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Return what passes, the same object where nothing has to be looked at."""
        ...

    def finish(self) -> bytes:
        """Return what is left at the end."""
        ...


class AskedUsage(Struct, frozen=True):
    """How a stream is asked for its usage that would not have it."""

    find_edits: Callable[[bytes], list[Edit]]
    """The edits by which a request asks for it; none, where it asks already or is for no stream."""
    remover: Callable[[], ChunkRemover]
    """Makes what takes out of the stream what was not asked for by the client."""


class Dialect(Struct, frozen=True):
    """All that one dialect brings."""

    name: DialectName
    render_refusal: Callable[[GatewayError, str], bytes]
    """A refusal and the gateway's request id, as the JSON body that this dialect's clients read."""
    meter: MakeMeter
    """A fresh meter for a response of this ``Content-Type``; a blind one where nothing can be read."""
    read_usage: UsageReader
    """Reads a whole JSON body, for :func:`~mgw.dialects.metering.meter_whole`."""
    render_list: Callable[[Sequence[CatalogEntry], Mapping[str, str]], bytes]
    """The catalog as the client's query asks for it; a query that asks wrongly raises ``GatewayError``."""
    render_entry: Callable[[CatalogEntry], bytes]
    """One entry of the catalog."""
    lister: ModelLister
    """How upstreams that speak it list their models."""
    keepalive_bytes: bytes
    """What may stand between two events of a stream and means nothing (contract 2.14)."""
    stream_events: StreamEvents
    """What the events of its streams mean while they pass."""
    client: ClientSide | None = None
    """The clients' side of a translation; ``None``: they are not translated."""
    provider: ProviderSide | None = None
    """The providers' side of a translation; ``None``: nobody is asked in it."""
    session: SessionMessages | None = None
    """The messages of its realtime sessions; ``None``: it has none."""
    find_tagged: FindTagged | None = None
    """Finds what the gateway has added to a history (contract 5.4); ``None``: it has no place for any."""
    rewriting: Rewriting | None = None
    """What profiles may change in its requests; ``None``: nothing."""
    asked_usage: AskedUsage | None = None
    """How its streams are asked for usage; ``None``: they have it."""
    answer_places: AnswerPlaces = AnswerPlaces()
    """Where its requests state how long answers may be."""
    image_places: AnswerPlaces = AnswerPlaces()
    """Where its requests for images state how many."""
    hosted_calls: HostedCalls | None = None
    """Where its answers have calls of tools that the provider runs; ``None``: they have none."""
