"""The entry point for twistd: options, ``--check`` and the service (``twistd -n mgw -c FILE``).

Nothing large is imported above, so that the garbage collector is off by the time that it is.
"""

from __future__ import annotations

import sys
from typing import ClassVar

from twisted.application.service import IService
from twisted.python import usage

from mgw import __version__
from mgw.config.location import DEFAULT_FILE
from mgw.reactor.lean_start import without_collections


class Options(usage.Options):
    """The command line behind ``twistd mgw``."""

    synopsis = "[options] [FILE]"
    longdesc = "A gateway between clients and providers of language models. FILE is the configuration file."
    optParameters: ClassVar = [["config", "c", DEFAULT_FILE, "the configuration file, as an option"]]
    optFlags: ClassVar = [
        ["check", None, "check the configuration, print where requests will go, and exit"],
        [
            "demo",
            None,
            "also start the simulator at the first provider's address, and print requests to try",
        ],
    ]

    def parseArgs(self, file: str | None = None) -> None:
        """Take the configuration file as an argument, too.

        :raises UsageError: the option names another one.
        """
        if file is None:
            return
        if self["config"] not in (DEFAULT_FILE, file):
            raise usage.UsageError(f"two configuration files, {file} and -c {self['config']}: name only one")
        self["config"] = file

    def opt_version(self) -> None:
        """Print the version and exit."""
        sys.stdout.write(f"mgw {__version__}\n")
        raise SystemExit(0)

    def postOptions(self) -> None:
        """Run ``--check``.

        :raises SystemExit: always with ``--check``; 0 for a valid file, 1 for one with problems.
        """
        if self["check"]:
            with without_collections():
                from mgw.app.check import check, reader_of  # here: see above

                raise SystemExit(check(reader_of(self["config"]), "mgw check"))


def makeService(options: Options) -> IService:
    """Build the gateway.

    :raises SystemExit: the configuration has problems; they are printed.
    """
    with without_collections():
        from mgw.app.make_service import make_service  # here: see above

        return make_service(options)
