"""How the gateway is doing, as the log, the service manager and ``mgw reload`` learn it."""

from __future__ import annotations

from platform import python_version
from typing import Final

import twisted
from twisted.logger import Logger

from mgw import __version__
from mgw.app.check import AtStart, warnings, warnings_of_files, warnings_of_restart, warnings_of_workers
from mgw.app.gateway import Gateway
from mgw.config.settings import Config
from mgw.dashboard.address import describe_dashboard
from mgw.ops.reload_status import ReloadReporter
from mgw.ops.service_manager import ServiceManager, find_service_manager
from mgw.workers.worker_count import available_cpus

_log: Final = Logger()


class Status:
    """Says what becomes of a gateway.

    :param config: the configuration that it starts with.
    """

    def __init__(self, gateway: Gateway, config: Config) -> None:
        self._gateway = gateway
        self._at_start = AtStart.of(config)
        self._manager = ServiceManager(gateway.reactor)
        self._dashboard_line: str | None = None
        """What was said of the dashboard last."""
        self.reloads = ReloadReporter()

    def begin(self) -> None:
        """Find the service manager, once the reactor runs: only then has a daemon forked."""
        self._manager = find_service_manager(self._gateway.reactor)

    def on_started(self) -> None:
        """Say that the gateway serves."""
        self._report()
        _log.info(
            "mgw {version} started (Python {python}, Twisted {twisted})",
            version=__version__,
            python=python_version(),
            twisted=twisted.__version__,
        )
        for where in self._gateway.ports.urls:
            _log.info("mgw serves {where}", where=where)
        self._say_where_the_dashboard_is()
        generation = self._gateway.serving.generation
        config = generation.config
        known = warnings(config, generation.prices, file_keys=self._gateway.key_files.keys)
        for warning in [*known, *process_warnings(config)]:
            _log.warn("{warning}", warning=config.places.locate(warning))
        self._tell_manager()

    def on_reload(self) -> None:
        """Say that the configuration is being read anew; :meth:`ready` follows."""
        self.reloads.begin()
        self._manager.reloading()

    def on_reloaded(self) -> None:
        """Say that another configuration is in use."""
        number = self._gateway.serving.generation.number
        _log.info("the configuration was reloaded: generation {number}", number=number)
        self._say_where_the_dashboard_is()

    def on_not_reloaded(self, reason: str) -> None:
        """Say that the previous configuration stays in use, and why."""
        self._gateway.telemetry.metrics.reload_failed()
        self.reloads.fail(reason)
        _log.error(
            "the configuration was not reloaded; the previous one stays in use:\n{error}", error=reason
        )

    def on_needs_restart(self, config: Config) -> None:
        """Say what of another configuration takes effect only after a restart."""
        for what in warnings_of_restart(config, self._at_start):
            located = config.places.locate(what)
            _log.warn("{what}", what=located)
            self.reloads.note(located)

    def ready(self) -> None:
        """Say that requests are served, after a reload, however it ended."""
        self._report()
        self._tell_manager()

    def on_stopping(self) -> None:
        """Say that the service stops, and how long that may take."""
        config = self._gateway.config
        self._manager.stopping(config.drain_delay_seconds + config.drain_seconds)
        self.reloads.stopping()

    def stop(self) -> None:
        """Say nothing more."""
        self._manager.stop()

    def _report(self) -> None:
        self.reloads.ready(self._gateway.serving.generation.number, self._gateway.addresses)

    def _tell_manager(self) -> None:
        number = self._gateway.serving.generation.number
        status = "" if number == 1 else f"generation {number}; "
        self._manager.ready(f"{status}serves {', '.join(self._gateway.addresses)}")

    def _say_where_the_dashboard_is(self) -> None:
        """Or that there is none, unless a warning says why; a reload says it only if that has changed."""
        config = self._gateway.config
        line = describe_dashboard(config, self._gateway.ports.urls)
        if line != self._dashboard_line and config.dashboard.missing is None:
            _log.info("{line}", line=line)
        self._dashboard_line = line


def process_warnings(config: Config) -> list[str]:
    """Return a sentence for each thing in the surroundings of this process that will hurt."""
    return [*warnings_of_files(config), *warnings_of_workers(config, available_cpus())]
