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
from time import time
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from mgw.clients.client import Client, ClientRegistry, clients_of
from mgw.clients.key_memory import KeyMemory
from mgw.clients.key_table import KeyTable
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.key_settings import NamedKeySettings
from mgw.config.time_zones import zone_of
from mgw.credentials.provider import ClientKey
from mgw.exchange.rewritten_urls import PARAMETER, key_of_token
from mgw.memo.known_head import CHECKED_EACH_TIME, Caller
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.families import AUTHORIZATION, FAMILIES, KEY_HEADERS
from mgw.nouns.key_state import EndedKeyError, KeyState
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.web.hidden_keys import HiddenKeys
from mgw.wire.headers import RawHeaders
from mgw.wire.target import query_value, without_parameter

_TOKEN: Final = frozenset({PARAMETER})
_NAMES_A_CREDENTIAL: Final = re.compile(rb"(?i)key|token|auth|secret")

_IN_NO_CREDENTIAL: Final = re.compile(rb"[^!-~]|[\"'`,]")
"""What no provider's credential holds.  A proxy that joins repeated headers puts a comma between two of them,
and one of the two may be an edge key."""
_WRAPPING: Final = bytes(range(0x21)) + b"\"'`<>()[]{},;:+\x7f\x80\x85\x98\x99\x9c\x9d\xa0\xab\xbb\xc2\xe2"
"""What people and shells leave around a key: blanks, line breaks, quotes of all kinds in UTF-8, brackets."""
_BLANKED: Final = bytes.maketrans(_WRAPPING, b" " * len(_WRAPPING))
_is_bare: Final = re.compile(rb"[!#$&*./0-9=?@A-Z\\^_a-z|~-]+").fullmatch
"""Nothing to decode, nothing wrapped around it, and nothing that is part of no credential."""
_MOST_DECODINGS: Final = 3
_MOST_WORDS: Final = 16

_WORDS: Final = frozenset({b"host", b"content-type", b"content-encoding", b"accept"})
"""Headers whose words mean what they say, even where a short key is one of them."""

_WANTED: Final = "this gateway requires a gateway key: send Authorization: Bearer <key> or x-api-key: <key>"


class Upload(Struct, frozen=True):
    """A request to an upload address, which may bring a token in place of an edge key."""

    raw_path: bytes
    now: float
    """Unix seconds."""


_SUBPROTOCOL: Final = b"Sec-WebSocket-Protocol"
_QUERY: Final = b"?%b="

