"""The type of a row of the route table."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from mgw.vocabulary import Dialect, Family, Modality


class ModelAt(StrEnum):
    """Where a request names its model."""

    BODY = "body"
    PATH = "path"
    QUERY = "query"
    FORM = "form"
    BATCH = "batch"
    NOWHERE = "nowhere"


class Treatment(StrEnum):
    """How a route is handled."""

    RELAY = "relay"
    """Same family only, byte for byte."""
    CONVERSE = "converse"
    """A conversation: relayed within the family, translated across."""
    EMBED = "embed"
    SPEAK = "speak"
    COUNT = "count"
    """A token count."""
    REALTIME = "realtime"
    OWN = "own"
    """Answered by the gateway itself."""
    REFUSE = "refuse"


class BodyKept(StrEnum):
    """Where a request body waits until it goes upstream."""

    MEMORY = "memory"
    SPOOL = "spool"


class Route(Struct, frozen=True):
    """One row: what a path is, and how it is handled.

    ``path`` is a template; ``{model}`` stands for one or more segments.  Gemini's rows are written with
    ``/v1beta`` and served under each of :data:`mgw.routing.match.GEMINI_VERSIONS`.
    """

    name: str
    method: str
    path: str
    dialect: Dialect
    modality: Modality
    model_at: ModelAt
    treatment: Treatment
    body: BodyKept = BodyKept.MEMORY
    upstream_path: str | None = None
    """The path below the provider's base address; ``None``: the client's own without its version prefix."""
    upstream_version: str | None = None
    """A version segment in place of the base address's own (``beta`` for ``/beta/completions``)."""
    body_models: tuple[str | None, ...] = ()
    """Where the body repeats the model of the path (a :data:`mgw.wire.nested.Path`)."""
    in_pieces: bool = False
    """Its answer is a JSON array that arrives piece by piece, where it is no event stream."""
    model_optional: bool = False
    """The vendor has a model of its own where the request names none."""
    translated_for: frozenset[Family] = frozenset()
    """The other families whose providers the specification has serve this route, by translation."""

    @property
    def family(self) -> Family:
        """The family of the clients that use this route."""
        return self.dialect.family

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice creates nothing (decisions, part 2: the retry that needs no setting)."""
        return self.method in ("GET", "HEAD") or self.modality in (Modality.TEXT, Modality.EMBEDDING)
