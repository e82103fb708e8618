"""A row of the route table."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.nouns.vocabulary import DialectName, Family, Modality, Operation, TextApi
from mgw.routing.model_source import ModelAt, ModelSource


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


class Call(Struct, frozen=True):
    """Where a request goes upstream, where that is not the client's own path below the base address."""

    path: str | None = None
    """The path below the base address; ``None``: the client's own without its version prefix."""
    version: str = ""
    """A version segment in place of the base address's own (``beta`` for ``/beta/completions``)."""
    prefix: str = ""
    """What stands before the path of the base address (``/upload``)."""
    verb: str | None = None
    """A verb in place of the one behind the model (``generateContent`` for ``generateSpeech``)."""
    from_origin: bool = False
    """The path is below the origin of the base address, not below the base address."""


_SAME_PATH: Final = Call()
_OPERATIONS: Final = MappingProxyType(
    {
        Treatment.CHAT: Operation.CHAT,
        Treatment.COUNT: Operation.COUNT,
        Treatment.EMBED: Operation.EMBED,
        Treatment.SPEECH: Operation.SPEECH,
    }
)
ANY_METHOD = "*"


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
    models: ModelSource
    treatment: Treatment
    body: BodyStorage = BodyStorage.MEMORY
    call: Call = _SAME_PATH
    in_pieces: bool = False
    """Whether its answer is a JSON array that arrives piece by piece, where it is no event stream."""
    translated_for: frozenset[Family] = frozenset()
    """The other families whose providers serve this route, by translation (contract 4.7)."""
    text_api: TextApi | None = None
    """What a provider of the client's own family must serve to get the request as it came (contract 11.1)."""
    unstored: bytes | None = None
    """What is in the path of anything that the gateway itself made and does not store (contract 11.2)."""
    defaults_of: Family | None = None
    """The family whose default provider takes bare models, where providers of the client's own family do not
    serve the route."""
    metered: bool = True
    """Whether its answer may tell the tokens of this request."""
    max_body_bytes: int | None = None
    """A limit of the route's own, below the configured one."""
    url_rewrite: UrlRewrite | None = None
    group: str = ""
    """The name under which ``routes.deny`` knows all rows of a resource."""
    preferred: bool = False
    """The path is this family's where nothing says whose it is and others have it too (contract 4.13)."""
    counts_messages: bool = False
    """Whether not its sessions are requests of the client's limits, but each message for a response."""
    answers_in_text: bool = False
    """Whether a model writes what it answers, where the treatment does not say so."""
    hides_cost: bool = False
    """Whether it starts work at a cost that no response reports: a job, or a session elsewhere."""

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

    @cached_property
    def native(self) -> bool:
        """Whether providers of the client's own family serve it."""
        return self.defaults_of is None

    @cached_property
    def operation(self) -> Operation:
        """What a provider is asked for."""
        return _OPERATIONS.get(self.treatment, Operation.RELAY)

    # What is asked of every request is kept: to look up the member of an enum takes three times as long.

    @cached_property
    def is_local(self) -> bool:
        """Whether the gateway itself answers."""
        return self.treatment is Treatment.LOCAL

    @cached_property
    def is_request(self) -> bool:
        """Whether what asks for it is itself a request of the client's limits."""
        return self.treatment is not Treatment.COUNT and not self.counts_messages

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
        return self.models.at is ModelAt.BODY and not self.models.paths

    @cached_property
    def may_name_models(self) -> bool:
        """Whether a request may name a model anywhere."""
        models = self.models
        return models.at is not ModelAt.NOWHERE or bool(models.paths) or models.in_query

    @cached_property
    def is_remembered(self) -> bool:
        """Whether the memo keeps its targets: head and model decide all that goes upstream but the body."""
        models = self.models
        at_top = models.at in (ModelAt.BODY, ModelAt.PATH) and not models.paths
        is_relayed = self.url_rewrite is None and self.treatment is not Treatment.SPEECH
        return at_top and is_relayed and self.method == "POST"

    @cached_property
    def is_rewritable(self) -> bool:
        """Whether the profile of subscription credentials may change more in its requests than the model.

        Its dialect says what (:class:`mgw.dialects.dialect.Rewriting`).
        """
        return self.names_one_model and self.method == "POST"

    @cached_property
    def repeatable(self) -> bool:
        """Whether sending it twice creates nothing (contract 2.13: the retry that needs no setting)."""
        return self.method in ("GET", "HEAD") or self.modality in (Modality.TEXT, Modality.EMBEDDING)