Carrier = tuple[bytes, bytes, bytes | None]
"""What carries a credential, the credential, and the scheme of ``Authorization``."""


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
    """

    def __init__(
        self,
        settings: EdgeAuthSettings,
        registry: ClientRegistry | None = None,
        others: Sequence[Secret] = (),
        wall: Callable[[], float] = time,
    ) -> None:
        self._closed = settings.enabled
        self._settings = settings
        self._registry = registry
        self._wall = wall
        self.keys = table = KeyTable(
            KeyMemory() if registry is None else registry.memory,
            zone_of(settings.timezone),
            frozenset(settings.names),
        )
        """The keys, and what has become of them."""
        self._clients = table.clients
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
        :raises GatewayError: ``EDGE_KEY`` where a key is wanted and none fits.
        """
        token_client = None
        if vouched is not None:
            raw_query, token_client = self._vouched(raw_query, vouched)
        carriers, others = _read_headers(family, headers)
        if carried is not None:
            carriers.append((_SUBPROTOCOL, carried, None))
        if raw_query is not None:
            carriers += _read_query(family, raw_query)
        client, left, ended = self._find_client(carriers)
        client = client or token_client
        if client is None and self._closed:
            raise _refusal(left, self._is_of_dashboard, ended)
        own, flaw = self._find_own(family, left)
        if raw_query is not None:
            raw_query = self._strip_query(family, raw_query)
        said = b"\n".join(others)
        hidden = self._hidden
        is_clean = b"%" not in said and b"+" not in said and hidden.search(said) is None  # as nearly always
        if not is_clean and any(map(hidden.are_mentioned, _readings(said))):
            headers = [pair for pair in headers if not self._repeats(*pair)]
        until = None if client is None else client.expires
        if token_client is not None:
            until = CHECKED_EACH_TIME
        return Caller(own, raw_query, headers, flaw, client if self._closed else None, until)

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
        return any(map(self._hidden.are_mentioned, _readings(b"\n".join(values))))

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
        return rest, None if digest is None else self.keys.find(digest, self._wall())

    def _find_client(self, carriers: list[Carrier]) -> tuple[Client | None, list[Carrier], KeyState | None]:
        """Return whose key is among the carriers, those that hold none, and what ended one that was valid."""
        client, left, ended = None, [], None
        for carrier in carriers:
            digest = sha256(carrier[1]).digest()
            found = self._clients.get(digest)
            if found is None or found.expires is not None:
                found = self.keys.find(digest, self._wall())
                state = self.keys.state_of(digest)
                if state is None:
                    left.append(carrier)
                    continue
            if digest in self._unseen:
                self._learn(digest, carrier[1])
            if found is None:
                ended = ended or state
            elif client is None or carrier[2] is not None:
                client = found
        return client, left, ended

    def _find_own(self, family: Family, carriers: list[Carrier]) -> tuple[ClientKey | None, str | None]:
        """Return the client's own credential, and what is wrong with one that could not be used."""
        own, first_flaw = None, None
        for name, value, scheme in carriers:
            flaw = self._flaw_of(value, name)
            if flaw is not None:
                first_flaw = first_flaw or flaw
            elif own is None or (own.scheme is None and scheme is not None):
                own = ClientKey(Secret(value.decode("latin-1")), scheme, family)
        return own, first_flaw

    def _strip_query(self, family: Family, raw_query: bytes) -> bytes | None:
        """Return a query without what is or repeats a credential."""
        if b"%" not in raw_query and _NAMES_A_CREDENTIAL.search(raw_query) is None:
            readings = (raw_query, raw_query.replace(b"+", b" "))
            if not any(map(self._hidden.are_mentioned, readings)):  # as nearly always
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
        if not (self.keys.memory.known or self._others):
            return False
        if any(map(self._hidden.are_mentioned, _readings(field))):  # in its name, too
            return True
        if _NAMES_A_CREDENTIAL.search(name) is None:
            return False
        return any(map(self._wraps, _readings(raw_value if equals else raw_name)))

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
            return _of_dashboard(carrier)
        if _is_bare(value) is not None and not self._hidden.are_mentioned(value):
            return None
        flaw = _visible_flaw(value, carrier)
        if flaw is not None:
            return flaw
        readings = _readings(value)
        if any(map(self._wraps, readings)) or any(map(self._hidden.are_mentioned, readings)):
            return _encoded(carrier)
        return None

    def _repeats(self, name: bytes, value: bytes) -> bool:
        lower = name.lower()
        if lower in KEY_HEADERS:  # which never go upstream as they are
            return False
        readings = _readings(value)
        if lower not in _WORDS:
            return any(map(self._hidden.are_mentioned, readings))
        return any(map(self._hidden.are_contained, readings))


def _nobody() -> None:
    """Nobody remembers what was let in."""


def _refusal(
    carriers: list[Carrier], is_of_dashboard: Callable[[bytes], bool], ended: KeyState | None
) -> GatewayError:
    """Return the refusal of a caller without an edge key, or with one that is valid no more.

    What is wrong with its credentials is said as far as they show it themselves.  They are not searched for
    edge keys: that takes a time which depends on the keys.
    """
    if ended is not None:
        return EndedKeyError(ended)
    for name, value, _ in carriers:
        flaw = _of_dashboard(name) if is_of_dashboard(value) else _visible_flaw(value, name)
        if flaw is not None:
            return GatewayError(Reason.EDGE_KEY, f"{_WANTED}; {flaw}")
    return GatewayError(Reason.EDGE_KEY, _UNKNOWN[carriers[0][0]] if carriers else _WANTED)


