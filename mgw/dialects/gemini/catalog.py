"""The catalog as Google's clients read it, and Google's own list.

An entry is the SDK's ``Model``, and they come in pages as ``models.list`` has them.

Source: the Gemini API's reference of ``models.list``: ``pageSize`` is 50 where absent or 0, and a larger one
than 1000 counts as 1000; ``pageToken`` is what the page before handed out.  The token is opaque to clients
and holds the id after which the next page begins, so the gateway keeps nothing.  Vertex calls its list
``publisherModels`` and writes ``publishers/google/models/…`` for each (the SDK's ``t_extract_models``).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Decoder, Encoder

from mgw.canonical.catalog import CatalogEntry, ListedModel, ModelMetadata
from mgw.dialects.dialect import ModelLister, ModelPage
from mgw.dialects.paging import parse_page_size, read_list
from mgw.nouns.errors import GatewayError, Reason

DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 1000
_VERSION: Final = "001"
"""Google's name of a model's first version; the field is required and the catalog knows none."""
_METHODS: Final = (
    ("chat", ("generateContent", "streamGenerateContent", "countTokens")),
    ("realtime", ("bidiGenerateContent",)),
)
"""The methods that follow from each capability."""


class _Model(Struct, frozen=True, rename="camel", kw_only=True):
    name: str
    version: str = _VERSION
    display_name: str
    supported_generation_methods: list[str]
    capabilities: Mapping[str, bool]
    description: str | UnsetType = UNSET
    input_token_limit: int | UnsetType = UNSET
    output_token_limit: int | UnsetType = UNSET


class _Page(Struct, frozen=True, rename="camel", omit_defaults=True):
    models: list[_Model]
    next_page_token: str | None = None


class _Listed(Struct, frozen=True, rename="camel"):
    name: str
    display_name: str | None = None


class _List(Struct, frozen=True, rename="camel"):
    models: list[_Listed] = []
    publisher_models: list[_Listed] = []
    next_page_token: str | None = None


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder(_List)
_NO_METADATA: Final = ModelMetadata()
_PREFIX: Final = re.compile("^(?:publishers/[^/]+/)?models/")


def render_list(entries: Sequence[CatalogEntry], query: Mapping[str, str]) -> bytes:
    """Return the page that ``pageSize`` and ``pageToken`` ask for.

    :raises GatewayError: a size that is no number, a token that this list did not hand out.
    """
    size = parse_page_size(query, "pageSize", default=DEFAULT_PAGE_SIZE, highest=None, lowest=0)
    size = min(size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
    token = query.get("pageToken")
    start = _find_start(entries, token) if token else 0
    shown = entries[start : start + size]
    more = start + size < len(entries)
    return _ENCODER.encode(
        _Page([_render_model(entry) for entry in shown], _render_token(shown[-1]) if more else None)
    )


def render_entry(entry: CatalogEntry) -> bytes:
    """Return one entry."""
    return _ENCODER.encode(_render_model(entry))


def _render_model(entry: CatalogEntry) -> _Model:
    methods = [name for capability, names in _METHODS if entry.capabilities.get(capability) for name in names]
    model = entry.id.removeprefix("models/")  # the id may be what the client asked for
    said = entry.metadata or _NO_METADATA
    return _Model(
        name=f"models/{model}",
        display_name=entry.shown_name or model,
        supported_generation_methods=methods,
        capabilities=entry.capabilities,
        description=said.description or UNSET,
        input_token_limit=said.context_window or UNSET,
        output_token_limit=said.max_output or UNSET,
    )


def _render_token(last: CatalogEntry) -> str:
    return urlsafe_b64encode(last.id.encode()).decode()


def _find_start(entries: Sequence[CatalogEntry], token: str) -> int:
    """Return where the page begins that ``token`` stands for."""
    for place, entry in enumerate(entries):
        if _render_token(entry) == token:
            return place + 1
    raise GatewayError(
        Reason.MALFORMED, "this pageToken is not from this list; start again without one", param="pageToken"
    )


def _render_query(size: int, page: str | None) -> str:
    return urlencode({"pageSize": size} if page is None else {"pageSize": size, "pageToken": page})


def _parse_page(body: bytes) -> ModelPage:
    found = read_list(_DECODER, body)
    models = [
        ListedModel(_PREFIX.sub("", model.name, count=1), None, model.display_name or None)
        for model in (*found.models, *found.publisher_models)
    ]
    return ModelPage(models, found.next_page_token or None)


LISTER: Final = ModelLister(_render_query, _parse_page)
"""Google's list."""
