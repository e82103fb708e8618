"""A client with a gateway key: its name, its models, its limits.

The clients of a configuration are made with it.  What they have used outlives it: :class:`ClientRegistry`
belongs to the process and keeps the counts by the names of the keys.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Set
from fnmatch import translate
from functools import lru_cache
from math import ceil, isinf

from msgspec import Struct

from mgw.clients.limits import ONE_REQUEST, Counts, LimitReached, Limits, Permit, limits_of
from mgw.config.edge_auth import EdgeAuthSettings, digest_of
from mgw.config.key_settings import NamedKeySettings
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import DIGEST_PREFIX, KEY_HASH_DIGITS, Secret

_MODELS = "models/"
_CLIMBS = re.compile(r"(?:.*[/\\])?\.\.?(?:[/\\].*)?", re.DOTALL).fullmatch
"""A name with a segment ``.`` or ``..``: a host that writes it into a path asks for another model."""


class Client(Struct, eq=False, frozen=True):
    """A client that has a key."""

    name: str
    """The client's name in events: that of its key, else the first digits of the key's digest."""
    digest: bytes
    """The SHA-256 of its key."""
    is_known: bool = True
    """Whether the key itself is known, not its digest alone."""
    fits: Callable[[str], object] | None = None
    """Whether one of its patterns fits a model, in lower case; ``None``: it may use every one."""
    limits: Limits = ()
    counts: Counts | None = None
    """What counts the use of its limits; ``None``: it has none."""

    def __repr__(self) -> str:  # the digest is worth a token of uploads
        return f"Client({self.name!r})"

    def may_use(self, asked: str, provider: str | None, model: str | None) -> bool:
        """Whether it may use a model.

        :param asked: the name that the request says.
        :param provider: of what it stands for, if that is known; ``model`` likewise.
        """
        fits = self.fits
        if fits is None:
            return True
        if _CLIMBS(asked) is not None:
            return False
        if fits(asked.removeprefix(_MODELS).lower()):
            return True
        if provider is None or model is None:
            return False
        return bool(fits(f"{provider}/{model.removeprefix(_MODELS)}".lower()))

    def check_model(self, asked: str, provider: str | None, model: str | None, param: str = "model") -> None:
        """Refuse a model that it may not use, which stands in ``param``.

        :raises GatewayError: ``UNKNOWN_MODEL``.
        """
        if not self.may_use(asked, provider, model):
            message = f"no model is named {asked[:200]!r} for this key: use one that GET /v1/models lists"
            raise GatewayError(Reason.UNKNOWN_MODEL, message, param=param)

    def begin(self) -> Permit | Awaitable[Permit | LimitReached] | None:
        """Count a request that begins; ``None``: there is nothing to count.

        :raises GatewayError: ``CLIENT_LIMIT``, where it is one too many; nothing is counted then.
        """
        if self.counts is None:
            return None
        found = self.counts.begin(self.limits, ONE_REQUEST)
        if isinstance(found, LimitReached):
            raise limit_refusal(found)
        return found


def limit_refusal(reached: LimitReached) -> GatewayError:
    """Return the refusal of a request that is one too many."""
    message = f"this key has reached its limit: {reached.limit.name} is {reached.most}"
    seconds = None if isinf(reached.seconds) else float(max(1, ceil(reached.seconds)))
    return GatewayError(Reason.CLIENT_LIMIT, message, retry_after=seconds)


class ClientRegistry:
    """The clients of the process's configurations, one after the other, as far as they have limits.

    :param counts: what counts the use of their limits.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._limited: dict[str, Limits] = {}
        self._removed: Set[str] = frozenset()
        """Those that the latest configuration has no more: the next one may restore them."""

    def clients_of(self, settings: EdgeAuthSettings) -> Mapping[bytes, Client]:
        """Return the clients of a configuration by the digests of their keys; its limits hold from now on."""
        before, self._limited = self._limited, {}
        clients = {client.digest: client for client in clients_of(settings, self._counts)}
        for client in clients.values():
            if client.limits:
                self._limited[client.name] = client.limits
                self._counts.use(client.name, client.limits)
        for name in self._removed - self._limited.keys():
            self._counts.use(name, ())
        self._removed = before.keys() - self._limited.keys()
        return clients

    def refusals(self) -> list[tuple[str, str, int]]:
        """Return each client and each limit that it has or had, and how often that stood against it."""
        counted = self._counts.refusals()
        return [
            (name, row.limit.name, counted.get((row.holder, row.limit.name), 0))
            for name, limits in self._limited.items()
            for row in limits
        ]


def clients_of(settings: EdgeAuthSettings, counts: Counts | None = None) -> list[Client]:
    """Return the clients of a configuration.

    :param counts: counts the use of their limits; ``None``: nobody does.
    """
    return [_unnamed(key) if isinstance(key, Secret) else _named(key, counts) for key in settings.keys]


def _named(key: NamedKeySettings, counts: Counts | None) -> Client:
    assert key.sha256 is not None, "a named key was given its digest"
    fits = None if key.models is None else _matcher(key.models)
    limits = limits_of(key.name, key.older_limits)
    digest = bytes.fromhex(key.sha256.reveal())
    counted_by = counts if limits else None
    return Client(key.name, digest, key.key is not None, fits, limits, counted_by)


def _unnamed(key: Secret) -> Client:
    digest = digest_of(key)
    return Client(f"{DIGEST_PREFIX}{digest[:KEY_HASH_DIGITS]}", bytes.fromhex(digest))


@lru_cache(maxsize=8_192)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """Return whether one of these patterns fits a text; a reload compiles them in a thread first."""
    if not patterns:
        return _never
    return re.compile("|".join(map(translate, patterns))).match


def _never(_: str) -> None:
    """No model at all."""
