"""A row of the route table, and a short notation for rows of vendor resources.

Vendors' resources differ in little but their paths.  A :class:`Resource` is a path with the methods that it
takes; :func:`routes_of` makes a row of the table of each.  Rows are named after the words of their path and
what the method does there: ``files_list``, ``vector_stores_files_retrieve``, ``anthropic_agents_archive``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.nouns.families import FAMILIES
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


class Resource(Struct, frozen=True):
    """One path of a vendor's, with all methods that it takes there."""

    path: str
    methods: str
    """The methods, with blanks between them."""
    models: tuple[Path, ...] = ()
    """Where the JSON body of what creates or changes something may name models."""
    model_at: ModelAt = ModelAt.NOWHERE
    """Where else than in a JSON body a model stands."""
    modality: Modality = Modality.PLATFORM
    metered: bool = False
    """Whether an answer to what is posted, or else to what is fetched, tells the tokens of this request."""
    max_body_bytes: int | None = None
    url_rewrite: UrlRewrite | None = None
    preferred: bool = False
    upstream_prefix: str = ""
    translated_for: frozenset[Family] = frozenset()
    form_part: str = "model"
    """The part of a form that names the model, or that holds the JSON in which ``models`` are."""
    query_model: bool = False
    """Whether the query may name the model; like the next two as in :class:`Route`."""
    unstored: bytes | None = None
    other_models: tuple[Path, ...] = ()


_CHANGING: Final = frozenset({"POST", "PUT", "PATCH"})
_ON_AN_ITEM: Final = MappingProxyType(
    {"GET": "retrieve", "POST": "update", "PATCH": "patch", "PUT": "replace", "DELETE": "delete"}
)
_ON_A_COLLECTION: Final = MappingProxyType(
    {"GET": "list", "POST": "create", "PATCH": "patch", "PUT": "replace", "DELETE": "delete"}
)
_VERSION: Final = re.compile(r"^(?:/upload)?/v1(?:beta)?/")
_OF_A_MODEL: Final = re.compile(r"/models/[^/]+:")
_GROUPS: Final = MappingProxyType(
    {"chat": "stored_completions", "responses": "stored_responses", "messages": "message_batches"}
)
"""Resources that would share their name with the row of a text route."""
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def routes_of(dialect: DialectName, resources: Sequence[Resource]) -> tuple[Route, ...]:
    """Return the rows of a vendor's resources, in order."""
    collections = {above for resource in resources for above in _above(resource.path)}
    return tuple(
        _row(dialect, resource, method, is_collection=resource.path in collections)
        for resource in resources
        for method in resource.methods.split()
    )


def _above(path: str) -> list[str]:
    """Return every path that another one stands below."""
    segments = path.split("/")
    return ["/".join(segments[:count]) for count in range(2, len(segments))]


def _row(dialect: DialectName, resource: Resource, method: str, *, is_collection: bool) -> Route:
    changing = method in _CHANGING
    model_at, models = resource.model_at, resource.models if changing else ()
    if models and model_at is ModelAt.NOWHERE:
        model_at = ModelAt.BODY
    elif not changing and model_at is not ModelAt.PATH:
        model_at = ModelAt.NOWHERE
    looked_at = model_at in (ModelAt.BODY, ModelAt.BATCH) or (models and model_at is ModelAt.PATH)
    name = _name_of(resource, method, is_collection=is_collection)
    return Route(
        name=FAMILIES[dialect.family].route_prefix + name,
        method=method,
        path=resource.path,
        dialect=dialect,
        modality=resource.modality,
        model_at=model_at,
        treatment=Treatment.RELAY,
        body=BodyStorage.SPOOL if changing and not looked_at else BodyStorage.MEMORY,
        upstream_prefix=resource.upstream_prefix,
        body_models=models,
        other_models=resource.other_models if changing else (),
        form_part=resource.form_part,
        query_model=resource.query_model and changing,
        model_optional=model_at is not ModelAt.PATH,
        translated_for=resource.translated_for,
        unstored=resource.unstored,
        metered=resource.metered and (changing or "POST" not in resource.methods),
        max_body_bytes=resource.max_body_bytes,
        url_rewrite=resource.url_rewrite,
        group=group_of(resource.path),
        preferred=resource.preferred,
    )


def group_of(path: str) -> str:
    """Return the name of the resource that a path belongs to: its first word behind the version.

    What a model is asked for belongs to none.
    """
    if _OF_A_MODEL.search(path):
        return ""
    first = _VERSION.sub("", path).lstrip("/").partition("/")[0].partition(":")[0]
    if not first or first.startswith("{"):
        return ""
    return _GROUPS.get(first, _snake(first))


def _name_of(resource: Resource, method: str, *, is_collection: bool) -> str:
    path = _VERSION.sub("", resource.path)
    uploads = "upload_" if resource.path.startswith("/upload/") else ""
    words = [_snake(word) for word in re.split("[/:]", path) if word and not word.startswith("{")]
    name = uploads + "_".join(words)
    if path.endswith("}"):
        return f"{name}_{_ON_AN_ITEM[method]}"
    if is_collection or " " in resource.methods:
        return f"{name}_{_ON_A_COLLECTION[method]}"
    return name


def _snake(word: str) -> str:
    return _CAMEL.sub("_", word).replace("-", "_").lower()
