"""The catalog as OpenAI's clients read it, and the lists of hosts that speak OpenAI's API.

An entry is the SDK's ``Model``, with the ``capabilities`` of contract 4.17.  What an operator says about a
model has the names that OpenRouter (``name``, ``description``, ``context_length``) and Groq
(``max_completion_tokens``) give it.  Of what hosts list, only
the id is sure: some have no ``created``, or one that is no number of seconds; Ollama has had ``null`` for an
empty list, and Together's list is a bare array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Decoder, Encoder

from mgw.canonical.catalog import CatalogEntry, ListedModel, ModelMetadata
from mgw.dialects.dialect import ModelLister, ModelPage
from mgw.dialects.paging import read_list, unix_seconds


class _Model(Struct, frozen=True, kw_only=True):
    id: str
    object: str = "model"
    created: int
    owned_by: str
    capabilities: Mapping[str, bool]
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    context_length: int | UnsetType = UNSET
    max_completion_tokens: int | UnsetType = UNSET


class _Page(Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: list[_Model]
    models: tuple[()] | UnsetType = UNSET
    """Codex's own catalog, which stays as it is where this is empty."""


class _Listed(Struct, frozen=True):
    id: str
    created: Any = None  # Any: hosts write what they like
    name: Any = None  # Any: as above
    """Where OpenRouter and Together have what is shown to people."""
    display_name: Any = None  # Any: as above


class _List(Struct, frozen=True):
    data: list[_Listed] | None = None


CODEX_PARAMETER: Final = "client_version"
"""What Codex asks with; it takes a list without ``models`` for an error, and asks again."""
_NO_METADATA: Final = ModelMetadata()
_ENCODER: Final = Encoder()
_DECODER: Final[Decoder[_List | list[_Listed]]] = Decoder(_List | list[_Listed])


def _model(entry: CatalogEntry) -> _Model:
    said = entry.metadata or _NO_METADATA
    return _Model(
        id=entry.id,
        created=entry.created,
        owned_by=entry.owned_by,
        capabilities=entry.capabilities,
        name=said.display_name or UNSET,
        description=said.description or UNSET,
        context_length=said.context_window or UNSET,
        max_completion_tokens=said.max_output or UNSET,
    )


def render_list(entries: Sequence[CatalogEntry], query: Mapping[str, str]) -> bytes:
    """Return all entries; this list has no pages."""
    models = () if CODEX_PARAMETER in query else UNSET
    return _ENCODER.encode(_Page(data=[_model(entry) for entry in entries], models=models))


def render_entry(entry: CatalogEntry) -> bytes:
    """Return one entry."""
    return _ENCODER.encode(_model(entry))


def _query(size: int, page: str | None) -> str:  # noqa: ARG001
    """Return nothing: the list is whole."""
    return ""


def _read(body: bytes) -> ModelPage:
    found = read_list(_DECODER, body)
    listed = found if isinstance(found, list) else found.data or []
    return ModelPage([_listed(model) for model in listed])


def _listed(model: _Listed) -> ListedModel:
    created = model.created if isinstance(model.created, (int, float)) else None
    names = (model.display_name, model.name)
    shown = next((name for name in names if name and isinstance(name, str)), None)
    return ListedModel(model.id, unix_seconds(created), shown)


LISTER: Final = ModelLister(_query, _read)
"""The host's list, which has no pages."""
