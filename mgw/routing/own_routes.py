"""Answered by the gateway itself: the catalog and the operational routes (contract 4.5)."""

from __future__ import annotations

from typing import Final

from mgw.routing.route import ModelAt, Route, Treatment
from mgw.vocabulary import DialectName, Modality

_PLATFORM: Final = Modality.PLATFORM
_PATH: Final = ModelAt.PATH
_NOWHERE: Final = ModelAt.NOWHERE
_LOCAL: Final = Treatment.LOCAL
_OPENAI: Final = DialectName.OPENAI
_ANTHROPIC: Final = DialectName.ANTHROPIC
_GEMINI: Final = DialectName.GEMINI

OWN_ROUTES: Final = (
    Route("openai_models", "GET", "/v1/models", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("openai_model", "GET", "/v1/models/{model}", _OPENAI, _PLATFORM, _PATH, _LOCAL),
    Route("anthropic_models", "GET", "/v1/models", _ANTHROPIC, _PLATFORM, _NOWHERE, _LOCAL),
    Route("anthropic_model", "GET", "/v1/models/{model}", _ANTHROPIC, _PLATFORM, _PATH, _LOCAL),
    Route("gemini_models", "GET", "/v1beta/models", _GEMINI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("gemini_model", "GET", "/v1beta/models/{model}", _GEMINI, _PLATFORM, _PATH, _LOCAL),
    Route("root", "GET", "/", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("healthz", "GET", "/healthz", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("readyz", "GET", "/readyz", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("provider_health", "GET", "/v1/health/providers", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
    Route("metrics", "GET", "/metrics", _OPENAI, _PLATFORM, _NOWHERE, _LOCAL),
)
"""No usage event is left behind."""

OPEN_ROUTES: Final = frozenset({"root", "healthz", "readyz"})
"""What needs no edge key (contract 3.1)."""
