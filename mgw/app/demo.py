"""``--demo``: the gateway with the built-in simulator as its provider, and three requests to try."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from twisted.application.service import MultiService, Service
from twisted.internet.error import CannotListenError
from twisted.logger import ILogObserver, LogEvent, LogLevel
from zope.interface import implementer

from mgw.app.gateway import Gateway, StartError
from mgw.config.listen import Listen
from mgw.config.settings import Config
from mgw.dashboard.address import why_no_dashboard
from mgw_sim.service import SimulatorService

_REQUESTS: Final = """\
The gateway is running with simulated providers, so you need no keys.
Try it in another terminal.

As an OpenAI client:

  curl -s http://{address}/v1/chat/completions \\
    -H 'Content-Type: application/json' \\
    -d '{{"model": "gpt-demo",
         "messages": [{{"role": "user", "content": "Hello"}}]}}'

As an Anthropic client:

  curl -s http://{address}/v1/messages \\
    -H 'Content-Type: application/json' \\
    -d '{{"model": "claude-demo", "max_tokens": 64,
         "messages": [{{"role": "user", "content": "Hello"}}]}}'

As a Gemini client:

  curl -s http://{address}/v1beta/models/gemini-demo:generateContent \\
    -H 'Content-Type: application/json' \\
    -d '{{"contents": [{{"role": "user", "parts": [{{"text": "Hello"}}]}}]}}'

To send any of them to another provider, replace the model with "smart"
(served by Anthropic) or "fast" (OpenAI). The gateway translates the request.

"""
_DASHBOARD: Final = "Dashboard: http://{address}/ui\n"
_NO_DASHBOARD: Final = "No dashboard: {reason}\n"
_STOP: Final = "Press Ctrl-C to stop.\n\n"


def on_free_ports(read: Callable[[], Config]) -> Callable[[], Config]:
    """Return what reads a configuration, with other ports where its own are busy.

    The ports are looked for once, so that a configuration that is read anew has them again.

    :raises StartError: as :func:`simulator_place`.
    """
    config = read()
    place, listen = simulator_place(config), config.listen
    moved = _moved(place)
    if moved != place:
        sys.stdout.write(f"{place} is in use; the simulator listens on {moved} instead.\n")
    own = _moved(listen) if isinstance(listen, Listen) else listen
    if own != listen:
        sys.stdout.write(f"{listen} is in use; the gateway listens on {own} instead.\n")

    def read_moved() -> Config:
        fresh = read()
        providers = {
            name: provider.model_copy(
                update={"base_url": provider.base_url.replace(f"//{place}/", f"//{moved}/")}
            )
            for name, provider in fresh.providers.items()
        }
        return fresh.model_copy(
            update={"providers": providers, "listen": own if fresh.listen == listen else fresh.listen}
        )

    return read_moved


def _moved(listen: Listen) -> Listen:
    """Return an address at which one can listen: the same, or one with another port where that is busy."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Twisted listens
        try:
            probe.bind((listen.host, listen.port))
            probe.listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:  # what is wrong is told when the service listens
                return listen
        else:
            return listen
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((listen.host, 0))
        port: int = probe.getsockname()[1]
    return Listen(listen.host, port)


@implementer(ILogObserver)
class _DemoLog:
    """Shows warnings, and once the requests to try are printed, what the gateway itself logs.

    Twisted's own lines, and those on which address the gateway listens, would hide the requests.
    """

    def __init__(self, inner: ILogObserver) -> None:
        self._inner = inner
        self.is_running = False

    def __call__(self, event: LogEvent) -> None:
        """Show an event of the process log, or leave it out."""
        is_own = event.get("log_namespace", "").startswith("mgw")
        if event.get("log_level", LogLevel.info) >= LogLevel.warn or (is_own and self.is_running):
            self._inner(event)


class Demo(MultiService):
    """The gateway and the simulator as one service.

    :param service: the gateway's.
    :raises StartError: the first provider is not at an address where a simulator could listen.
    """

    def __init__(self, service: Service, gateway: Gateway) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self._gateway = gateway
        self._log: _DemoLog | None = None
        self._place = place = simulator_place(gateway.config)
        simulator = SimulatorService(gateway.reactor, place.host, place.port)
        simulator.setServiceParent(self)  # type: ignore[no-untyped-call]  # Twisted's
        service.setServiceParent(self)

    def setServiceParent(self, parent: Any) -> None:
        """Join the application, whose log becomes the gateway's."""
        self._gateway.take_over_log(parent)
        self._gateway.telemetry.divert_log(self._quieten)
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]  # Twisted's

    def startService(self) -> None:
        """Start both.

        :raises StartError: an address cannot be had; the reason is printed.
        """
        try:
            super().startService()  # type: ignore[no-untyped-call]  # Twisted's
        except CannotListenError as error:
            reason = getattr(error.socketError, "strerror", None) or error.socketError
            raise StartError(f"mgw: the simulator cannot listen on {self._place}: {reason}") from None
        # Behind the gateway's own call, whose lines would hide the requests to try.
        self._gateway.reactor.callWhenRunning(self._begin)

    def _quieten(self, observer: ILogObserver) -> ILogObserver:
        self._log = _DemoLog(observer)
        return self._log

    def _begin(self) -> None:
        stdout = sys.__stdout__  # sys.stdout is the log by now
        if stdout is not None:
            reason = why_no_dashboard(self._gateway.config)
            text = _REQUESTS + (_DASHBOARD if reason is None else _NO_DASHBOARD) + _STOP
            stdout.write(text.format(address=self._gateway.addresses[0], reason=reason))
            stdout.flush()
        if self._log is not None:
            self._log.is_running = True


def simulator_place(config: Config) -> Listen:
    """Return where the configuration expects its first provider: there the simulator listens.

    :raises StartError: that is no plain HTTP address of this machine.
    """
    provider = next(iter(config.providers.values()))
    address = urlsplit(provider.base_url)
    place = Listen(address.hostname or "", address.port or 80)
    if address.scheme != "http" or place.beyond_loopback:
        raise StartError(
            f"mgw: --demo: providers.{provider.name}.base_url must be an http address on this machine, as in "
            "etc/mgw-demo.yaml: the simulator listens there"
        )
    return place
