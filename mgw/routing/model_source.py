"""Where a request names its model, and the notation in which rows of the route table say it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

Path = tuple[str | None, ...]
"""A place in JSON, as :data:`mgw.wire.json_spans.Path` has it: ``None`` stands for each element of a list."""


class ModelAt(StrEnum):
    """Where a request names its model."""

    BODY = "body"
    """The model is at the top of a JSON body, or where :attr:`ModelSource.paths` says."""
    PATH = "path"
    QUERY = "query"
    FORM = "form"
    """The model is in the part ``model`` of a form, or at the top of the JSON that some clients send."""
    MESSAGE = "message"
    """The model is in the first message of a WebSocket, where :attr:`ModelSource.paths` says."""
    BATCH = "batch"
    """Each request of a batch has one, where :attr:`ModelSource.paths` says; none chooses the provider."""
    NOWHERE = "nowhere"


class ModelSource(Struct, frozen=True):
    """All places where requests of a route may name models."""

    at: ModelAt
    paths: tuple[Path, ...] = ()
    """Where the body names models; with ``ModelAt.PATH``: where it repeats the model of the path.  Of a
    WebSocket it is the messages that do."""
    others: tuple[Path, ...] = ()
    """Where a JSON body may name further models, which the provider uses in place of the one or beside it."""
    form_part: str = "model"
    """The part of a form that names the model, or that holds the JSON of ``paths``."""
    in_query: bool = False
    """The query may name the model where the body names none."""
    optional: bool = False
    """The request may name no model: then the client says which provider it means, or the default serves."""
    instead: str | None = None
    """A parameter of the query that stands for a model: what it names has one already."""


NOWHERE: Final = ModelSource(ModelAt.NOWHERE)
IN_BODY: Final = ModelSource(ModelAt.BODY)
IN_PATH: Final = ModelSource(ModelAt.PATH)
IN_QUERY: Final = ModelSource(ModelAt.QUERY)
IN_FORM: Final = ModelSource(ModelAt.FORM)


def in_body(*paths: Path) -> ModelSource:
    """Return where JSON bodies name models that need not be at the top."""
    return ModelSource(ModelAt.BODY, paths)


MODEL_LIST: Final[Path] = ("models", None)
"""OpenRouter's list of models, the next of which is asked where one before it fails."""

MESSAGE_MODELS: Final[tuple[Path, ...]] = (MODEL_LIST, ("fallbacks", None, "model"), ("tools", None, "model"))
"""The models that a message of Anthropic's falls back to, and those of tools such as the advisor."""
