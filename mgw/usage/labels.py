"""What is the same for every exchange of one route, target, credential and client.

The exchanges of a process share their labels, which are rendered once for each form of an event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec import Raw

from mgw.clients.client import Client
from mgw.nouns.secret import DIGEST_PREFIX
from mgw.nouns.vocabulary import Modality
from mgw.routing.route import Route, Treatment
from mgw.routing.routes import ROUTES
from mgw.usage.tariff import LabelPrice

MAX_SHARED_CHARS: Final = 256
"""Labels with a longer name of a model are kept for no other exchange."""
NO_CLIENT: Final = "none"
OTHER_CLIENT: Final = "other"
_MODELS: Final = "models/"
"""Begins models in Gemini's bodies and messages and is sent on; paths name the same models without it."""
UNMETERED: Final = frozenset(
    route.name for route in ROUTES if not route.metered and route.modality is not Modality.PLATFORM
)
"""Routes of models whose answers tell nothing of what they took, as those that count tokens do."""


@dataclass(slots=True, eq=False, repr=False)
class ExchangeLabels:
    """What an event says of a route, a target and a credential."""

    dialect: str
    route: str
    provider: str | None
    model: str | None
    upstream_model: str | None
    modality: str
    transport: Literal["http", "websocket"]
    key_hash: str | None
    client: str | None = None
    client_groups: tuple[str, ...] | None = None
    tags: dict[str, str] | None = None
    issuer: str | None = None
    """The name of the entry of the client's token; ``None``: it has a key."""
    client_label: str = field(init=False)
    """The client in metrics: its name, if a key has one; the issuer's; or a word that says what it is."""
    is_long: bool = field(init=False)
    """Whether they have a name that is too long to be kept for others."""
    consumes: bool = field(init=False)
    """Whether an exchange takes something of a model that has tokens or a price."""
    json_text: Raw | None = field(default=None, init=False)
    """The fields above up to the transport, as :func:`encode_settled` writes them; ``None`` until it does."""
    client_json: tuple[Raw | None, Raw | None] | None = field(default=None, init=False)
    """The client's groups and tags as JSON, likewise."""
    log_text: tuple[str, str] | None = field(default=None, init=False)
    """The same, and the key's hash, the client, its groups and its tags, as :mod:`mgw.ops.logs` writes
    them."""
    is_shown: bool | None = field(default=None, init=False)
    """Whether the log may show them as they are; ``None`` until :mod:`mgw.ops.json_lines` has looked."""
    shown: ExchangeLabels | None = field(default=None, init=False)
    """What the log shows in their place, where it may not."""
    price: LabelPrice | None = field(default=None, init=False)
    """What the model costs; ``None`` until the table of prices was asked."""

    def __post_init__(self) -> None:
        client = self.client
        is_named = client is not None and not client.startswith(DIGEST_PREFIX)
        name = NO_CLIENT if client is None else client if is_named else OTHER_CLIENT
        self.client_label = self.issuer or name
        self.is_long = self.model is not None and len(self.model) > MAX_SHARED_CHARS
        self.consumes = consumes(self.provider, self.modality, self.route)


def consumes(provider: str | None, modality: str, route: str) -> bool:
    """Whether requests like this one take something of a model that has tokens or a price."""
    return provider is not None and modality != Modality.PLATFORM.value and route not in UNMETERED


def labels_of(
    route: Route,
    provider: str | None,
    model: str | None,
    upstream_model: str | None,
    key_hash: str | None,
    client: Client | None = None,
) -> ExchangeLabels:
    """Return new labels; exchanges get those that :class:`~mgw.memo.request_memo.RequestMemo` keeps."""
    if upstream_model is not None:
        upstream_model = upstream_model.removeprefix(_MODELS)
    return ExchangeLabels(
        route.family.value,
        route.name,
        provider,
        model,
        upstream_model,
        route.modality.value,
        "websocket" if route.treatment is Treatment.REALTIME else "http",
        key_hash,
        None if client is None else client.name,
        None if client is None else client.groups or None,
        None if client is None else dict(client.tags) or None,
        None if client is None else client.issuer,
    )
