"""What every dialect brings: the words of its refusals, its meter and its model list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from mgw.canonical.catalog import CatalogEntry, ListedModel
from mgw.canonical.reply import TokenUsage
from mgw.dialects.translator import Translator
from mgw.errors import GatewayError
from mgw.vocabulary import Dialect


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


class ModelPage(Struct, frozen=True):
    """One page of an upstream's own model list."""

    models: Sequence[ListedModel]
    next_page: str | None = None
    """What the next page is asked for with; ``None``: this is the last."""


class ModelLister(Struct, frozen=True):
    """How an upstream of this wire is asked for its models, at ``/models`` below its base address."""

    query: Callable[[int, str | None], str]
    """From how many models a page may hold, and what the page before said of the next, to the query."""
    read: Callable[[bytes], ModelPage]
    """The body of an answer; raises ``ValueError`` where it is no such list."""


class Codec(Struct, frozen=True):
    """One dialect's side of a same-family exchange."""

    dialect: Dialect
    error_body: Callable[[GatewayError, str], bytes]
    """A refusal and the gateway's request id, as the JSON body that this dialect's clients read."""
    meter: Callable[[bytes], Meter]
    """A fresh meter for a response of this ``Content-Type``; a blind one where nothing can be read."""
    render_list: Callable[[Sequence[CatalogEntry], Mapping[str, str]], bytes]
    """The catalog as the client's query asks for it; a query that asks wrongly raises ``GatewayError``."""
    render_entry: Callable[[CatalogEntry], bytes]
    """One entry of the catalog."""
    lister: ModelLister
    """How upstreams that speak it list their models."""
    sign_of_life: bytes
    """What may stand between two events of a stream and means nothing (decisions, part 2)."""
    translator: Translator | None = None
    """Its side of a translation; ``None``: it has none."""
