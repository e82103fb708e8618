"""The catalog as Anthropic's clients read it, in pages, and Anthropic's own list.

Sources: the SDK's ``ModelInfo``, ``ModelListParams`` (``limit`` from 1 to 1000, 20 by default; ``after_id``
and ``before_id`` name the entry next to which the page lies) and ``SyncPage``.  The gateway's booleans stand
under ``gateway_capabilities``, since ``capabilities`` has a shape of its own there (contract 4.17).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.catalog import CatalogEntry, ListedModel
from mgw.dialects.dialect import ModelLister, ModelPage
from mgw.dialects.paging import LAST_SECOND, parse_page_size, read_list, unix_seconds
from mgw.nouns.errors import GatewayError, Reason

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 1000


class _Model(Struct, frozen=True, kw_only=True):
    type: str = "model"
    id: str
    display_name: str
    created_at: str
    lifecycle: str = "active"
    line: None = None
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    deprecated_at: None = None
    retires_at: None = None
    capabilities: None = None
    gateway_capabilities: Mapping[str, bool]


class _Page(Struct, frozen=True, kw_only=True):
    data: list[_Model]
    has_more: bool
    first_id: str | None
    last_id: str | None


class _Listed(Struct, frozen=True):
    id: str
    display_name: str | None = None
    created_at: str | None = None


class _List(Struct, frozen=True):
    data: list[_Listed]
    has_more: bool | None = None
    last_id: str | None = None


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder(_List)


def _render_model(entry: CatalogEntry) -> _Model:
    created = datetime.fromtimestamp(min(max(entry.created, 0), LAST_SECOND), UTC)
    said = entry.metadata
    return _Model(
        id=entry.id,
        display_name=entry.shown_name or entry.id,
        max_input_tokens=None if said is None else said.context_window,
        max_tokens=None if said is None else said.max_output,
        created_at=created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        gateway_capabilities=entry.capabilities,
    )


def _find(entries: Sequence[CatalogEntry], cursor: str, param: str) -> int:
    for place, entry in enumerate(entries):
        if entry.id == cursor:
            return place
    raise GatewayError(Reason.MALFORMED, f"{param} is not a model in this list: {cursor!r}", param=param)


def _select(entries: Sequence[CatalogEntry], query: Mapping[str, str]) -> tuple[Sequence[CatalogEntry], bool]:
    """Return the entries that the query asks for, and whether there are more in its direction."""
    limit = parse_page_size(query, "limit", default=DEFAULT_LIMIT, highest=MAX_LIMIT)
    after, before = query.get("after_id"), query.get("before_id")
    if after and before:
        raise GatewayError(Reason.MALFORMED, "use after_id or before_id, not both", param="before_id")
    if before:
        end = _find(entries, before, "before_id")
        start = max(end - limit, 0)
        return entries[start:end], start > 0
    start = _find(entries, after, "after_id") + 1 if after else 0
    return entries[start : start + limit], start + limit < len(entries)


def render_list(entries: Sequence[CatalogEntry], query: Mapping[str, str]) -> bytes:
    """Return the page that ``limit``, ``after_id`` and ``before_id`` ask for.

    :raises GatewayError: a limit that is no number or out of its range, a cursor that names no entry.
    """
    shown, has_more = _select(entries, query)
    first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
    models = [_render_model(entry) for entry in shown]
    return _ENCODER.encode(_Page(data=models, has_more=has_more, first_id=first, last_id=last))


def render_entry(entry: CatalogEntry) -> bytes:
    """Return one entry."""
    return _ENCODER.encode(_render_model(entry))


def _render_query(size: int, page: str | None) -> str:
    return urlencode({"limit": size} if page is None else {"limit": size, "after_id": page})


def _parse_page(body: bytes) -> ModelPage:
    found = read_list(_DECODER, body)
    models = [
        ListedModel(model.id, _parse_created(model), model.display_name or None) for model in found.data
    ]
    if not found.has_more:
        return ModelPage(models)
    last = found.last_id or (models[-1].id if models else None)
    if last is None:
        raise ValueError("an empty page with more behind it")
    return ModelPage(models, last)


def _parse_created(model: _Listed) -> int | None:
    """Return the Unix seconds of ``created_at``, which is the epoch where the date is not known."""
    try:
        created = datetime.fromisoformat(model.created_at or "")
    except ValueError:
        return None
    return unix_seconds(created.replace(tzinfo=created.tzinfo or UTC).timestamp())


LISTER: Final = ModelLister(_render_query, _parse_page)
"""How Anthropic lists its models."""
