"""Where the gateway keeps files of its own, unless the configuration says otherwise: paths only.

Sources: ``StateDirectory=`` of systemd.exec(5), the XDG base directory specification, contract 2.11.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final

SYSTEM: Final = "/var/lib/mgw"
"""For a process that knows no home either."""


def state_directory(environ: Mapping[str, str]) -> str:
    """Return the state directory; a variable with a relative path counts as unset, as XDG's words are."""
    own = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if posixpath.isabs(own):
        return own
    for variable, below in (("XDG_STATE_HOME", "mgw"), ("HOME", ".local/state/mgw")):
        home = environ.get(variable, "")
        if posixpath.isabs(home):
            return posixpath.join(home, below)
    return SYSTEM


def spool_below(environ: Mapping[str, str]) -> str:
    """Return the default of ``spool.dir``."""
    return posixpath.join(state_directory(environ), "spool")
