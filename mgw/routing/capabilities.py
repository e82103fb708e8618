"""The gate: may this provider be asked for this route? (contract 4.7, 4.8)

The capability flag is asked first, then what the kind can do at all.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.errors import GatewayError, Reason
from mgw.routing.resolve import Target
from mgw.routing.route import Route
from mgw.vocabulary import Capability, Modality

REQUIRED: Final = MappingProxyType(
    {
        Modality.TEXT: Capability.TEXT,
        Modality.EMBEDDING: Capability.TEXT,
        Modality.IMAGE_GEN: Capability.IMAGE_GEN,
        Modality.VIDEO_GEN: Capability.VIDEO_GEN,
        Modality.AUDIO_SPEECH: Capability.AUDIO_SPEECH,
        Modality.AUDIO_TRANSCRIBE: Capability.AUDIO_TRANSCRIBE,
        Modality.REALTIME: Capability.REALTIME,
    }
)
"""The flag that a modality needs; platform routes need none."""

_TRANSLATING: Final = "/v1/chat/completions, /v1/messages and generateContent"


def pass_gate(route: Route, target: Target) -> None:
    """Return where the target may be asked for the route.

    :raises GatewayError: ``CAPABILITY_OFF`` or ``UNSUPPORTED_BY_KIND``.
    """
    provider = target.provider
    needed = REQUIRED.get(route.modality)
    if needed is not None and needed not in provider.capabilities:
        reason = Reason.NOT_IMPLEMENTED if needed is Capability.REALTIME else Reason.CAPABILITY_OFF
        message = f"the capability {needed} of provider {provider.name!r} is off"
        raise GatewayError(reason, message, param="model")
    if target.family in route.translated_for or (target.family is route.family and route.native):
        return
    message = f"{route.path} is not supported by provider {provider.name!r} of kind {target.kind}"
    if route.modality is Modality.TEXT:
        message += f"; routes that other families can serve are {_TRANSLATING}"
    elif target.family is not route.family:
        message += f": it needs a provider of {route.family}'s family"
    raise GatewayError(Reason.UNSUPPORTED_BY_KIND, message, param=_at_fault(target))


def _at_fault(target: Target) -> str:
    return "provider" if target.asked_model is None else "model"
