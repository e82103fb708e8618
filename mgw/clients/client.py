"""A client with a gateway key or a token: its name, groups, models, limits, and until when its key is valid.

The clients of a configuration are made with it.  What they have used outlives it: :class:`ClientRegistry`
belongs to the process and keeps the counts by the names of the keys.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import Final

from msgspec import Struct

from mgw.clients.client_groups import Matcher, highest_priority, matchers_of, never, tags_of
from mgw.clients.client_limits import (
    OF_EACH,
    OF_ISSUER,
    limits_of_client,
    limits_of_issuer,
    shared_limits,
)
from mgw.clients.client_refusals import limit_refusal
from mgw.clients.key_memory import KeyMemory
from mgw.clients.limits import ONE_REQUEST, Counts, LimitReached, Limits, Permit, Taken
from mgw.config.edge_auth import EdgeAuthSettings, digest_of
from mgw.config.key_settings import NamedKeySettings
from mgw.config.time_zones import zone_of
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import DIGEST_PREFIX, KEY_HASH_DIGITS, Secret
from mgw.nouns.vocabulary import Priority

_MODELS = "models/"
_CLIMBS = re.compile(r"(?:.*[/\\])?\.\.?(?:[/\\].*)?", re.DOTALL).fullmatch
"""A name with a segment ``.`` or ``..``: a host that writes it into a path asks for another model."""
_OTHER: Final = "other"
"""What metrics call all clients without a named key or a token."""
_TOKENS: Final = ":"
"""Under this name the rows that clients with tokens share are in use; no client has it."""
_USE_LISTED: Final = (
    "use one that GET /v1/models lists; if it lists none, ask the operator which models the {what} may use"
)


class Identity(Struct, frozen=True, array_like=True):
    """Whom a token names, and what it gives."""

    issuer: str
    """The name of the issuer's entry."""
    value: str
    """That of the claim which names the client."""
    groups: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The client's name."""
        return f"{self.issuer}:{self.value}"


class Client(Struct, eq=False, frozen=True):
    """A client that has a key or a token."""

    name: str
    """The client's name in events: that of its key, else the first digits of the key's digest; of a token,
    ``corp:ann@example.com``."""
    digest: bytes
    """The SHA-256 of its key; empty: it has none."""
    is_known: bool = True
    """Whether the key itself is known, not its digest alone."""
    fits: tuple[Matcher, ...] = ()
    """Whether a pattern fits a model, in lower case: one for its own patterns, one for those of its groups.
    It may use what each of them fits; without any, it may use every model."""
    limits: Limits = ()
    """All rows that hold for it."""
    counts: Counts | None = None
    """What counts the use of its limits; ``None``: it has none."""
    groups: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    """Names and values that its usage events contain."""
    priority: Priority = Priority.INTERACTIVE
    expires: float | None = None
    """The first moment at which its key is no longer valid, in Unix seconds; ``None``: there is none."""
    zone: str = "UTC"
    """The name of the time zone in which the periods of its limits begin."""
    issuer: str | None = None
    """The name of the entry of its token's issuer, which metrics call it by; ``None``: it has a key."""

    def __repr__(self) -> str:  # the digest is worth a token of uploads
        return f"Client({self.name!r})"

    @property
    def identity(self) -> Identity | None:
        """Whom a token has named, where the client has no key."""
        if self.issuer is None:
            return None
        value = self.name.removeprefix(f"{self.issuer}:")
        return Identity(self.issuer, value, self.groups, self.tags)

    def may_use(self, asked: str, provider: str | None, model: str | None) -> bool:
        """Whether it may use a model.

        :param asked: the name that the request says.
        :param provider: of what it stands for, if that is known; ``model`` likewise.
        """
        if not self.fits:
            return True
        if _CLIMBS(asked) is not None:
            return False
        names = [asked.removeprefix(_MODELS).lower()]
        if provider is not None and model is not None:
            names.append(f"{provider}/{model.removeprefix(_MODELS)}".lower())
        return all(any(map(fits, names)) for fits in self.fits)

    def check_model(self, asked: str, provider: str | None, model: str | None, param: str = "model") -> None:
        """Refuse a model that it may not use, which stands in ``param``.

        :raises GatewayError: ``UNKNOWN_MODEL``.
        """
        if not self.may_use(asked, provider, model):
            what = "key" if self.issuer is None else "token"
            use = f"this {what} may use no model" if never in self.fits else _USE_LISTED.format(what=what)
            for_whom = "for this key:" if self.issuer is None else "for this token:"
            message = f"no model is named {asked[:200]!r} {for_whom} {use}"
            raise GatewayError(Reason.UNKNOWN_MODEL, message, param=param)

    def begin(self, held: Taken = ONE_REQUEST) -> Permit | Awaitable[Permit | LimitReached] | None:
        """Count a request that begins; ``None``: there is nothing to count.

        :param held: what rows that reserve count until its end.
        :raises GatewayError: ``CLIENT_LIMIT`` or ``CLIENT_BUDGET``, where it is one too many; then nothing is
            counted.
        """
        if self.counts is None:
            return None
        found = self.counts.begin(self.limits, held)
        if isinstance(found, LimitReached):
            raise limit_refusal(found, self.zone)
        return found

    def check_room(self) -> None:
        """Refuse a request that is known at once to be one too many; nothing is counted.

        :raises GatewayError: ``CLIENT_LIMIT`` or ``CLIENT_BUDGET``.
        """
        found = None if self.counts is None else self.counts.find_full(self.limits)
        if found is not None:
            raise limit_refusal(found, self.zone)


