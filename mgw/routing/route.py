"""A row of the route table."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct

from mgw.nouns.vocabulary import DialectName, Family, Modality, TextApi


class ModelAt(StrEnum):
    """Where a request names its model."""

    BODY = "body"
    """The model is at the top of a JSON body, or where :attr:`Route.body_models` says."""
    PATH = "path"
    QUERY = "query"
    FORM = "form"
    """The model is in the part ``model`` of a form, or at the top of the JSON that some clients send."""
    MESSAGE = "message"
    """The model is in the first message of a WebSocket, where :attr:`Route.body_models` says."""
    BATCH = "batch"
    """Each request of a batch has one, where :attr:`Route.body_models` says; none chooses the provider."""
    NOWHERE = "nowhere"


class Treatment(StrEnum):
    """How a route is handled."""

    RELAY = "relay"
    """The body goes on byte for byte, within a family only."""
    CHAT = "chat"
    """A conversation: relayed within the family, translated across."""
    EMBED = "embed"
    SPEECH = "speech"
    """Speech synthesis."""
    COUNT = "count"
    """A token count."""
    REALTIME = "realtime"
    LOCAL = "local"
    """Answered by the gateway itself."""
    REFUSE = "refuse"
    """Known, and not implemented for any provider (contract 4.6)."""


class BodyStorage(StrEnum):
    """Where a request body waits until it goes upstream."""

    MEMORY = "memory"
    SPOOL = "spool"
    """The body is kept on disk if it is large."""


class UrlRewrite(StrEnum):
    """Addresses in a response that lead past the gateway and are rewritten to it (contract 4.22)."""

    UPLOAD_URL = "upload_url"
    """The headers that tell where an upload goes on: ``X-Goog-Upload-URL`` and its like."""
    RESULTS_URL = "results_url"
    """Each ``results_url`` of message batches."""


ANY_METHOD = "*"
_REWRITABLE = frozenset({DialectName.OPENAI_CHAT, DialectName.OPENAI_RESPONSES, DialectName.ANTHROPIC})
"""Dialects with tools and a system prompt."""


class Route(Struct, frozen=True, dict=True, cache_hash=True):
    """One row: what a path is, and how it is handled.

    ``path`` is a template: ``{model}`` and ``{path}`` stand for one or more segments, any other name in
    braces for one.  Gemini's rows are written with ``/v1beta`` and served under each of
    :data:`mgw.routing.paths.GEMINI_VERSIONS`.
    """

    name: str
    method: str
    """:data:`ANY_METHOD` for all of them."""
    path: str
    dialect: DialectName
    modality: Modality
    model_at: ModelAt
    treatment: Treatment
    body: BodyStorage = BodyStorage.MEMORY
    upstream_path: str | None = None
    """The path below the provider's base address; ``None``: the client's own without its version prefix."""
    upstream_version: str | None = None
    """A version segment in place of the base address's own (``beta`` for ``/beta/completions``)."""
    upstream_prefix: str = ""
    """What stands before the path of the base address (``/upload``)."""
    upstream_verb: str | None = None
    """A verb in place of the one behind the model (``generateContent`` for ``generateSpeech``)."""
    body_models: tuple[tuple[str | None, ...], ...] = ()
    """Where the body names models (each a :data:`mgw.wire.json_spans.Path`); with ``ModelAt.PATH``: where it
    repeats the model of the path.  Of a WebSocket it is the messages that do."""
    other_models: tuple[tuple[str | None, ...], ...] = ()
    """Where a JSON body may name further models, which the provider uses in place of the one or beside it."""
    form_part: str = "model"
    """The part of a form that names the model, or that holds the JSON of ``body_models``."""
    in_pieces: bool = False
    """Whether its answer is a JSON array that arrives piece by piece, where it is no event stream."""
    model_optional: bool = False
    """The request may name no model: then the client says which provider it means, or the default serves."""
    translated_for: frozenset[Family] = frozenset()
    """The other families whose providers serve this route, by translation (contract 4.7)."""
    text_api: TextApi | None = None
    """What a provider of the client's own family must serve to get the request as it came (contract 11.1)."""
    unstored: bytes | None = None
    """What is in the path of anything that the gateway itself made and does not store (contract 11.2)."""
    native: bool = True
    """Whether providers of the client's own family serve it as well."""
    defaults_of: Family | None = None
    """The family whose default provider takes bare models; ``None``: the client's own."""
    metered: bool = True
    """Whether its answer may tell the tokens of this request."""
    max_body_bytes: int | None = None
    """A limit of the route's own, below the configured one."""
    url_rewrite: UrlRewrite | None = None
    query_model: bool = False
    """The query may name the model where the body names none."""
    instead_of_model: str | None = None
    """A parameter of the query that stands for a model: what it names has one already."""
    upstream_origin: bool = False
    """The path is below the origin of the base address, not below the base address."""
    group: str = ""
    """The name under which ``routes.deny`` knows all rows of a resource."""
    preferred: bool = False
    """The path is this family's where nothing says whose it is and others have it too (contract 4.13)."""

    @cached_property
    def has_known_end(self) -> bool:
        """Whether its streams are those of the dialect, whose last event is known."""
        return self.metered and self.modality is Modality.TEXT

    @cached_property
    def family(self) -> Family:
        """The family of the clients that use this route."""
        return self.dialect.family

    @cached_property
    def default_family(self) -> Family:
        """The family whose default provider serves what names none."""
        return self.family if self.defaults_of is None else self.defaults_of

    # What is asked of every request is kept: to look up the member of an enum takes three times as long.

    @cached_property
    def is_local(self) -> bool:
        """Whether the gateway itself answers."""
        return self.treatment is Treatment.LOCAL

    @cached_property
    def is_spooled(self) -> bool:
        """Whether large bodies wait on disk."""
        return self.body is BodyStorage.SPOOL

    @cached_property
    def is_upload(self) -> bool:
        """Whether its response may tell where an upload goes on."""
        return self.url_rewrite is UrlRewrite.UPLOAD_URL

    @cached_property
    def names_one_model(self) -> bool:
        """Whether the one model stands at the top of a JSON body."""
        return self.model_at is ModelAt.BODY and not self.body_models

    @cached_property
    def may_name_models(self) -> bool:
        """Whether a request may name a model anywhere."""
        return self.model_at is not ModelAt.NOWHERE or bool(self.body_models) or self.query_model

    @cached_property
    def is_remembered(self) -> bool:
        """Whether the memo keeps its targets: head and model decide all that goes upstream but the body."""
        at_top = self.model_at in (ModelAt.BODY, ModelAt.PATH) and not self.body_models
        is_relayed = self.url_rewrite is None and self.treatment is not Treatment.SPEECH
        return at_top and is_relayed and self.method == "POST"

    @cached_property
    def is_rewritable(self) -> bool:
        """Whether the profile of subscription credentials may change more in its requests than the model."""
        return self.dialect in _REWRITABLE and self.names_one_model and self.method == "POST"

    @cached_property
    def repeatable(self) -> bool:
        """Whether sending it twice creates nothing (contract 2.13: the retry that needs no setting)."""
        return self.method in ("GET", "HEAD") or self.modality in (Modality.TEXT, Modality.EMBEDDING)


Path = tuple[str | None, ...]

MODEL_LIST: Final[Path] = ("models", None)
"""OpenRouter's list of models, the next of which is asked where one before it fails."""

MESSAGE_MODELS: Final[tuple[Path, ...]] = (MODEL_LIST, ("fallbacks", None, "model"), ("tools", None, "model"))
"""The models that a message of Anthropic's falls back to, and those of tools such as the advisor."""
