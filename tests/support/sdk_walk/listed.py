"""The methods that the walk does not compare, each with the reason: the only place where one is left out.

A key ends with ``.*`` where it means all methods of a resource and of the resources in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Reasons = Mapping[str, Mapping[str, str]]

_SOCKET: Final = "dials a WebSocket"
_LOCAL: Final = "looks at what it is given, sends nothing"

NO_HTTP: Final[Reasons] = {
    "openai": {
        "beta.realtime.connect": _SOCKET,
        "beta.responses.connect": _SOCKET,
        "live.connect": _SOCKET,
        "live.forks.connect": _SOCKET,
        "live.sideband.connect": _SOCKET,
        "realtime.connect": _SOCKET,
        "realtime.translations.connect": _SOCKET,
        "responses.connect": _SOCKET,
        "webhooks.unwrap": _LOCAL,
        "webhooks.verify_signature": _LOCAL,
    },
    "anthropic": {
        "beta.webhooks.parse_unverified": _LOCAL,
        "beta.webhooks.unwrap": _LOCAL,
    },
    "gemini": {},
}
"""Not HTTP at all."""

_VERTEX: Final = "for Google Cloud's Vertex only: the SDK refuses it for the Gemini Developer API"

RAISE_FIRST: Final[Reasons] = {
    "openai": {},
    "anthropic": {},
    "gemini": {
        "models.compute_tokens": _VERTEX,
        "models.edit_image": _VERTEX,
        "models.generate_images": _VERTEX,
        "models.generate_videos": _VERTEX,
        "models.recontext_image": _VERTEX,
        "models.segment_image": _VERTEX,
        "models.upscale_image": _VERTEX,
        "tunings.list": _VERTEX,
        "tunings.validate_reward": _VERTEX,
    },
}
"""Raise before anything is sent; checked to do so."""

_OWN: Final = "the catalog is the gateway's own answer (contract 4.5)"

OWN_ANSWER: Final[Reasons] = {
    "openai": {"models.list": _OWN, "models.retrieve": _OWN},
    "anthropic": {
        "models.list": _OWN,
        "models.retrieve": _OWN,
        "beta.models.list": _OWN,
        "beta.models.retrieve": _OWN,
    },
    "gemini": {"models.list": _OWN, "models.get": _OWN},
}
"""Answered by the gateway; checked never to be passed on as they came."""

_NO_STORE: Final = "the service has no conversation store (contract 4.6): 501"

REFUSED: Final[Reasons] = {
    "openai": {"conversations.*": _NO_STORE},
    "anthropic": {},
    "gemini": {},
}
"""Ruled out by contract 4.6; checked to be a 501 ``not_implemented`` that no upstream hears of."""


def named(method: str, keys: Mapping[str, object]) -> str | None:
    """Return the key that lists a method."""
    parts = method.split(".")
    wanted = [method, *(".".join([*parts[:count], "*"]) for count in range(1, len(parts)))]
    return next((key for key in wanted if key in keys), None)
