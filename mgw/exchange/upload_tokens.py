"""What stands for an edge key on one upload address (contract 4.24).

Google's SDK sends the chunks of an upload to the address that the start of it gave, without any key.  So the
address that the gateway hands out carries a token: an HMAC over the provider, the path and the query with its
upload id, good for a day.  It is keyed from the edge keys, so that all workers and hosts agree, and so that
it dies with the key that it stands for.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from mgw.secret import Secret

PARAMETER: Final = "mgw"
LIFETIME_SECONDS: Final = 24 * 60 * 60
_TOKEN: Final = re.compile(r"([0-9]{1,12})-([0-9a-f]{64})")
_PURPOSE: Final = b"mgw upload address"


def upload_token(keys: Sequence[Secret], address: bytes, now: float) -> str:
    """Return the token of an address; the first of the edge keys vouches for it.

    :param address: the path and the query that it stands for, the provider among the parameters.
    :param now: unix seconds.
    """
    expires = int(now) + LIFETIME_SECONDS
    return f"{expires}-{_mac(keys[0], address, expires)}"


def is_good(keys: Sequence[Secret], address: bytes, token: str, now: float) -> bool:
    """Whether a token stands for one of the edge keys on this address; compared in constant time."""
    match = _TOKEN.fullmatch(token)
    if match is None or int(match[1]) < now:
        return False
    good = False
    for key in keys:
        good |= hmac.compare_digest(_mac(key, address, int(match[1])), match[2])
    return good


def _mac(key: Secret, address: bytes, expires: int) -> str:
    derived = hmac.digest(key.reveal().encode("latin-1"), _PURPOSE, "sha256")
    return hmac.new(derived, b"%d\n%b" % (expires, address), sha256).hexdigest()
