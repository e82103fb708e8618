"""Authentication of clients, and which of their credentials is the gateway key (contract 3.1 to 3.5).

All carriers are looked at, none is logged: the first that matches an edge key opens the gate, the first that
matches none is the client's own credential.  ``Authorization`` comes before the other carriers, wherever it
stands among the headers.  An edge key never goes upstream, whatever carried it and however it was wrapped: a
key in quotes or with a line break behind it opens nothing, and is nobody's own credential either.

The carriers are read first, and a caller without an edge key is refused by the look-up of a digest alone.
What else came with the request is searched for keys only where it may go upstream: the time that a search
takes depends on the keys, and is nothing for a stranger to measure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from math import inf
from time import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from mgw.clients.client import Client, ClientRegistry, clients_of
from mgw.clients.key_memory import KeyMemory
from mgw.clients.key_table import KeyTable
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.key_settings import NamedKeySettings
from mgw.config.time_zones import zone_of
from mgw.credentials.provider import CallerToken, ClientKey
from mgw.exchange.upload_tokens import PARAMETER, identity_of_token, key_of_token
from mgw.memo.known_head import CHECKED_EACH_TIME, Caller
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.families import FAMILIES, KEY_HEADERS
from mgw.nouns.key_state import EndedKeyError, KeyState
from mgw.nouns.secret import Secret
from mgw.nouns.token_refusal import TokenRefusedError
from mgw.nouns.vocabulary import Family
from mgw.web.carriers import (
    QUERY,
    SUBPROTOCOL,
    Carrier,
    dashboard_flaw,
    encoded_flaw,
    place_of,
    read_headers,
    read_query,
    readings,
    visible_flaw,
)
from mgw.web.hidden_keys import HiddenKeys
from mgw.web.pending_keys import PendingKeysError
from mgw.wire.headers import RawHeaders
from mgw.wire.target import query_value, without_parameter

if TYPE_CHECKING:
    from mgw.web.token_gate import TokenGate  # imported where there are issuers

_TOKEN: Final = frozenset({PARAMETER})
_NAMES_A_CREDENTIAL: Final = re.compile(rb"(?i)key|token|auth|secret")

_WRAPPING: Final = bytes(range(0x21)) + b"\"'`<>()[]{},;:+\x7f\x80\x85\x98\x99\x9c\x9d\xa0\xab\xbb\xc2\xe2"
"""What people and shells leave around a key: blanks, line breaks, quotes of all kinds in UTF-8, brackets."""
_BLANKED: Final = bytes.maketrans(_WRAPPING, b" " * len(_WRAPPING))
_is_bare: Final = re.compile(rb"[!#$&*./0-9=?@A-Z\\^_a-z|~-]+").fullmatch
"""Nothing to decode, nothing wrapped around it, and nothing that is part of no credential."""
_MOST_WORDS: Final = 16

_MOST_TOKENS: Final = 8
"""How many tokens of one request are checked, which takes strangers' requests most of their time."""

_WORDS: Final = frozenset({b"host", b"content-type", b"content-encoding", b"accept"})
"""Headers whose words mean what they say, even where a short key is one of them."""

_WANTED: Final = "this gateway requires a gateway key: send Authorization: Bearer <key> or x-api-key: <key>"
_ALTERNATIVE: Final = "a token of a configured issuer can take the place of the key"


class Upload(Struct, frozen=True):
    """A request to an upload address, which may bring a token in place of an edge key."""

    raw_path: bytes
    now: float
    """Unix seconds."""


class _Found(Struct, eq=False):
    """What the carriers of a request hold."""

    client: Client | None = None
    """Whose key or token opens the gate: that of the first ``Authorization``, else the first."""
    scheme: bytes | None = None
    """That of ``Authorization``, where it was there."""
    until: float | None = None
    """When that ends, in Unix seconds."""
    token: CallerToken | None = None
    """The token, if it is one."""
    left: list[Carrier] = []
    """Carriers of nothing that is the gateway's."""
    ended: KeyState | None = None
    """What ended a key that was valid once."""
    token_refusal: TokenRefusedError | None = None
    tokens: int = 0
    """How many there were."""


def prepare_gate(
    registry: ClientRegistry,
    settings: EdgeAuthSettings,
    others: Sequence[Secret],
    further: Sequence[NamedKeySettings] = (),
) -> None:
    """Do what takes long of making the next gate: thousands of keys take seconds.

    A thread may do it.

    :param further: keys of key files.
    """
    registry.prepare(settings, further)
    HiddenKeys(_values_of(settings, others))  # so are the patterns of the keys


