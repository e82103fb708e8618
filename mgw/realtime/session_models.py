"""The models named in a client's messages: whether it may use them, and the provider's names for them.

Clients that may use every model send what they like.  The gateway looks where their route names one; where it
finds none, or cannot read a message, the message passes as it came.

A client that may use some models only could hide one there.  All that it sends is read whole, as every
provider would read it (:mod:`mgw.wire.unambiguous_json`), and every place is looked at that names a model in
any session of its family (contract 3.23, 10.9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.json import encode

from mgw.dialects.dialect import SessionMessages
from mgw.exchange.body import MODELS
from mgw.exchange.exchange import Exchange
from mgw.exchange.target_resolution import MODEL, check_query
from mgw.nouns.errors import GatewayError, Reason
from mgw.realtime.first_message import no_model
from mgw.realtime.messages import find_message_models, rewrite_models
from mgw.wire.json_spans import apply_edits
from mgw.wire.nested_strings import JsonPath, NestedString
from mgw.wire.target import check_stated_once
from mgw.wire.unambiguous_json import find_unambiguous_strings

_MAX_VALUES: Final = 10_000
"""A message that is read whole may have so many values: hundreds of tools have a few each."""


@dataclass(slots=True, eq=False, repr=False)
class SessionModels:
    """The models of one session, once its target is known; those of its first message before."""

    exchange: Exchange
    messages: SessionMessages
    _first: Sequence[NestedString] = ()
    """The models that the first message of a restricted client names."""

    def check_query(self, raw_query: bytes | None) -> None:
        """Check that the query of the request names no model beside the one that is looked at.

        :raises GatewayError: ``MALFORMED``.
        """
        check_stated_once(raw_query, MODEL)
        if self.exchange.is_restricted:
            check_query(self.exchange.route, raw_query)

    def find_first(self, payload: bytes) -> str | None:
        """Return the model that the first message names; ``None``: it names none, and need not.

        :raises GatewayError: there is none, or the client may not use what else it may name.
        """
        route = self.exchange.route
        if self.exchange.is_restricted:
            self._first = self._find_all(payload)
            found = [one for one in self._first if _place_of(one) in route.models.paths]
        else:
            found = find_message_models(payload, route.models.paths)
        if found:
            return found[-1].value
        if not route.models.optional:
            raise no_model()
        return None

    def check_first(self) -> None:
        """Check all that the first message names, now that its target is known.

        :raises GatewayError: as :meth:`rewrite` does.
        """
        named, self._first = self._first, ()
        for one in named:
            _ = self._upstream_model(one.value)

    def rewrite(self, payload: bytes) -> bytes:
        """Return what is sent in place of a message: the same object where nothing changes.

        :raises GatewayError: it names a model of another provider, or one that the client may not use.
        """
        if self.exchange.is_restricted:
            return self._rewrite_all(payload)
        repeat_marker, target = self.messages.repeat_marker, self.exchange.target
        if repeat_marker is not None and repeat_marker not in payload:
            return payload
        found = find_message_models(payload, self.exchange.route.models.paths)
        if not found:
            return payload
        assert target is not None
        if repeat_marker is not None and found[-1].value != target.asked_model:
            return payload
        return rewrite_models(payload, found, self._upstream_model)

    def _rewrite_all(self, payload: bytes) -> bytes:
        """Put the provider's name wherever a restricted client names a model."""
        if not payload:
            return payload
        named = [(one, self._upstream_model(one.value)) for one in self._find_all(payload)]
        return apply_edits(payload, [(one.span, encode(new)) for one, new in named if new != one.value])

    def _find_all(self, payload: bytes) -> list[NestedString]:
        try:
            return find_unambiguous_strings(payload, *self.messages.model_places, max_values=_MAX_VALUES)
        except GatewayError as error:
            message = f"the message cannot be checked for models: {error.message}"
            raise GatewayError(Reason.MALFORMED, message, param=error.param) from None

    def _upstream_model(self, asked: str) -> str:
        """Return the provider's name of a model that a message asks for.

        :raises GatewayError: it is another provider's, or the client may not use it.
        """
        exchange = self.exchange
        target, resolver = exchange.target, exchange.generation.resolver
        assert target is not None
        bare = asked.removeprefix(MODELS)
        kept = asked[: len(asked) - len(bare)]
        if target.upstream_model is not None and bare == (target.asked_model or "").removeprefix(MODELS):
            return kept + target.upstream_model.removeprefix(MODELS)
        named = resolver.find(bare)
        if exchange.client is not None:
            provider, model = named or (target.provider, asked)
            exchange.client.check_model(asked, provider.name, model)
        if named is None:
            return asked
        provider, model = named
        if provider is target.provider:
            return kept + model
        message = (
            f"this session uses provider {target.provider.name!r}: open another session for "
            f"{asked[:200]!r}, which is a model of provider {provider.name!r}"
        )
        raise GatewayError(Reason.MALFORMED, message, param="model")


def _place_of(found: NestedString) -> JsonPath:
    """Return the place of a string as routes write it: any element of an array is the same."""
    return tuple(None if isinstance(step, int) else step for step in found.path)
