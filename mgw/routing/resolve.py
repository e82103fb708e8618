"""From a client's model to a provider, and whether that provider supports the route.

The provider and its own model id follow from aliases, prefixes and defaults (contract 4.9).  Then its
capability flag is asked, and last what its kind can do at all (contract 4.7, 4.8).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.config.near_names import MAX_NAME, near_name
from mgw.config.provider import Provider
from mgw.config.settings import Config
from mgw.config.translation import TranslationSettings
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Capability, Family, Kind, Modality, TextApi
from mgw.routing.route import Route

_MODELS = "models/"
MAX_PREFIXES: Final = 256
"""How many prefixes that name no provider are looked at; a host has some dozens (``meta-llama/``)."""

NearPrefix = Callable[[str, str, str], None]
"""Called with a prefix, the provider that has nearly that name, and the one that the request goes to."""


class Target(Struct, frozen=True, dict=True):
    """Where a request goes."""

    provider: Provider
    asked_model: str | None
    """The model as the client spelled it; ``None`` where the request named none."""
    upstream_model: str | None
    """What the provider is to be asked for, with the leading ``models/`` that the client sent, if any."""

    @property
    def kind(self) -> Kind:
        """The provider's kind."""
        return self.provider.kind

    @cached_property
    def provider_name(self) -> str:
        """The provider's name, kept since each attribute of a model of pydantic's takes long to read."""
        return self.provider.name

    @cached_property
    def family(self) -> Family:
        """The provider's family."""
        return self.provider.row.family


class Resolver:
    """Resolve models against one configuration: alias, then prefix, then the dialect's default.

    :param on_near_prefix: called at most once for each prefix that goes to a default and is a provider's name
        but for a slip of the finger.
    """

    def __init__(self, config: Config, on_near_prefix: NearPrefix | None = None) -> None:
        self._providers = config.providers
        self._defaults = config.defaults
        self._aliases = config.aliases
        self._on_near_prefix = on_near_prefix
        self._looked_at: set[str] = set()

    def resolve(self, asked: str, family: Family) -> Target:
        """Return the target of a model.

        :param asked: the model as the client sent it; a leading ``models/`` is ignored.
        :param family: of the client's dialect, for bare model ids.
        :raises GatewayError: ``MALFORMED`` for an empty name; ``UNKNOWN_MODEL`` where neither an alias nor a
            prefix fits and the dialect has no default.
        """
        kept = _MODELS if asked.startswith(_MODELS) else ""
        bare = asked[len(kept) :]
        if not bare:
            raise GatewayError(Reason.MALFORMED, "the model is empty", param="model")
        named = self.find(bare)
        if named is not None:
            provider, model = named
            return Target(provider, asked, kept + model)
        default = self.default_provider(family, bare)
        if "/" in bare:
            self._look_at_prefix(bare, default)
        return Target(default, asked, asked)

    def find(self, model: str) -> tuple[Provider, str] | None:
        """Return the provider and its model where an alias or a prefix says it, else ``None``.

        :raises GatewayError: ``UNKNOWN_MODEL`` where nothing stands behind the prefix.
        """
        targets = self._aliases.get(model)
        return self._split(model if targets is None else targets[0])

    def fallbacks(self, target: Target) -> tuple[Target, ...]:
        """Return where a request may go when its target fails: the alias's other targets, in order."""
        asked = target.asked_model or ""
        kept = _MODELS if asked.startswith(_MODELS) else ""
        others = self._aliases.get(asked[len(kept) :], ())[1:]
        found = [self._split(other) for other in others]
        return tuple(Target(one[0], asked, kept + one[1]) for one in found if one is not None)

    def _look_at_prefix(self, model: str, default: Provider) -> None:
        """Report a prefix that names no provider, if it nearly does."""
        prefix = model[: MAX_NAME + 1].partition("/")[0]
        looked_at = self._looked_at
        if self._on_near_prefix is None or prefix in looked_at or len(looked_at) >= MAX_PREFIXES:
            return
        looked_at.add(prefix)
        near = near_name(prefix, self._providers)
        if near is not None:
            self._on_near_prefix(prefix, near, default.name)

    def _split(self, model: str) -> tuple[Provider, str] | None:
        name, slash, rest = model.partition("/")
        provider = self._providers.get(name)
        if provider is None or not slash:
            return None
        if not rest:
            message = f"{model!r} names a provider but no model; write <provider>/<model>"
            raise GatewayError(Reason.UNKNOWN_MODEL, message, param="model")
        return provider, rest

    def provider(self, name: str | None, family: Family) -> Provider:
        """Return the provider of a request that names no model (contract 4.15).

        :param name: what the client says of it; ``None``: the default of its dialect.
        :raises GatewayError: ``UNKNOWN_MODEL`` where there is no such provider, or no default.
        """
        if name is None:
            return self.default_provider(family)
        provider = self._providers.get(name)
        if provider is None:
            known = ", ".join(self._providers)
            near = near_name(name, self._providers)
            meant = "" if near is None else f", did you mean {near}?"
            message = f"no provider is named {name[:200]!r}{meant} (known: {known})"
            raise GatewayError(Reason.UNKNOWN_MODEL, message, param="provider")
        return provider

    def default_provider(self, family: Family, model: str | None = None) -> Provider:
        """Return the provider that takes the bare model ids of a dialect.

        :raises GatewayError: ``UNKNOWN_MODEL`` where the configuration names none.
        """
        name = self._defaults.get(family)
        if name is not None:
            return self._providers[name]
        known = ", ".join(self._providers)
        if model is None:
            message = f"the request names no model, and defaults.{family}_dialect is not set"
        else:
            prefix, slash, rest = model.partition("/")
            near = near_name(prefix, self._providers) if slash else None
            meant = "" if near is None else f" (did you mean {f'{near}/{rest[:200]}'!r}?)"
            message = (
                f"no alias or provider matches the model {model[:200]!r}{meant}, and "
                f"defaults.{family}_dialect is not set; write <provider>/<model> with one of the "
                f"providers: {known}"
            )
        raise GatewayError(Reason.UNKNOWN_MODEL, message, param="model")


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


