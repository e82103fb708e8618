"""A client with a gateway key: its name, its models, its limits.

The clients of a configuration are made with it.  What they have used outlives it: :class:`ClientRegistry`
belongs to the process and keeps the counts by the names of the keys.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import translate
from functools import lru_cache
from math import ceil

from msgspec import Struct

from mgw.clients.limits import ClientCounts, CountsFactory, LimitReached, Limits, LocalCounts, Permit
from mgw.config.edge_auth import EdgeAuthSettings, NamedKeySettings, digest_of
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
    counts: ClientCounts | None = None
    """``None``: it has no limits."""

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

    def acquire(self, now: float) -> Permit | Awaitable[Permit | LimitReached] | None:
        """Count a request that begins; ``None``: there is nothing to count.

        :raises GatewayError: ``CLIENT_LIMIT``, where it is one too many; nothing is counted then.
        """
        if self.counts is None:
            return None
        found = self.counts.acquire(now)
        if isinstance(found, LimitReached):
            raise limit_refusal(found)
        return found


def limit_refusal(reached: LimitReached) -> GatewayError:
    """Return the refusal of a request that is one too many."""
    message = f"this key has reached its limit: {reached.limit} is {reached.most}"
    return GatewayError(Reason.CLIENT_LIMIT, message, retry_after=float(max(1, ceil(reached.seconds))))


def _count_locally(_: str, limits: Limits) -> ClientCounts:
    return LocalCounts(limits)


class ClientRegistry:
    """The counts of all clients, by their names.

    :param new_counts: makes those of a name that had none; by default they are of this process alone.
    """

    def __init__(self, new_counts: CountsFactory = _count_locally) -> None:
        self._new_counts = new_counts
        self._counts: dict[str, ClientCounts] = {}

    def counts_of(self, name: str) -> ClientCounts | None:
        """Return what a client has used; ``None``: it has no limits, or there is no such client."""
        return self._counts.get(name)

    def clients_of(self, settings: EdgeAuthSettings) -> Mapping[bytes, Client]:
        """Return the clients of a configuration by the digests of their keys; its limits hold from now on."""
        before, self._counts = self._counts, {}
        found: dict[bytes, Client] = {}
        for key in settings.keys:
            client = _unnamed(key) if isinstance(key, Secret) else self._named(key, before)
            found[client.digest] = client
        return found

    def refusals(self) -> list[tuple[str, str, int]]:
        """Return each client and each limit that it has or had, and how often that stood against it."""
        return [
            (name, limit, count)
            for name, counts in self._counts.items()
            for limit, count in counts.refusals.items()
        ]

    def _named(self, key: NamedKeySettings, before: Mapping[str, ClientCounts]) -> Client:
        assert key.sha256 is not None, "a named key was given its digest"
        counts = None
        if key.is_limited:
            limits = Limits(key.requests_per_minute, key.tokens_per_minute, key.max_in_flight)
            counts = before.get(key.name)
            if counts is None:
                counts = self._new_counts(key.name, limits)
            else:
                counts.use(limits)
            self._counts[key.name] = counts
        fits = None if key.models is None else _matcher(key.models)
        return Client(key.name, bytes.fromhex(key.sha256.reveal()), key.key is not None, fits, counts)


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
