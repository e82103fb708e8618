"""A secret that all processes of a service share, and no other service."""

from __future__ import annotations

from hashlib import sha256
from os import urandom
from typing import Final

from mgw.config.edge_auth import EdgeAuthSettings, digest_of
from mgw.config.key_settings import NamedKeySettings

_RANDOM: Final = urandom(32)
"""Made before the first worker is forked, so that all workers have it (:mod:`mgw.app.shared_imports`)."""
_FEWEST: Final = 2
_PURPOSE: Final = b"mgw service secret\n"


def service_secret(settings: EdgeAuthSettings) -> bytes:
    """Return a secret that is derived from the keys of a configuration, so that hosts agree on it.

    With fewer than two keys, it is one that this service has made up: whoever has the only key knows all that
    it would be derived from, and could make addresses in anybody's name.
    """
    digests = []
    for key in settings.keys:
        if not isinstance(key, NamedKeySettings):
            digests.append(digest_of(key))
        elif key.sha256 is not None:
            digests.append(key.sha256.reveal())
    if len(digests) < _FEWEST:
        return _RANDOM
    return sha256(_PURPOSE + "\n".join(sorted(digests)).encode()).digest()