class PreparedClients(Struct, frozen=True):
    """Clients that were made before their configuration is used."""

    settings: EdgeAuthSettings | None = None
    made: Mapping[str, tuple[NamedKeySettings, Client]] = {}
    """Keys and their clients, by name."""

    def client_of(self, key: NamedKeySettings, settings: EdgeAuthSettings, counts: Counts | None) -> Client:
        """Return the client of a key, which may be another one by now."""
        made = self.made.get(key.name) if self.settings is settings else None
        return named_client(key, settings, counts) if made is None or made[0] is not key else made[1]


class ClientRegistry:
    """The clients of the process's configurations, one after the other, as far as they have limits.

    :param counts: what counts the use of their limits.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._limited: dict[str, Limits] = {}
        self._removed: Set[str] = frozenset()
        """Those that the latest configuration has no more: the next one may restore them."""
        self.memory = KeyMemory()
        self.file_keys: dict[str, NamedKeySettings] = {}
        """The keys of key files by name, which come and go without another configuration."""
        self._prepared = PreparedClients()
        self._of_issuers: list[Limits] = []
        """The rows under which refusals of clients with tokens are counted, for each entry."""

    def prepare(self, settings: EdgeAuthSettings, further: Iterable[NamedKeySettings] = ()) -> None:
        """Make the clients of the next configuration's key files: thousands of them take long.

        A thread may do it; keys that come meanwhile are made when they are asked for.

        :param further: keys of which it is not known yet whether they are in force.
        """
        known = self.usable(settings, list(self.file_keys.values()))
        made = {key.name: (key, named_client(key, settings, self._counts)) for key in known}
        for key in (*settings.named, *further):
            if key.name not in made or made[key.name][0] is not key:
                matchers_of(key.models, key.groups, settings)  # its patterns are kept
        self._prepared = PreparedClients(settings, made)

    def clients_of(
        self, settings: EdgeAuthSettings, further: Sequence[NamedKeySettings] = ()
    ) -> Mapping[bytes, Client]:
        """Return the clients of a configuration by the digests of their keys; its limits hold from now on.

        :param further: keys that stand elsewhere.
        """
        before, self._limited = self._limited, {}
        clients: dict[bytes, Client] = {}
        prepared, self._prepared = self._prepared, PreparedClients()
        of_files = (prepared.client_of(key, settings, self._counts) for key in further)
        for client in chain(clients_of(settings, self._counts), of_files):
            clients.setdefault(client.digest, client)
        for client in clients.values():
            if client.limits:
                self._limited[client.name] = client.limits
                self._counts.use(client.name, client.limits)
        self._use_issuers(settings)
        for name in self._removed - self._limited.keys():
            self._counts.use(name, ())
        self._removed = before.keys() - self._limited.keys()
        return clients

    def usable(
        self, settings: EdgeAuthSettings, keys: Iterable[NamedKeySettings] | None = None
    ) -> list[NamedKeySettings]:
        """Return those keys of key files that a configuration has room for.

        While a reload goes from one process to the next, files may still fit the configuration before.

        :param keys: ``None``: all that there are.
        """
        own, groups = set(settings.client_names), settings.groups.keys()
        found = self.file_keys.values() if keys is None else keys
        return [key for key in found if key.name not in own and groups >= set(key.groups)]

    def change(
        self, settings: EdgeAuthSettings, changed: Sequence[NamedKeySettings], gone: Sequence[str]
    ) -> list[Client]:
        """Take over what has become of key files; return the clients of those that are new or changed."""
        self.file_keys.update({key.name: key for key in changed})
        for name in gone:
            self.file_keys.pop(name, None)
        own = set(settings.client_names)
        clients = [named_client(key, settings, self._counts) for key in self.usable(settings, changed)]
        for name in [*gone, *(client.name for client in clients if not client.limits)]:
            if name not in own and self._limited.pop(name, None) is not None:
                self._counts.use(name, ())
        for client in clients:
            if client.limits:
                self._limited[client.name] = client.limits
                self._counts.use(client.name, client.limits)
        return clients

    def _use_issuers(self, settings: EdgeAuthSettings) -> None:
        """Know the rows that clients with tokens share: nobody may forget what was counted in them."""
        self._of_issuers = [limits_of_issuer(entry, settings) for entry in settings.jwt]
        if settings.jwt:
            shared = tuple(shared_limits(settings))
            self._counts.use(_TOKENS, shared)
            if shared:
                self._limited[_TOKENS] = shared

    def refusals(self) -> list[tuple[str, str, int]]:
        """Return each holder and each limit that it has, and how often that stood against a request.

        Of what each client has separately, the holder is the client, or the issuer of its token.
        """
        counted = self._counts.refusals()
        found: dict[tuple[str, str], int] = {}
        known = chain(self._limited.values(), self._of_issuers)
        rows = {row.key: row for limits in known for row in limits if row.refuses}
        for row in rows.values():
            name, _, of = row.holder.partition(OF_EACH)
            label = of.removesuffix(OF_ISSUER) or name
            key = (_OTHER if label.startswith(DIGEST_PREFIX) else label, row.limit.name)
            found[key] = found.get(key, 0) + counted.get((row.holder, row.limit.name), 0)
        return [(name, limit, count) for (name, limit), count in found.items()]


def clients_of(
    settings: EdgeAuthSettings, counts: Counts | None = None, further: Iterable[NamedKeySettings] = ()
) -> list[Client]:
    """Return the clients of a configuration.

    :param counts: counts the use of their limits; ``None``: nobody does.
    :param further: keys that stand elsewhere.
    """
    return [
        _unnamed(key, settings, counts) if isinstance(key, Secret) else named_client(key, settings, counts)
        for key in (*settings.keys, *further)
    ]


def named_client(key: NamedKeySettings, settings: EdgeAuthSettings, counts: Counts | None) -> Client:
    """Return the client of a key with a name."""
    assert key.sha256 is not None, "a named key was given its digest"
    limits = limits_of_client(key.name, key, settings)
    return Client(
        name=key.name,
        digest=bytes.fromhex(key.sha256.reveal()),
        is_known=key.key is not None,
        fits=matchers_of(key.models, key.groups, settings),
        limits=limits,
        counts=counts if limits else None,
        groups=key.groups,
        tags=tags_of(key.groups, key.tags, settings),
        priority=key.priority or highest_priority(key.groups, settings),
        expires=None if key.expires is None else key.expires.ends(zone_of(settings.timezone)),
        zone=settings.timezone,
    )


def _unnamed(key: Secret, settings: EdgeAuthSettings, counts: Counts | None) -> Client:
    digest = digest_of(key)
    name = f"{DIGEST_PREFIX}{digest[:KEY_HASH_DIGITS]}"
    limits = limits_of_client(name, None, settings)
    return Client(
        name,
        bytes.fromhex(digest),
        limits=limits,
        counts=counts if limits else None,
        zone=settings.timezone,
    )
