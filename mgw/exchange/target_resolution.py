"""Resolve the target of a request, from its models or from the provider that the client chose.

Sources: contract 4.9; contract 4.15 and 4.16 (routes without a model, nested models of a batch).
"""

from __future__ import annotations

from collections.abc import Sequence

from mgw.clients.client_refusals import model_not_priced
from mgw.clients.limits import counts_money
from mgw.config.prices import UnpricedRule
from mgw.config.provider import Provider
from mgw.exchange.body import MODELS, RequestBody
from mgw.exchange.charge import priced_modality
from mgw.exchange.exchange import Exchange
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Modality
from mgw.routing.match import PROVIDER
from mgw.routing.model_source import MODEL_LIST, ModelAt
from mgw.routing.resolve import Resolver, Target, check_capability
from mgw.routing.route import Route
from mgw.wire.headers import value_of
from mgw.wire.nested_strings import NestedString
from mgw.wire.target import check_stated_once, has_similar_parameter, query_value

_DEPLOYMENT = "deployment"
"""The parameter of a query in which Azure's older API has a session's model."""
MODEL = "model"
"""The parameter that names the model, where the query does."""
MAX_MODEL_CHARS = 4096
"""No name of a model is longer, and some formats repeat it for each input."""


def resolve_target(exchange: Exchange, request: ClientRequest, body: RequestBody) -> Target:
    """Resolve the models of a request, and check that the provider may be asked.

    :raises GatewayError: see :mod:`mgw.routing.resolve`; ``MALFORMED``
        where a model is missing, or where nested ones lie with another provider than the others.
    """
    route = exchange.route
    asked = request.path_model if body.model is None else body.model.value
    if route.models.in_query:
        check_stated_once(request.raw_query, MODEL)
        if asked is None and not body.nested:
            asked = query_value(request.raw_query, MODEL)
    if route.models.paths and route.models.at is not ModelAt.PATH and asked is None:
        target = _resolve_nested(exchange, request, list(body.effective_models.values()))
        return check_target(exchange, target)
    return resolve_model(exchange, request, asked)


def resolve_model(exchange: Exchange, request: ClientRequest, asked: str | None) -> Target:
    """Resolve the one model that a request names, and check that the provider may be asked.

    :raises GatewayError: as :func:`resolve_target` does.
    """
    route, resolver = exchange.route, exchange.generation.resolver
    exchange.asked_model = asked
    if asked is not None:
        if len(asked) > MAX_MODEL_CHARS:
            exchange.asked_model = None
            raise _long_model()
        target = _resolve_named(route, resolver, request, asked)
    elif route.models.optional or _is_said_instead(route, request):
        target = Target(_chosen_provider(route, resolver, request), None, None)
    else:
        raise _missing_model(route)
    return check_target(exchange, target)


def _is_said_instead(route: Route, request: ClientRequest) -> bool:
    """Whether the query names something that has a model already."""
    parameter = route.models.instead
    return parameter is not None and bool(query_value(request.raw_query, parameter))


def check_target(exchange: Exchange, target: Target) -> Target:
    """Note where a request goes, and check that the client may use it and the provider may be asked.

    :raises GatewayError: ``UNKNOWN_MODEL``, and as :func:`mgw.routing.resolve.check_capability` does.
    """
    exchange.target = target
    check_allowed(exchange, target)
    check_capability(exchange.route, target, exchange.generation.config.translation)
    return target


def check_query(route: Route, raw_query: bytes | None) -> None:
    """Refuse a query in which some provider finds a model that the gateway does not look for there.

    For clients that may use some models only, on routes that may name any.

    :raises GatewayError: ``MALFORMED``.
    """
    if raw_query is None:
        return
    in_query = route.models.at is ModelAt.QUERY or route.models.in_query
    if (
        has_similar_parameter(raw_query, MODEL)
        or (not in_query and query_value(raw_query, MODEL) is not None)
        or query_value(raw_query, _DEPLOYMENT) is not None
        or has_similar_parameter(raw_query, _DEPLOYMENT)
    ):
        message = f"{route.path} does not take a model in the query: remove it"
        raise GatewayError(Reason.MALFORMED, message, param=MODEL)


def check_allowed(exchange: Exchange, target: Target) -> None:
    """Check that the client may use the model that leads to a target.

    :raises GatewayError: ``UNKNOWN_MODEL``.
    """
    client, asked = exchange.client, target.asked_model
    if client is not None and client.fits and asked is not None:
        client.check_model(asked, target.provider.name, target.upstream_model)


def has_known_price(exchange: Exchange, target: Target) -> bool:
    """Whether the client may ask for a model whose price is unknown, or there is a price for it.

    A request that leaves the model to the provider, be it in a stored prompt or for an agent, has no price.
    """
    client, settings = exchange.client, exchange.generation.config.prices
    if client is None or not counts_money(client.limits, refusing=True):
        return True
    model, modality = target.upstream_model, priced_modality(exchange.route)
    is_allowed = settings is not None and settings.unpriced is UnpricedRule.ALLOW
    if modality is None or is_allowed or (model is None and not _has_paid_default(exchange.route)):
        return True
    prices = exchange.generation.prices
    if prices is None or model is None:
        return False
    return prices.has_price(target.provider_name, model, modality, exchange.wall)


def _has_paid_default(route: Route) -> bool:
    """Whether what names no model costs something: moderations do not, nor does what only looks up."""
    if route.modality is Modality.REALTIME:
        return True
    is_asked = route.metered and route.method == "POST"
    return is_asked and (route.modality is not Modality.TEXT or bool(route.models.others))