def _values_of(settings: EdgeAuthSettings, others: Sequence[Secret]) -> list[bytes]:
    return [key.reveal().encode("latin-1") for key in (*settings.secrets, *others)]


class EdgeGate:
    """The edge keys of one configuration, compared in constant time.

    :param others: keys of the dashboard, which are no client's credential either.
    :param tokens: those of identity providers, which open the gate too.
    """

    def __init__(
        self,
        settings: EdgeAuthSettings,
        registry: ClientRegistry | None = None,
        others: Sequence[Secret] = (),
        wall: Callable[[], float] = time,
        tokens: TokenGate | None = None,
    ) -> None:
        self._closed = settings.enabled
        self._settings = settings
        self._registry = registry
        self._wall = wall
        self.tokens = tokens
        self.keys = table = KeyTable(
            KeyMemory() if registry is None else registry.memory,
            zone_of(settings.timezone),
            frozenset(settings.names),
        )
        """The keys, and what has become of them."""
        self._clients = table.clients
        self._known = table.memory.known
        self._unseen: set[bytes] = set()
        """The digests of keys that nobody has sent yet."""
        self._seen: set[bytes] = set()
        """The digests of keys that were sent and are hidden since."""
        further = [] if registry is None else registry.usable(settings)
        found = clients_of(settings) if registry is None else registry.clients_of(settings, further).values()
        self._put(found, [*settings.named, *further])
        self.learned: list[Secret] = []
        """Keys that were configured by their digests, and have been sent since."""
        self.on_learned: Callable[[], None] = _nobody
        """Called when there is one more, which may stand in what was let in before."""
        self._others = {sha256(key.reveal().encode("latin-1")).digest() for key in others}
        """The digests of keys that are the gateway's too, and open nothing here."""
        self._hidden = HiddenKeys(_values_of(settings, others))

    def admit(
        self,
        family: Family,
        headers: RawHeaders,
        raw_query: bytes | None,
        vouched: Upload | Client | None = None,
        carried: bytes | None = None,
    ) -> Caller:
        """Let a request in.

        :param family: of the route, which decides what counts as a carrier.
        :param vouched: takes the place of a key: an upload's token in the query, or whom a good token names.
        :param carried: the key that a subprotocol of a WebSocket carries.
        :raises GatewayError: ``EDGE_KEY`` where a key is wanted and none fits, and the refusals of tokens.
        """
        vouched_client = None
        if vouched is not None:
            raw_query, vouched_client = self._vouched(raw_query, vouched)
        carriers, others = read_headers(family, headers)
        if carried is not None:
            carriers.append((SUBPROTOCOL, carried, None))
        if raw_query is not None:
            carriers += read_query(family, raw_query)
        found = self._find_client(carriers)
        client = found.client or vouched_client
        if client is None and self._closed:
            raise found.token_refusal or _refusal(found.left, self._is_of_dashboard, found.ended, self.tokens)
        own, flaw = self._find_own(family, found.left)
        if raw_query is not None:
            raw_query = self._strip_query(family, raw_query)
        said, tokens = b"\n".join(others), self.tokens
        is_clean = b"%" not in said and b"+" not in said and self._hidden.search(said) is None
        if (not is_clean or tokens is not None) and any(map(self._are_mentioned, readings(said))):
            headers = [pair for pair in headers if not self._repeats(*pair)]
        until, token = found.until, found.token
        if vouched_client is not None or found.token_refusal is not None:
            until = CHECKED_EACH_TIME
        ends = inf if token is None else token.ends
        return Caller(own, raw_query, headers, flaw, client if self._closed else None, until, ends, token)

    def find_client(self, digest: bytes) -> Client | None:
        """Return whose key with this digest opens the gate now."""
        return self.keys.find(digest, self._wall())

    def change(self, changed: Sequence[NamedKeySettings], gone: Sequence[str]) -> None:
        """Take over what has become of key files."""
        assert self._registry is not None, "who has key files has a registry"
        own = set(self._settings.names)
        for name in (*gone, *(key.name for key in changed)):
            if name not in own:
                self.keys.remove(name)
        self._put(self._registry.change(self._settings, changed, gone), changed)

    def _put(self, clients: Iterable[Client], keys: Sequence[NamedKeySettings]) -> None:
        by_name, now = {key.name: key for key in keys}, self._wall()
        for client in clients:
            for one in self.keys.add(client, by_name.get(client.name), now):
                if not one.is_known and one.digest not in self._seen:
                    self._unseen.add(one.digest)

    def repeats_key(self, values: Sequence[bytes]) -> bool:
        """Whether one of these values of headers, which carry no credential, repeats an edge key."""
        return any(map(self._are_mentioned, readings(b"\n".join(values))))

    def _are_mentioned(self, words: bytes) -> bool:
        """Whether a key or token stands among other words."""
        if self._hidden.are_mentioned(words):
            return True
        return self.tokens is not None and self.tokens.are_mentioned(words)

    def _vouched(
        self, raw_query: bytes | None, vouched: Upload | Client
    ) -> tuple[bytes | None, Client | None]:
        """Take the token of an upload out of a query; return the rest, and for whom the gate opens."""
        if isinstance(vouched, Client):
            return raw_query, vouched
        return (None, None) if raw_query is None else self._without_token(raw_query, vouched)

    def _without_token(self, raw_query: bytes, upload: Upload) -> tuple[bytes | None, Client | None]:
        """Take the token out of a query; return the rest, and for whom the token opens this address."""
        token = query_value(raw_query, PARAMETER)
        if token is None:
            return raw_query, None
        rest = without_parameter(raw_query, _TOKEN)
        address = upload.raw_path + b"?" + (rest or b"")
        digest = key_of_token(self.keys.hints, address, token, upload.now)
        if digest is not None:
            return rest, self.keys.find(digest, self._wall())
        of_tokens = None if self.tokens is None else self.tokens.clients
        return rest, None if of_tokens is None else identity_of_token(of_tokens, address, token, upload.now)

    def _find_client(self, carriers: list[Carrier]) -> _Found:
        """Look for keys and tokens among the carriers."""
        found = _Found()
        for carrier in carriers:
            digest = sha256(carrier[1]).digest()
            client = self._clients.get(digest)
            if client is None and digest not in self._known:
                if self.tokens is None or not self._find_token(found, carrier, digest):
                    found.left.append(carrier)  # where tokens that are not checked open nothing either
                continue
            if client is None or client.expires is not None:
                client = self.keys.find(digest, self._wall())
                if client is None:
                    found.ended = found.ended or self.keys.state_of(digest)
            if digest in self._unseen:
                self._learn(digest, carrier[1])
            comes_first = found.client is None or (found.scheme is None and carrier[2] is not None)
            if client is not None and comes_first:
                found.client, found.until, found.token = client, client.expires, None
                found.scheme = carrier[2]
        return found

    def _find_token(self, found: _Found, carrier: Carrier, digest: bytes) -> bool:
        """Whether a carrier holds a token of a configured issuer; what that opens is noted."""
        assert self.tokens is not None
        if found.tokens >= _MOST_TOKENS:
            return False
        known = self.tokens.find(carrier[1], digest)
        if isinstance(known, TokenRefusedError):
            if found.token_refusal is None or isinstance(known, PendingKeysError):  # which may pass yet
                found.token_refusal = known
        elif known is not None and (
            found.client is None or (found.scheme is None and carrier[2] is not None)
        ):
            found.client, found.until, found.scheme = known.client, known.until, carrier[2]
            found.token = CallerToken(known.value, known.until, known.ends, known.expires)
        found.tokens += known is not None
        return known is not None

    def _find_own(self, family: Family, carriers: list[Carrier]) -> tuple[ClientKey | None, str | None]:
        """Return the client's own credential, and what is wrong with one that could not be used."""
        own, first_flaw = None, None
        for name, value, scheme in carriers:
            flaw = self._flaw_of(value, name)
            if flaw is not None:
                first_flaw = first_flaw or flaw
            elif own is None or (own.scheme is None and scheme is not None):
                kind_header = name if name in FAMILIES[family].kind_key_headers else None
                own = ClientKey(Secret(value.decode("latin-1")), scheme, family, kind_header)
        return own, first_flaw

    def _strip_query(self, family: Family, raw_query: bytes) -> bytes | None:
        """Return a query without what is or repeats a credential."""
        if b"%" not in raw_query and _NAMES_A_CREDENTIAL.search(raw_query) is None:
            both = (raw_query, raw_query.replace(b"+", b" "))
            if not any(map(self._are_mentioned, both)):  # as nearly always
                return raw_query
        fields = raw_query.split(b"&")
        kept = [field for field in fields if not self._is_taken(family, field)]
        if len(kept) == len(fields):
            return raw_query
        return b"&".join(kept) or None

    def _is_taken(self, family: Family, field: bytes) -> bool:
        raw_name, equals, raw_value = field.partition(b"=")
        name = unquote_to_bytes(raw_name) if b"%" in raw_name else raw_name
        if name == FAMILIES[family].key_parameter:
            return True
        if not (self.keys.memory.known or self._others or self.tokens is not None):
            return False
        if any(map(self._are_mentioned, readings(field))):  # in its name, too
            return True
        if _NAMES_A_CREDENTIAL.search(name) is None:
            return False
        return any(map(self._wraps, readings(raw_value if equals else raw_name)))

    def _learn(self, digest: bytes, value: bytes) -> None:
        """Hide a key from now on that was known by its digest alone."""
        self._unseen.discard(digest)
        self._seen.add(digest)
        self.learned.append(Secret(value.decode("latin-1")))
        self._hidden.add(value)
        self.on_learned()

    def _fits(self, value: bytes) -> bool:
        digest = sha256(value).digest()
        return digest in self.keys.memory.known or digest in self._others

    def _wraps(self, value: bytes) -> bool:
        """Whether a value is an edge key, as it is or with something around it."""
        if self._fits(value) or self._fits(value.strip(_WRAPPING)):
            return True
        words = value.translate(_BLANKED).split(b" ", _MOST_WORDS)
        return len(words) > 1 and any(map(self._fits, words))

    def _is_of_dashboard(self, value: bytes) -> bool:
        """Whether a value is one of the keys that are the gateway's too, and open nothing here."""
        return bool(self._others) and sha256(value).digest() in self._others

    def _flaw_of(self, value: bytes, carrier: bytes) -> str | None:
        """Say why a value, which is no edge key, is no credential; not whether an edge key is inside."""
        if self._is_of_dashboard(value):
            return dashboard_flaw(carrier)
        if _is_bare(value) is not None and not self._are_mentioned(value):
            return None
        flaw = visible_flaw(value, carrier)
        if flaw is not None:
            return flaw
        found = readings(value)
        if any(map(self._wraps, found)) or any(map(self._are_mentioned, found)):
            return encoded_flaw(carrier)
        return None

    def _repeats(self, name: bytes, value: bytes) -> bool:
        lower = name.lower()
        if lower in KEY_HEADERS:  # which never go upstream as they are
            return False
        found = readings(value)
        if lower not in _WORDS:
            return any(map(self._are_mentioned, found))
        return any(map(self._are_contained, found))

    def _are_contained(self, words: bytes) -> bool:
        """Whether a token, or a key that is too long to be a word, stands within these words."""
        if self._hidden.are_contained(words):
            return True
        return self.tokens is not None and self.tokens.are_mentioned(words)


