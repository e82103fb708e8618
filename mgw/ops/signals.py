"""What an operator says by a signal."""

from __future__ import annotations

import signal
from collections.abc import Callable

from twisted.internet.interfaces import IReactorFromThreads


def on_signals(reactor: IReactorFromThreads, action: Callable[[], None], *names: str) -> None:
    """Do ``action``, on the reactor's turn, upon these signals, as far as there are any.

    The reactor's own handlers of SIGINT and SIGTERM end the process by the signal; with ours in place it
    ends with exit code 0.  A SIGINT that was ignored from the start stays so: a shell does that for a job in
    the background, which Ctrl-C is not meant for.
    """
    for name in names:
        number = getattr(signal, name, None)
        if number is None or (name == "SIGINT" and signal.getsignal(number) is signal.SIG_IGN):
            continue
        signal.signal(number, lambda *_: reactor.callFromThread(action))
