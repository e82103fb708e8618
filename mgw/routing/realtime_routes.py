"""The WebSocket routes (contract 10.1).

Where the model is in a message, the path is the one that the vendor's SDK dials.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from mgw.nouns.vocabulary import DialectName, Modality
from mgw.routing.route import ModelAt, Route, Treatment

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
_responses: Final = partial(
    _session, dialect=DialectName.OPENAI_RESPONSES, body_models=(("model",),), model_at=ModelAt.MESSAGE
)
_gemini: Final = partial(
    _session, dialect=DialectName.GEMINI, body_models=(("setup", "model"),), model_at=ModelAt.MESSAGE
)

REALTIME_ROUTES: Final = (
    _openai(
        name="realtime_ws",
        path="/v1/realtime",
        model_at=ModelAt.QUERY,
        instead_of_model="call_id",
        body_models=(("session", "model"),),
    ),
    _openai(name="realtime_translations_ws", path="/v1/realtime/translations", model_at=ModelAt.QUERY),
    _openai(name="live_ws", path="/v1/live/sessions", model_at=ModelAt.NOWHERE, model_optional=True),
    _openai(
        name="live_attach",
        path="/v1/live/sessions/{session_id}/attach",
        model_at=ModelAt.NOWHERE,
        model_optional=True,
    ),
    _openai(
        name="live_fork",
        path="/v1/live/sessions/{session_id}/fork",
        model_at=ModelAt.NOWHERE,
        model_optional=True,
    ),
    _responses(
        name="responses_ws", path="/v1/responses/ws", model_at=ModelAt.QUERY, upstream_path="/responses"
    ),
    _responses(name="responses_upgrade", path="/v1/responses"),
    _gemini(name="gemini_bidi", path="/v1beta/models/{model}:bidiGenerateContent", model_at=ModelAt.PATH),
    _gemini(
        name="gemini_interactions_live",
        path="/v1beta/interactions/live",
        body_models=_INTERACTION_MODELS,
        model_optional=True,
    ),
    *(
        _gemini(
            name=f"{name}_{version}",
            path=_SERVICE.format(version=version, method=method),
            upstream_origin=True,
        )
        for name, method in _METHODS
        for version in _VERSIONS
    ),
)