def _nobody() -> None:
    """Nobody remembers what was let in."""


def _refusal(
    carriers: list[Carrier],
    is_of_dashboard: Callable[[bytes], bool],
    ended: KeyState | None,
    tokens: TokenGate | None,
) -> GatewayError:
    """Return the refusal of a caller without an edge key, or with one that is valid no more.

    What is wrong with its credentials is said as far as they show it themselves.  They are not searched for
    edge keys: that takes a time which depends on the keys.
    """
    if ended is not None:
        return EndedKeyError(ended)
    for name, value, _ in carriers:
        flaw = dashboard_flaw(name) if is_of_dashboard(value) else visible_flaw(value, name)
        if flaw is not None:
            return GatewayError(Reason.EDGE_KEY, f"{_WANTED}; {flaw}")
    if not carriers:
        return GatewayError(Reason.EDGE_KEY, _WANTED if tokens is None else f"{_WANTED}; {_ALTERNATIVE}")
    name, value, _ = carriers[0]
    if tokens is not None and tokens.is_foreign(value):
        said = f"the token {place_of(name)} is of an issuer that is not configured here"
        # Claude Code shows this only because it does not name x-api-key, of which it makes "Not logged in".
        return GatewayError(Reason.EDGE_KEY, f"{said}: send a gateway key, or a token of an issuer that is")
    return GatewayError(Reason.EDGE_KEY, _UNKNOWN[name])


_UNKNOWN: Final = MappingProxyType(
    {
        carrier: f"{_WANTED}; the credential {place_of(carrier)} is not a gateway key"
        for carrier in (
            *KEY_HEADERS,
            SUBPROTOCOL,
            *(QUERY % row.key_parameter for row in FAMILIES.values() if row.key_parameter is not None),
        )
    }
)
"""The refusals by what carried the first of them: strangers may ask often, and this costs no call."""