def is_translated(route: Route, target: Target) -> bool:
    """Whether requests of a route reach a target in another dialect than the client's."""
    if target.family is not route.family:
        return True
    return route.text_api is not None and route.text_api is target.provider.missing_api


_TRANSLATING: Final = "/v1/chat/completions, /v1/messages and generateContent"


def check_capability(route: Route, target: Target, translation: TranslationSettings) -> None:
    """Return where the target may be asked for the route.

    :raises GatewayError: ``CAPABILITY_OFF`` or ``UNSUPPORTED_BY_KIND``; for realtime ``NOT_IMPLEMENTED``.
    """
    provider = target.provider
    needed = REQUIRED.get(route.modality)
    if needed is not None and needed not in provider.capabilities and not _is_beyond(needed, provider):
        raise _capability_off(route, target, needed)
    if not is_translated(route, target):
        if route.native:
            return
    elif target.family in route.translated_for:
        if route.text_api is not TextApi.RESPONSES or translation.responses.enabled:
            return
        raise _responses_off(route, target)
    if route.modality is Modality.REALTIME:
        raise _no_bridge(route, target)
    message = f"{route.path} is not supported by provider {provider.name!r} of kind {target.kind}"
    if route.modality is Modality.TEXT:
        message += f"; routes that other families can serve are {_TRANSLATING}"
    elif target.family is not route.family:
        message += f": it requires a provider of the {route.family} family"
    raise GatewayError(Reason.UNSUPPORTED_BY_KIND, message, param=_at_fault(target))


def _capability_off(route: Route, target: Target, needed: Capability) -> GatewayError:
    """Return the refusal of what a provider may not be used for; of realtime, it may be in a close frame."""
    provider, name = target.provider, target.provider.name
    if provider.is_vertex and needed in provider.row.impossible_on_vertex:
        if is_translated(route, target):
            return _no_bridge(route, target)
        message = f"{needed} is not supported on Vertex AI: use the Gemini API, not provider {name!r}"
        return GatewayError(Reason.UNSUPPORTED_BY_KIND, message, param="model")
    reason = Reason.NOT_IMPLEMENTED if needed is Capability.REALTIME else Reason.CAPABILITY_OFF
    return GatewayError(reason, f"the capability {needed} of provider {name!r} is off", param="model")


def _is_beyond(needed: Capability, provider: Provider) -> bool:
    """Whether no setting turns a capability on: the kind has no call for it (contract 5.19)."""
    row = provider.row
    return row.wire is not None and needed in row.impossible and needed is not Capability.REALTIME


def _responses_off(route: Route, target: Target) -> GatewayError:
    """Return the refusal of Responses where they would have to be translated and are not."""
    message = (
        f"{route.path} is not supported by provider {target.provider.name!r} of kind {target.kind} unless "
        "translation.responses.enabled is true in the gateway's configuration; routes that other "
        f"families can serve without it are {_TRANSLATING}"
    )
    return GatewayError(Reason.UNSUPPORTED_BY_KIND, message, param=_at_fault(target))


def _no_bridge(route: Route, target: Target) -> GatewayError:
    """Return the refusal of realtime between two families, each of which has a protocol of its own.

    Of the reason of a close frame no more than 123 bytes arrive.
    """
    message = (
        f"realtime sessions are not translated: provider {target.provider.name!r} is of kind {target.kind}, "
        f"and {route.path} requires one of the {route.family} family"
    )
    return GatewayError(
        Reason.NOT_IMPLEMENTED, message, param=_at_fault(target), code="unsupported_realtime_bridge"
    )


def _at_fault(target: Target) -> str:
    return "provider" if target.asked_model is None else "model"
