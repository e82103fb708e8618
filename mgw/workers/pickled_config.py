"""A configuration as bytes, for processes of the same service only.

The supervisor's process alone reads the file, so that all workers have the same configuration, whatever
becomes of the file while one after the other takes it.  A secret refuses to be pickled, as it might end on a
disk; here it may, since what is made of it goes through a socket pair that only the two processes have.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

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
    stream = BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(config)
    return stream.getvalue()


def unpickle_config(data: bytes) -> Config:
    """Return the configuration of such bytes, which come from the supervisor's process and nowhere else."""
    # Pickle runs whatever the bytes say: they may come through our own socket pair and no other way.
    config = pickle.loads(data)  # noqa: S301  as just said
    assert isinstance(config, Config), "the supervisor sent something else"
    return config
