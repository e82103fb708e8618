"""Where a request goes: the models that it names, resolved, or what the client says of the provider.

Sources: contract 4.9; contract 4.15 and 4.16 (routes without a model, nested models of a batch).
"""

from __future__ import annotations

from collections.abc import Sequence

from mgw.config.provider import Provider
from mgw.errors import GatewayError, Reason
from mgw.exchange.client import ClientRequest
from mgw.exchange.content import MODELS, Content
from mgw.exchange.exchange import Exchange
from mgw.routing.capabilities import pass_gate
from mgw.routing.match import PROVIDER
from mgw.routing.resolve import Resolver, Target
from mgw.routing.route import ModelAt, Route
from mgw.vocabulary import Modality
from mgw.wire.headers import value_of
from mgw.wire.nested import Nested
from mgw.wire.target import query_value

MAX_MODEL_CHARS = 4096
"""No name of a model is longer, and some wires repeat it for each input."""


def aim(exchange: Exchange, request: ClientRequest, content: Content) -> Target:
    """Resolve the models of a request, and pass the gate.

    :raises GatewayError: see :mod:`mgw.routing.resolve` and :mod:`mgw.routing.capabilities`; ``MALFORMED``
        where a model is missing, or where nested ones lie with another provider than the others.
    """
    route, resolver = exchange.route, exchange.generation.resolver
    if route.body_models and route.model_at is not ModelAt.PATH:
        target = _aim_nested(exchange, request, list(content.counting.values()))
    else:
        asked = request.path_model if content.model is None else content.model.value
        exchange.asked_model = asked
        if asked is not None:
            if len(asked) > MAX_MODEL_CHARS:
                exchange.asked_model = None
                raise _long_model()
            target = _aim_model(route, resolver, request, asked)
        elif route.model_optional:
            target = Target(_said_provider(route, resolver, request), None, None)
        else:
            raise _missing_model(route)
    exchange.target = target
    pass_gate(route, target)
    return target


def place_models(exchange: Exchange, request: ClientRequest, target: Target, content: Content) -> None:
    """Put the provider's own names where the body names models.

    :raises GatewayError: ``MALFORMED`` where one of them is a model of another provider.
    """
    new = target.upstream_model
    if content.nested:
        resolver = exchange.generation.resolver
        content.rename_nested(_names_at(resolver, target, request.path_model, content))
    elif new is not None and exchange.route.model_at is not ModelAt.PATH:
        content.rename(new)


def _names_at(
    resolver: Resolver, target: Target, path_model: str | None, content: Content
) -> dict[tuple[str | int, ...], str]:
    """Return what is to stand at the place of each nested model; some repeat the model of the path."""
    asked = None if path_model is None else path_model.removeprefix(MODELS)
    new_at: dict[tuple[str | int, ...], str] = {}
    for place, nested in content.counting.items():
        kept, named = _named(resolver, nested.value)
        if nested.value.removeprefix(MODELS) == asked and target.upstream_model is not None:
            prefix = nested.value[: len(nested.value) - len(asked)]
            new_at[place] = prefix + target.upstream_model.removeprefix(MODELS)
        elif named is None:
            new_at[place] = nested.value
        elif named[0] is target.provider:
            new_at[place] = kept + named[1]
        else:
            message = (
                f"{nested.name} is a model of provider {named[0].name!r}, but the request goes to "
                f"{target.provider.name!r}: use models of one provider only"
            )
            raise GatewayError(Reason.MALFORMED, message, param=nested.name)
    return new_at


def _aim_model(route: Route, resolver: Resolver, request: ClientRequest, asked: str) -> Target:
    """A bare model of a platform route does not choose the provider, any other's does."""
    if route.modality is Modality.PLATFORM:
        _, named = _named(resolver, asked)
        if named is None:
            return Target(_said_provider(route, resolver, request), asked, asked)
    return resolver.resolve(asked, route.default_family)


def _aim_nested(exchange: Exchange, request: ClientRequest, nested: Sequence[Nested]) -> Target:
    route, resolver = exchange.route, exchange.generation.resolver
    named = [(one, *_named(resolver, one.value)) for one in nested]
    choosing = next((entry for entry in named if entry[2] is not None), None)
    first = choosing or (named[0] if named else None)
    if first is not None:
        if len(first[0].value) > MAX_MODEL_CHARS:
            raise _long_model()
        exchange.asked_model = first[0].value
    if choosing is None or route.model_at is ModelAt.BATCH:
        provider = _provider_of_nested(route, resolver, request, named=bool(named))
    else:
        assert choosing[2] is not None
        provider = choosing[2][0]
    if first is None:
        return Target(provider, None, None)
    one, kept, found = first
    return Target(provider, one.value, one.value if found is None else kept + found[1])


def _provider_of_nested(route: Route, resolver: Resolver, request: ClientRequest, *, named: bool) -> Provider:
    """Return who takes bare models: what the client says on platform routes, else its dialect's default."""
    if named and route.modality is not Modality.PLATFORM:
        return resolver.default(route.default_family)
    return _said_provider(route, resolver, request)


def _named(resolver: Resolver, asked: str) -> tuple[str, tuple[Provider, str] | None]:
    """Return the prefix that is kept, and what an alias or a prefix says, if one does."""
    kept = MODELS if asked.startswith(MODELS) else ""
    return kept, resolver.named(asked[len(kept) :])


def _said_provider(route: Route, resolver: Resolver, request: ClientRequest) -> Provider:
    header = value_of(request.headers, b"x-provider")
    said = query_value(request.raw_query, PROVIDER) or (None if header is None else header.decode("latin-1"))
    return resolver.chosen(said, route.default_family)


def _long_model() -> GatewayError:
    message = f"a model name may have at most {MAX_MODEL_CHARS} characters"
    return GatewayError(Reason.MALFORMED, message, param="model")


def _missing_model(route: Route) -> GatewayError:
    message = f"{route.path} needs a model: set the field 'model'"
    return GatewayError(Reason.MALFORMED, message, param="model")
