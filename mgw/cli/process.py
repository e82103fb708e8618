"""The gateway as a process in the foreground: twistd, with the options that this wants.

No pid file is written: whoever starts a process in the foreground knows it, and a service user's folder is
often ``/``, where it may write nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from twisted.scripts._twistd_unix import ServerOptions
from twisted.scripts.twistd import runApp


def serve(options: Sequence[str], log_file: str | None = None) -> int:
    """Serve until a signal ends it; return the exit status.

    :param options: those of ``twistd mgw``.
    :param log_file: where the process log goes; ``None``: standard error.
    :raises SystemExit: it cannot start; the reason has been printed.
    """
    _leave_a_closed_folder()
    log = [] if log_file is None else ["--logfile", log_file]
    config = ServerOptions()
    config.parseOptions(["--nodaemon", "--pidfile=", *log, "mgw", *options])
    runApp(config)
    return 0


def _leave_a_closed_folder() -> None:
    """Go to ``/`` where the current folder is gone or closed to this user: twistd enters it again."""
    try:
        os.chdir(os.getcwd())
    except OSError:
        os.chdir("/")
