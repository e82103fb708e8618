"""A short notation for rows of vendor resources.

Vendors' resources differ in little but their paths.  A :class:`Resource` is a path with the methods that it
takes; :func:`routes_of` makes a row of the table of each.  Rows are named after the words of their path and
what the method does there: ``files_list``, ``vector_stores_files_retrieve``, ``anthropic_agents_archive``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mgw.nouns.families import FAMILIES
from mgw.nouns.vocabulary import DialectName, Modality
from mgw.routing.model_source import IN_PATH, NOWHERE, ModelAt, ModelSource
from mgw.routing.route import BodyStorage, Call, Route, Treatment, UrlRewrite


class Resource(Struct, frozen=True):
    """One path of a vendor's, with all methods that it takes there."""

    path: str
    methods: str
    """The methods, with blanks between them."""
    models: ModelSource = NOWHERE
    """Where requests that create or change something may name models; the others name one in the path."""
    modality: Modality = Modality.PLATFORM
    metered: bool = False
    """Whether an answer to what is posted, or else to what is fetched, tells the tokens of this request."""
    max_body_bytes: int | None = None
    url_rewrite: UrlRewrite | None = None
    preferred: bool = False
    call: Call = Call()
    unstored: bytes | None = None
    """As in :class:`~mgw.routing.route.Route`."""
    answers_in_text: bool = False
    """As in :class:`~mgw.routing.route.Route`."""
    hides_cost: bool = False
    """Whether what is posted or changed starts work at a cost that no response reports."""


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
    models = _models_of(resource, changing=changing)
    is_read = models.at in (ModelAt.BODY, ModelAt.BATCH) or (models.paths and models.at is ModelAt.PATH)
    name = _name_of(resource, method, is_collection=is_collection)
    return Route(
        name=FAMILIES[dialect.family].route_prefix + name,
        method=method,
        path=resource.path,
        dialect=dialect,
        modality=resource.modality,
        models=models,
        treatment=Treatment.RELAY,
        body=BodyStorage.SPOOL if changing and not is_read else BodyStorage.MEMORY,
        call=resource.call,
        unstored=resource.unstored,
        metered=resource.metered and (changing or "POST" not in resource.methods),
        max_body_bytes=resource.max_body_bytes,
        url_rewrite=resource.url_rewrite,
        group=group_of(resource.path),
        preferred=resource.preferred,
        answers_in_text=resource.answers_in_text and method == "POST",
        hides_cost=resource.hides_cost and changing,
    )


def _models_of(resource: Resource, *, changing: bool) -> ModelSource:
    """Return where requests of one method name models: what changes nothing has no body."""
    in_path = resource.models.at is ModelAt.PATH
    unchanging = IN_PATH if in_path else NOWHERE
    return replace(resource.models if changing else unchanging, optional=not in_path)


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
