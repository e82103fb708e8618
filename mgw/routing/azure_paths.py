"""Azure's paths for OpenAI's rows: with a deployment before what the row has, or without (contract 4.27).

::

    /openai/v1/{rest}                       /v1/{rest}
    /openai/{rest}                          /v1/{rest}
    /openai/deployments/{model}/{rest}      /v1/{rest}, where the path says which model is asked for

Sources: Azure OpenAI's REST reference; ``lib/azure.py`` of OpenAI's SDK, which writes these paths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from mgw.nouns.vocabulary import Family
from mgw.routing.model_source import ModelAt
from mgw.routing.route import Route, Treatment

AZURE_PREFIX: Final = "/openai/"
_V1: Final = "/openai/v1/"
_DEPLOYMENTS: Final = "/openai/deployments/"
_LISTS: Final = frozenset({"openai_models", "openai_model"})
_IN_BODY: Final = frozenset({ModelAt.BODY, ModelAt.FORM})
_MODEL_PART: Final = "model"


class AzurePath(Struct, frozen=True):
    """One of Azure's paths, taken apart."""

    own: str
    """The path of OpenAI's row."""
    version: str
    """What stands before that in place of ``/v1``."""
    raw_model: str | None = None
    """The model that it names, as sent."""


def find_azure_path(raw_path: str, serves_deployments: Callable[[str], bool]) -> AzurePath | None:
    """Take a path apart that begins with :data:`AZURE_PREFIX`; ``None``: it names a model for nothing.

    The name of a model may have slashes: it is the shortest one behind which a row follows.

    :param serves_deployments: whether the path of a row may follow a model.
    """
    if raw_path.startswith(_DEPLOYMENTS):
        start = len(_DEPLOYMENTS)
        end = -1 if raw_path.startswith("/", start) else raw_path.find("/", start)
        while end >= 0:
            if serves_deployments(own := "/v1" + raw_path[end:]):
                return AzurePath(own, raw_path[:end], raw_path[start:end])
            end = raw_path.find("/", end + 1)
        return None
    before = _V1 if raw_path.startswith(_V1) else AZURE_PREFIX
    return AzurePath("/v1/" + raw_path[len(before) :], before[:-1])


def is_served_to_azure(route: Route) -> bool:
    """Whether a row has these paths, too: each of OpenAI's but for sessions and what is for operators."""
    if route.is_local:
        return route.name in _LISTS
    is_session = route.treatment is Treatment.REALTIME
    return route.family is Family.OPENAI and not is_session and route.path.startswith("/v1/")


def names_deployment(route: Route) -> bool:
    """Whether the body of a request to a row names one model, which a path may name in its place."""
    return route.models.at in _IN_BODY and route.models.form_part == _MODEL_PART
