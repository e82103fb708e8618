"""``python -m mgw_sim``: the simulator in the foreground.

With ``--announce-port`` the address is the one line that it prints.  With ``--until-eof`` it ends when its
standard input does, so that it never outlives whoever started it, however that one ended.
"""

import sys
from typing import cast

from twisted.internet import reactor as installed
from twisted.internet.interfaces import IReactorCore, IReactorTCP
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.stdio import StandardIO
from twisted.logger import (
    FilteringLogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogBeginner,
    textFileLogObserver,
)
from twisted.python import usage
from twisted.python.failure import Failure

from mgw_sim.daemon import Options
from mgw_sim.service import SimulatorService


class _ForegroundOptions(Options):
    optFlags = [  # noqa: RUF012  Twisted's way
        ["announce-port", None, "print the address once it listens"],
        ["until-eof", None, "exit when standard input closes"],
    ]


class _StopAtEndOfInput(Protocol):
    """Ends the reactor when what it reads from ends."""

    def __init__(self, core: IReactorCore) -> None:
        self.core = core

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002  Twisted's signature
        """Standard input has ended."""
        self.core.stop()


def main(arguments: list[str]) -> int:
    """Run until a signal, or until standard input ends."""
    options = _ForegroundOptions()
    try:
        options.parseOptions(arguments)  # type: ignore[no-untyped-call]  # Twisted's own has no types
    except usage.UsageError as error:
        sys.stderr.write(f"{error}\n{options}\n")
        return 2
    quiet = FilteringLogObserver(
        textFileLogObserver(sys.stderr), [LogLevelFilterPredicate(defaultLogLevel=LogLevel.warn)]
    )
    globalLogBeginner.beginLoggingTo([quiet], redirectStandardIO=False)
    service = SimulatorService(
        cast(IReactorTCP, installed),  # a module to mypy
        options["host"],
        options["port"],
        options["aws_keys"],
    )
    core = cast(IReactorCore, installed)  # a module to mypy
    service.startService()
    core.addSystemEventTrigger("before", "shutdown", service.stopService)
    if options["announce-port"]:
        sys.stdout.write(f"{service.url}\n")
        sys.stdout.flush()
    if options["until-eof"]:
        StandardIO(_StopAtEndOfInput(core), stdout=sys.stderr.fileno())  # type: ignore[call-arg]  # mypy sees Windows' one
    core.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