def _of_dashboard(carrier: bytes) -> str:
    return f"the credential {_shown(carrier)} is a dashboard key, which is valid only for the dashboard"


def _encoded(carrier: bytes) -> str:
    return f"the credential {_shown(carrier)} is encoded or has extra characters: send the key unchanged"


def _visible_flaw(value: bytes, carrier: bytes) -> str | None:
    """Say why a value is nobody's credential, whatever keys there are."""
    if not value:
        return "the Authorization header does not have the form 'Bearer <key>'"
    flaw = _IN_NO_CREDENTIAL.search(value)
    if flaw is not None:
        return f"the credential {_shown(carrier)} contains {_named(flaw[0])}, which is not allowed in a key"
    return _encoded(carrier) if any(map(_IN_NO_CREDENTIAL.search, _decodings(value))) else None


def _read_headers(family: Family, headers: RawHeaders) -> tuple[list[Carrier], list[bytes]]:
    """Return the carriers among the headers, and the values of the others."""
    carriers, others = [], []
    for raw_name, raw_value in headers:
        name = raw_name.lower()
        if name not in KEY_HEADERS:
            others.append(raw_value)
            continue
        value, scheme = _carried(family, name, raw_value)
        if value is not None:
            carriers.append((name, value, scheme))
    return carriers, others


def _read_query(family: Family, raw_query: bytes) -> list[Carrier]:
    """Return the carriers in a query."""
    parameter = FAMILIES[family].key_parameter
    if parameter is None or (b"%" not in raw_query and parameter not in raw_query):
        return []
    carriers: list[Carrier] = []
    for field in raw_query.split(b"&"):
        raw_name, _, raw_value = field.partition(b"=")
        if raw_value and (unquote_to_bytes(raw_name) if b"%" in raw_name else raw_name) == parameter:
            carriers.append((_QUERY % parameter, unquote_to_bytes(raw_value.replace(b"+", b" ")), None))
    return carriers


def _decodings(raw: bytes) -> list[bytes]:
    """Return what a value says, and what it says percent-decoded, over and over."""
    found = [raw]
    while b"%" in found[-1] and len(found) <= _MOST_DECODINGS:
        found.append(unquote_to_bytes(found[-1]))
    return found


def _readings(raw: bytes) -> list[bytes]:
    """Return what a value may stand for in a header or in a form, where ``+`` is a blank."""
    found = _decodings(raw)
    return found + _decodings(raw.replace(b"+", b" ")) if b"+" in raw else found


def _shown(carrier: bytes) -> str:
    return "after Bearer" if carrier == AUTHORIZATION else f"in {carrier.decode()}"


_UNKNOWN: Final = MappingProxyType(
    {
        carrier: f"{_WANTED}; the credential {_shown(carrier)} is not a gateway key"
        for carrier in (
            *KEY_HEADERS,
            _SUBPROTOCOL,
            *(_QUERY % row.key_parameter for row in FAMILIES.values() if row.key_parameter is not None),
        )
    }
)
"""The refusals by what carried the first of them: strangers may ask often, and this costs no call."""


def _named(character: bytes) -> str:
    if character in b" \t":
        return "a space or tab"
    if character in b"\r\n":
        return "a line break"
    if character == b",":
        return "a comma"
    return "a quotation mark" if character in b"\"'`" else "a character outside visible ASCII"


def _carried(family: Family, name: bytes, raw_value: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the credential of a carrier, if it counts here, and the scheme of ``Authorization``."""
    row = FAMILIES[family]
    if name == AUTHORIZATION:
        scheme, _, value = raw_value.partition(b" ")
        known = scheme.lower() in row.key_schemes
        # RFC 9110 11.4: any number of spaces between the two, and nothing else
        return (value.strip(b" "), scheme) if known else (b"", None)
    if raw_value and name in row.key_headers:
        return raw_value, None
    return None, None
