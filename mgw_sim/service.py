"""The simulator as a Twisted service, for its own process, for the demonstration and for tests."""

import time
from typing import cast

from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IListeningPort, IReactorTCP, IReactorTime
from twisted.internet.protocol import ServerFactory

from mgw_sim.aws.signature import KeyPair
from mgw_sim.dispatcher import Dispatcher
from mgw_sim.http.connection import SimulatorFactory
from mgw_sim.recording import RecordedRequest, Recorder


def site(
    reactor: IReactorTime, recorder: Recorder | None = None, aws_keys: tuple[KeyPair, ...] = ()
) -> SimulatorFactory:
    """The factory of the simulator's connections; its ``recorder`` holds what it saw.

    ``aws_keys`` are the keys with which requests are to be signed; without any, signatures are not verified.
    """
    recorder_in_use = Recorder() if recorder is None else recorder
    dispatcher = Dispatcher(reactor, recorder_in_use, time.time, aws_keys=aws_keys)
    return SimulatorFactory(reactor, recorder_in_use, dispatcher.answer)


class SimulatorService(Service):
    """Listens while it runs.  ``port`` 0 takes a free port; ``url`` tells which."""

    def __init__(
        self,
        reactor: IReactorTCP,
        host: str = "127.0.0.1",
        port: int = 0,
        aws_keys: tuple[KeyPair, ...] = (),
    ) -> None:
        self.reactor = reactor
        self.aws_keys = aws_keys
        self.host = host
        self.port = port
        self.recorder = Recorder()
        self._listening: IListeningPort | None = None

    @property
    def requests(self) -> list[RecordedRequest]:
        """The last requests, oldest first."""
        return list(self.recorder.requests)

    @property
    def url(self) -> str:
        """The address, once the service has started: ``http://127.0.0.1:40001``."""
        assert self._listening is not None, "the simulator has not started"
        host = f"[{self.host}]" if ":" in self.host else self.host
        address = self._listening.getHost()
        assert isinstance(address, IPv4Address | IPv6Address)
        return f"http://{host}:{address.port}"

    def startService(self) -> None:
        """Listen."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted's own has no types
        factory = site(IReactorTime(self.reactor), self.recorder, self.aws_keys)
        listener = cast(ServerFactory, factory)  # Twisted's type wants protocols that know their factory
        self._listening = self.reactor.listenTCP(self.port, listener, 511, self.host)

    def stopService(self) -> Deferred[None] | None:
        """Stop listening."""
        super().stopService()  # type: ignore[no-untyped-call]  # Twisted's own has no types
        if self._listening is None:
            return None
        listening, self._listening = self._listening, None
        return listening.stopListening()
