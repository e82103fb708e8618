"""The WebSocket routes (contract 10.1).

Where the model is in a message, the path is the one that the vendor's SDK dials.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from mgw.nouns.vocabulary import DialectName, Modality
from mgw.routing.model_source import IN_QUERY, ModelAt, ModelSource
from mgw.routing.route import Call, Route, Treatment

_SERVICE: Final = "/ws/google.ai.generativelanguage.{version}.GenerativeService.{method}"
_VERSIONS: Final = ("v1beta", "v1", "v1alpha")
_METHODS: Final = (
    ("gemini_live", "BidiGenerateContent"),
    ("gemini_live_constrained", "BidiGenerateContentConstrained"),
)
_session: Final = partial(
    Route, method="GET", modality=Modality.REALTIME, treatment=Treatment.REALTIME, group="realtime"
)
_INTERACTION_MODELS: Final = tuple(
    (*above, *below) for above in ((), ("events", None)) for below in (("model",), ("interaction", "model"))
)
"""The models in an event that creates an interaction; a message is one event, or has several."""
_openai: Final = partial(_session, dialect=DialectName.OPENAI)
_responses: Final = partial(_session, dialect=DialectName.OPENAI_RESPONSES, counts_messages=True)
_gemini: Final = partial(_session, dialect=DialectName.GEMINI)
_OPTIONAL: Final = ModelSource(ModelAt.NOWHERE, optional=True)
_IN_SETUP: Final = (("setup", "model"),)

REALTIME_ROUTES: Final = (
    _openai(
        name="realtime_ws",
        path="/v1/realtime",
        models=ModelSource(ModelAt.QUERY, (("session", "model"),), instead="call_id"),
    ),
    _openai(name="realtime_translations_ws", path="/v1/realtime/translations", models=IN_QUERY),
    _openai(name="live_ws", path="/v1/live/sessions", models=_OPTIONAL),
    _openai(name="live_attach", path="/v1/live/sessions/{session_id}/attach", models=_OPTIONAL),
    _openai(name="live_fork", path="/v1/live/sessions/{session_id}/fork", models=_OPTIONAL),
    _responses(
        name="responses_ws",
        path="/v1/responses/ws",
        models=ModelSource(ModelAt.QUERY, (("model",),)),
        call=Call("/responses"),
    ),
    _responses(
        name="responses_upgrade",
        path="/v1/responses",
        models=ModelSource(ModelAt.MESSAGE, (("model",),)),
    ),
    _gemini(
        name="gemini_bidi",
        path="/v1beta/models/{model}:bidiGenerateContent",
        models=ModelSource(ModelAt.PATH, _IN_SETUP),
    ),
    _gemini(
        name="gemini_interactions_live",
        path="/v1beta/interactions/live",
        models=ModelSource(ModelAt.MESSAGE, _INTERACTION_MODELS, optional=True),
    ),
    *(
        _gemini(
            name=f"{name}_{version}",
            path=_SERVICE.format(version=version, method=method),
            models=ModelSource(ModelAt.MESSAGE, _IN_SETUP),
            call=Call(from_origin=True),
        )
        for name, method in _METHODS
        for version in _VERSIONS
    ),
)
