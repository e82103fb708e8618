"""Tokens in the URLs of uploads, which stand for the client that began them (contract 4.24).

Google's SDK sends the chunks of an upload to the URL that the start of it gave, without any key.  So the URL
that the gateway hands out carries a token: an HMAC over the provider, the path and the query with its upload
id, valid for a day.  Its key is derived from the digest of the client's edge key, of which the configuration
may hold no more: so all workers and hosts agree, the token stands for exactly that key with its limits, and
it dies with it.  A hint says which key that is, so that a token which somebody has made up is not compared
with each of them.

A client that has shown a token of an identity provider has no key.  The URL names such a client, and the key
of the HMAC is derived from a secret of the service and that name.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from hashlib import sha256
from typing import Final

import msgspec

from mgw.clients.client import Client, Identity
from mgw.clients.identity_clients import IdentityClients
from mgw.clients.key_hints import KeyHints, key_hint

PARAMETER: Final = "mgw"
"""Where the token of an upload stands in its URL."""
LIFETIME_SECONDS: Final = 24 * 60 * 60
_OF_KEY: Final = re.compile(r"([0-9]{1,12})-([0-9a-f]{8})-([0-9a-f]{64})").fullmatch
_OF_IDENTITY: Final = re.compile(r"([0-9]{1,12})-i([A-Za-z0-9_-]{1,32768})-([0-9a-f]{64})").fullmatch
"""Sixteen tags of 256 characters of four bytes take 24,000."""
_PURPOSE: Final = b"mgw upload address"


def upload_token(digest: bytes, address: bytes, now: float, identity: Identity | None = None) -> str:
    """Return the token of an address, which stands for the key with this SHA-256.

    :param address: the path and the query that it stands for, the provider among the parameters.
    :param now: unix seconds.
    :param identity: whose digest that is, where it is not of a key.
    """
    expires = int(now) + LIFETIME_SECONDS
    who = key_hint(digest) if identity is None else f"i{_written(identity)}"
    return f"{expires}-{who}-{_token_mac(digest, address, expires)}"


def key_of_token(keys: KeyHints, address: bytes, token: str, now: float) -> bytes | None:
    """Return the digest of the key that a token stands for on this address; compared in constant time."""
    match = _OF_KEY(token)
    if match is None or int(match[1]) < now:
        return None
    for digest in keys.find(match[2]):
        if hmac.compare_digest(_token_mac(digest, address, int(match[1])), match[3]):
            return digest
    return None


def identity_of_token(clients: IdentityClients, address: bytes, token: str, now: float) -> Client | None:
    """Return the client of an identity provider that a token stands for on this address, likewise."""
    match = _OF_IDENTITY(token)
    if match is None or int(match[1]) < now:
        return None
    identity = _read(match[2])
    if identity is None:
        return None
    mac = _token_mac(clients.digest_of(identity), address, int(match[1]))
    return clients.find(identity) if hmac.compare_digest(mac, match[3]) else None


def _written(identity: Identity) -> str:
    return urlsafe_b64encode(msgspec.json.encode(identity)).rstrip(b"=").decode()


def _read(text: str) -> Identity | None:
    try:
        return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Identity)
    except (Base64Error, msgspec.MsgspecError):
        return None


def _token_mac(digest: bytes, address: bytes, expires: int) -> str:
    derived = hmac.digest(digest, _PURPOSE, "sha256")
    return hmac.new(derived, b"%d\n%b" % (expires, address), sha256).hexdigest()
