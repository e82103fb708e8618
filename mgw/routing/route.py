"""The type of a row of the route table."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from mgw.vocabulary import DialectName, Family, Modality


class ModelAt(StrEnum):
    """Where a request names its model."""

    BODY = "body"
    """At the top of a JSON body, or where :attr:`Route.body_models` says."""
    PATH = "path"
    QUERY = "query"
    FORM = "form"
    """In the part ``model`` of a form, or at the top of the JSON body that some clients send instead."""
    BATCH = "batch"
    """In each request of a batch, where :attr:`Route.body_models` says; none of them chooses the provider."""
    NOWHERE = "nowhere"


class Treatment(StrEnum):
    """How a route is handled."""

    RELAY = "relay"
    """Same family only, byte for byte."""
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


class BodyKept(StrEnum):
    """Where a request body waits until it goes upstream."""

    MEMORY = "memory"
    SPOOL = "spool"
    """On disk, where it is large."""


class UrlRewrite(StrEnum):
    """Addresses in a response that lead past the gateway and are rewritten to it (contract 4.22)."""

    UPLOAD_URL = "upload_url"
    """The headers that tell where an upload goes on: ``X-Goog-Upload-URL`` and its like."""
    RESULTS_URL = "results_url"
    """Each ``results_url`` of message batches."""


ANY_METHOD = "*"


class Route(Struct, frozen=True):
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
    body: BodyKept = BodyKept.MEMORY
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
    repeats the model of the path."""
    form_part: str = "model"
    """With ``ModelAt.FORM``: the part that names the model, or that holds the JSON of ``body_models``."""
    in_pieces: bool = False
    """Its answer is a JSON array that arrives piece by piece, where it is no event stream."""
    model_optional: bool = False
    """The request may name no model: then the client says which provider it means, or the default serves."""
    translated_for: frozenset[Family] = frozenset()
    """The other families whose providers serve this route, by translation (contract 4.7)."""
    native: bool = True
    """Whether providers of the client's own family serve it as well."""
    defaults_of: Family | None = None
    """The family whose default provider takes bare models; ``None``: the client's own."""
    metered: bool = True
    """Whether its answer may tell the tokens of this request."""
    max_body_bytes: int | None = None
    """A limit of the route's own, below the configured one."""
    url_rewrite: UrlRewrite | None = None
    group: str = ""
    """The name under which ``routes.deny`` knows all rows of a resource."""
    preferred: bool = False
    """The path is this family's where nothing says whose it is and others have it too (contract 4.13)."""

    @property
    def family(self) -> Family:
        """The family of the clients that use this route."""
        return self.dialect.family

    @property
    def default_family(self) -> Family:
        """The family whose default provider serves what names none."""
        return self.family if self.defaults_of is None else self.defaults_of

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice creates nothing (contract 2.13: the retry that needs no setting)."""
        return self.method in ("GET", "HEAD") or self.modality in (Modality.TEXT, Modality.EMBEDDING)
