"""A supervisor with real processes that echo; run as a program, it says what happens line by line.

It reads commands: ``pids``, ``echo SLOT TEXT``, ``memory``, ``stop``.  With ``--gateway`` workers share all
that a gateway has imported: their memory is measured so.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import klein  # noqa: F401  it keeps the reactor by name
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Protocol as StreamProtocol
from twisted.internet.protocol import connectionDone
from twisted.internet.stdio import StandardIO
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure

from mgw.workers.channel import Channel, Handler, adopt
from mgw.workers.fork_server import ForkServer, WorkerStart
from mgw.workers.messages import ChannelMessage, Done, Drain, LogText, TokenQuestion
from mgw.workers.supervisor import Supervisor


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def open_files() -> list[str]:
    """Return what each open file of this process is, as far as it is not the null device."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target != os.devnull and int(name) > 2:
            found.append(target.partition(":")[0])
    return sorted(found)


class Echo:
    """A worker: repeats what it is asked."""

    def __init__(self, start: WorkerStart) -> None:
        self._reactor: Any = start.reactor
        self._is_ending = False

    def on_message(self, message: ChannelMessage) -> None:
        if isinstance(message, Drain):
            self._end()

    def on_question(self, question: ChannelMessage) -> ChannelMessage | Deferred[ChannelMessage]:
        from klein import _app
        from twisted.internet import reactor

        assert isinstance(question, TokenQuestion)
        if question.identity == "raise":
            os._exit(9)
        known: list[Any] = [reactor, _app.reactor]  # type: ignore[attr-defined]
        is_new = all(one is self._reactor for one in known)
        done: Deferred[ChannelMessage] = Deferred()
        text = f"{question.identity} {is_new} {','.join(open_files())}"
        self._reactor.callLater(0, done.callback, LogText("info", 0.0, text))
        return done

    def on_lost(self) -> None:
        self._end()

    def _end(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._reactor.stop()


def run_worker(start: WorkerStart) -> int:
    adopt(start.reactor, start.channel, Echo(start))
    start.reactor.run()
    return 0


class Silent:
    """The supervisor's side, which is told nothing."""

    def on_message(self, message: ChannelMessage) -> None: ...

    def on_question(self, question: ChannelMessage) -> ChannelMessage:
        return Done()

    def on_lost(self) -> None: ...


class Delegate:
    """Says what becomes of the workers."""

    def make_handler(self, slot: int) -> Handler:
        return Silent()

    def attach(self, slot: int, channel: Channel, pid: int) -> Deferred[None]:
        say(f"attached {slot} {pid}")
        return succeed(None)

    def detach(self, slot: int) -> None:
        say(f"detached {slot}")

    def drain(self, channel: Channel) -> None:
        channel.tell(Drain(1.0))

    def on_lost(self) -> None:
        say("lost")


def memory(pid: int) -> str:
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(line for line in file if line.startswith("Pss:")).split(maxsplit=1)[1].strip()


class Commands(LineReceiver):
    """Does what the test says."""

    delimiter = b"\n"

    def __init__(self, server: ForkServer, supervisor: Supervisor) -> None:
        self._server, self._supervisor = server, supervisor

    def lineReceived(self, line: bytes) -> None:
        match line.decode().split():
            case ["pids"]:
                say(f"pids {self._server.pid} " + " ".join(str(w.pid) for w in self._supervisor.workers))
            case ["memory"]:
                pids = [os.getpid(), self._server.pid, *(w.pid for w in self._supervisor.workers)]
                say("memory " + ", ".join(memory(pid) for pid in pids if pid))
            case ["echo", slot, text]:
                channel = next(w.channel for w in self._supervisor.workers if w.slot == int(slot))
                assert channel is not None
                answer = channel.ask(TokenQuestion(text, None), 30)
                _ = answer.addCallbacks(
                    lambda got: say(f"echoed {got.text}"), lambda failure: say(f"failed {failure.value}")
                )
            case ["stop"]:
                _ = Deferred.fromCoroutine(stop(self._server, self._supervisor))

    def connectionLost(self, reason: Failure = connectionDone) -> None: ...


async def stop(server: ForkServer, supervisor: Supervisor) -> None:
    await supervisor.stop(10)
    await server.stop()
    say("stopped")
    server.reactor.stop()


def main() -> None:
    from twisted.internet import reactor

    if "--gateway" in sys.argv:
        import mgw.app.service  # noqa: F401
    log: Any = open("/dev/null", "wb")  # noqa: SIM115  a file that workers must not have
    secret = open(__file__, "rb")  # noqa: SIM115  the same
    server = ForkServer.start(run_worker, reactor)
    supervisor = Supervisor(reactor, server, Delegate())
    commands: StreamProtocol = Commands(server, supervisor)
    StandardIO(commands)
    _ = supervisor.start(2).addCallbacks(
        lambda _: say("serving"), lambda failure: say(f"failed {failure.value}")
    )
    reactor.run()
    log.close()
    secret.close()


if __name__ == "__main__":
    main()