def check_price(exchange: Exchange, target: Target) -> None:
    """Check that what a target costs is known where the client's limits need it.

    :raises GatewayError: ``MODEL_NOT_PRICED``.
    """
    if not has_known_price(exchange, target):
        raise model_not_priced(target.asked_model or "")


def rewrite_models(exchange: Exchange, request: ClientRequest, target: Target, body: RequestBody) -> None:
    """Put the provider's own names where the body names models.

    :raises GatewayError: ``MALFORMED`` where one of them is a model of another provider.
    """
    new = target.upstream_model
    if body.nested or body.others:
        new_at = _upstream_names(exchange, target, request.path_model, body)
        body.rename_nested(new_at)
        body.listed = tuple(new_at[other.path] for other in body.others if other.path[0] == MODEL_LIST[0])
        for name in body.listed:  # any of them may answer
            check_price(exchange, Target(target.provider, name, name))
    if body.nested:
        return
    if new is not None and exchange.route.models.at is not ModelAt.PATH:
        client = exchange.client
        body.rename(new, everywhere=client is not None and counts_money(client.limits, refusing=True))


def _upstream_names(
    exchange: Exchange, target: Target, path_model: str | None, body: RequestBody
) -> dict[tuple[str | int, ...], str]:
    """Return what is to stand at the place of each nested model; some repeat the model of the path."""
    resolver, client = exchange.generation.resolver, exchange.client
    asked = None if path_model is None else path_model.removeprefix(MODELS)
    new_at: dict[tuple[str | int, ...], str] = {}
    for path, nested in {**body.effective_models, **{other.path: other for other in body.others}}.items():
        kept, resolved = _resolve_name(resolver, nested.value)
        if client is not None and client.fits:
            provider, model = (target.provider, nested.value) if resolved is None else resolved
            client.check_model(nested.value, provider.name, model, nested.name)
        if nested.value.removeprefix(MODELS) == asked and target.upstream_model is not None:
            prefix = nested.value[: len(nested.value) - len(asked)]
            new_at[path] = prefix + target.upstream_model.removeprefix(MODELS)
        elif resolved is None:
            new_at[path] = nested.value
        elif resolved[0] is target.provider:
            new_at[path] = kept + resolved[1]
        else:
            message = (
                f"{nested.name} is a model of provider {resolved[0].name!r}, but the request goes to "
                f"{target.provider.name!r}: use models of one provider only"
            )
            raise GatewayError(Reason.MALFORMED, message, param=nested.name)
    return new_at


def _resolve_named(route: Route, resolver: Resolver, request: ClientRequest, asked: str) -> Target:
    """A bare model of a platform route does not choose the provider, any other's does."""
    if route.modality is Modality.PLATFORM:
        _, resolved = _resolve_name(resolver, asked)
        if resolved is None:
            return Target(_chosen_provider(route, resolver, request), asked, asked)
    return resolver.resolve(asked, route.default_family)


def _resolve_nested(exchange: Exchange, request: ClientRequest, nested: Sequence[NestedString]) -> Target:
    route, resolver = exchange.route, exchange.generation.resolver
    resolved = [(one, *_resolve_name(resolver, one.value)) for one in nested]
    choosing = next((entry for entry in resolved if entry[2] is not None), None)
    first = choosing or (resolved[0] if resolved else None)
    if first is not None:
        if len(first[0].value) > MAX_MODEL_CHARS:
            raise _long_model()
        exchange.asked_model = first[0].value
    if choosing is None or route.models.at is ModelAt.BATCH:
        provider = _provider_of_bare(route, resolver, request, resolved=bool(resolved))
    else:
        assert choosing[2] is not None
        provider = choosing[2][0]
    if first is None:
        return Target(provider, None, None)
    one, kept, found = first
    return Target(provider, one.value, one.value if found is None else kept + found[1])


def _provider_of_bare(
    route: Route, resolver: Resolver, request: ClientRequest, *, resolved: bool
) -> Provider:
    """Return who takes bare models: what the client chose on platform routes, else its dialect's default."""
    if resolved and route.modality is not Modality.PLATFORM:
        return resolver.default_provider(route.default_family)
    return _chosen_provider(route, resolver, request)


def _resolve_name(resolver: Resolver, asked: str) -> tuple[str, tuple[Provider, str] | None]:
    """Return the prefix that is kept, and what an alias or a prefix stands for, if there is one."""
    kept = MODELS if asked.startswith(MODELS) else ""
    return kept, resolver.find(asked[len(kept) :])


def _chosen_provider(route: Route, resolver: Resolver, request: ClientRequest) -> Provider:
    header = value_of(request.headers, b"x-provider")
    chosen = query_value(request.raw_query, PROVIDER) or (
        None if header is None else header.decode("latin-1")
    )
    return resolver.provider(chosen, route.default_family)


def _long_model() -> GatewayError:
    message = f"a model name may have at most {MAX_MODEL_CHARS} characters"
    return GatewayError(Reason.MALFORMED, message, param="model")


def _missing_model(route: Route) -> GatewayError:
    if route.models.at is ModelAt.QUERY:
        message = f"{route.path} requires a model: add ?model=<model> to the URL"
    else:
        message = f"{route.path} requires a model: set the field 'model'"
    return GatewayError(Reason.MALFORMED, message, param="model")
