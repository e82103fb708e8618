"""A configuration as bytes, for processes of the same service only.

The supervisor's process alone reads the file, so that all workers have the same configuration, whatever
becomes of the file while one after the other takes it.  A secret refuses to be pickled, as it might end on a
disk; here it may, since what is made of it goes through a socket pair that only the two processes have.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from mgw.config.key_settings import NamedKeySettings
from mgw.config.settings import Config
from mgw.nouns.secret import Secret


class _Pickler(pickle.Pickler):
    """A pickler that takes secrets."""

    def reducer_override(self, obj: Any) -> Any:  # Any: the interface's
        if isinstance(obj, Secret):
            return Secret, (obj.reveal(),)
        return NotImplemented


def pickle_config(config: Config) -> bytes:
    """Return the configuration as bytes that hold its secrets."""
    return _pickle(config)


def pickle_keys(keys: Sequence[NamedKeySettings]) -> bytes:
    """Return keys of key files as bytes that hold their digests."""
    return _pickle(tuple(keys))


def _pickle(value: object) -> bytes:
    stream = BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


def unpickle_config(data: bytes) -> Config:
    """Return the configuration of such bytes, which come from the supervisor's process and nowhere else."""
    # Pickle runs whatever the bytes say: they may come through our own socket pair and no other way.
    config = pickle.loads(data)  # noqa: S301  as just said
    assert isinstance(config, Config), "the supervisor sent something else"
    return config


def unpickle_keys(data: bytes) -> tuple[NamedKeySettings, ...]:
    """Return the keys of such bytes, on the same terms."""
    keys = pickle.loads(data)  # noqa: S301  as above
    assert isinstance(keys, tuple), "the supervisor sent something else"
    return keys
