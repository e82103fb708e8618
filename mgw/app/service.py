"""The service as one process: the order in which a gateway starts, reloads, drains and stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred

from mgw.app.gateway import Gateway, Prepared
from mgw.app.reloader import Reloader
from mgw.app.status import Status
from mgw.config.settings import Config
from mgw.ops.logs import LogFile
from mgw.ops.process import on_signals
from mgw.reactor.daemon_threads import DaemonThreads, SerialRunner


class GatewayService(Service):
    """A gateway that serves its clients itself.

    :param config: the configuration to begin with.
    :param read_config: reads the configuration anew; raises :class:`ConfigError` or ``OSError``.
    :param log_file: where the process log goes; ``None`` leaves twistd's observers alone.
    :param line_threads: makes what writes lines to an output, for a reactor and the output's name.
    """

    name = "mgw"

    def __init__(
        self,
        config: Config,
        read_config: Callable[[], Config],
        reactor: Any,  # Any: a reactor has no one type
        log_file: LogFile | None,
        line_threads: Callable[[Any, str], SerialRunner] = DaemonThreads,
    ) -> None:
        self._reactor = reactor
        self.gateway = Gateway(config, reactor, log_file, line_threads)
        self.status = Status(self.gateway, config)
        self.reloader = Reloader(self.gateway, self.status, read_config, self._use)

    def setServiceParent(self, parent: Any) -> None:
        """Join the application, whose log becomes ours."""
        self.gateway.take_over_log(parent)
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]  # Twisted's

    def privilegedStartService(self) -> None:
        """Listen, while ports below 1024 may still be had.

        :raises StartError: the address cannot be had, or the certificate not be read; the reason is printed.
        """
        super().privilegedStartService()  # type: ignore[no-untyped-call]  # Twisted's
        gateway = self.gateway
        try:
            gateway.ports.listen(gateway.config, gateway.channels)
        except ValueError as error:
            raise gateway.unable(str(error)) from None

    def startService(self) -> None:
        """Take requests.

        :raises StartError: usage events cannot be written; the reason is printed.
        """
        super().startService()  # type: ignore[no-untyped-call]  # Twisted's
        self.gateway.open_sinks()
        on_signals(self._reactor, self.reloader.reload, "SIGHUP")
        self._reactor.callWhenRunning(self._begin)

    def _begin(self) -> None:
        """Serve, once the reactor runs and signals reach us."""
        self.gateway.begin()
        on_signals(self._reactor, self.asked_to_stop, "SIGINT", "SIGTERM")
        self.status.begin()
        self.status.on_started()

    async def _use(self, prepared: Prepared) -> None:
        self.reloader.accept(prepared)

    def asked_to_stop(self) -> None:
        """Begin to drain; the second time, end what is left of it."""
        if not self.gateway.serving.cut_short() and self.running:
            self._reactor.stop()

    def stopService(self) -> Deferred[None]:
        """Drain, then stop."""
        super().stopService()  # type: ignore[no-untyped-call]  # Twisted's
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        gateway = self.gateway
        self.status.on_stopping()
        gateway.dashboard.drain()
        await gateway.serving.drain(gateway.config.drain_delay_seconds)
        await gateway.stop()
        self.status.stop()
        self.reloader.stop()
        gateway.serving.restore()
