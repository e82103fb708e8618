"""The gateway as a foreground process: twistd with the right options.

No pid file is written: whoever starts a process in the foreground knows it, and a service user's folder is
often ``/``, where it may write nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

from twisted.application.service import ServiceMaker
from twisted.scripts.twistd import ServerOptions, runApp  # type: ignore[attr-defined]  # not in its __all__

_DESCRIPTION: Final = "A gateway between clients and providers of language models."
_GATEWAY: Final = ServiceMaker("mgw", "mgw.app.daemon", _DESCRIPTION, "mgw")


class _ProcessOptions(ServerOptions):
    """Twistd's, for the gateway alone.

    Nobody's plugins are searched for: twistd would write down what it found where this was installed, and
    complain in the log where it may not.
    """

    @property
    def subCommands(self) -> Iterator[tuple[Any, ...]]:  # Any: as usage.Options has it
        """The one service that there is."""
        self.loadedPlugins = {_GATEWAY.tapname: _GATEWAY}
        yield _GATEWAY.tapname, None, _GATEWAY.options, _GATEWAY.description


def serve(options: Sequence[str], log_file: str | None = None) -> int:
    """Serve until a signal ends it; return the exit status.

    :param options: those of ``twistd mgw``.
    :param log_file: where the process log goes; ``None``: standard error.
    :raises SystemExit: it cannot start; the reason has been printed.
    """
    _leave_a_closed_folder()
    log = [] if log_file is None else ["--logfile", log_file]
    config = _ProcessOptions()  # type: ignore[no-untyped-call]  # Twisted's
    config.parseOptions(["--nodaemon", "--pidfile=", *log, "mgw", *options])  # type: ignore[no-untyped-call]  # as above
    runApp(config)
    return 0


def _leave_a_closed_folder() -> None:
    """Go to ``/`` where the current folder is gone or closed to this user: twistd enters it again."""
    try:
        os.chdir(os.getcwd())
    except OSError:
        os.chdir("/")
