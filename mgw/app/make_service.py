"""Build the service that twistd runs, from its command line and the configuration file."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from twisted.application.service import IService
from twisted.logger import LogLevel
from twisted.python import usage

from mgw.app.check import read_or_tell, reader_of
from mgw.app.install_reactor import install_reactor
from mgw.config.file_faults import unwritable
from mgw.config.log import LogFormat
from mgw.config.settings import Config

if TYPE_CHECKING:
    from mgw.app.gateway import Gateway
    from mgw.app.service import GatewayService
    from mgw.app.supervised_service import SupervisedService
    from mgw.ops.logs import LogFile


def make_service(options: usage.Options) -> IService:
    """Build the gateway.

    :raises SystemExit: the configuration has problems; they are printed.
    """
    read = reader_of(options["config"])
    config = read_or_tell(read, "mgw run")
    if config is None:
        raise SystemExit(1)
    if options["demo"]:
        from mgw.app.demo import on_free_ports  # here, as what it needs is not wanted otherwise

        read = on_free_ports(read)
        config = read()
    reactor = install_reactor(config)

    from mgw.ops.logs import LogFile  # here, behind the reactor: what it imports would bring pyOpenSSL

    path, elsewhere = _log_path(options)
    try:
        service = _service(config, read, reactor, None if elsewhere else LogFile(path))
    except OSError as error:
        reason = unwritable(str(error.filename)) or f"{error.filename} cannot be opened: {error.strerror}"
        raise _unable(config, f"mgw: the log file {reason}") from None
    except ValueError as error:
        raise _unable(config, config.places.locate_lines(str(error), "mgw: ")) from None
    service.status.reloads.publish(os.path.abspath(options["config"]))
    atexit.register(_exit_if_lost, service.gateway)
    if not options["demo"]:
        return service
    from mgw.app.demo import Demo

    return Demo(service, service.gateway)


def _unable(config: Config, reason: str) -> SystemExit:
    """Return the end of a start that failed before there was a log; what is printed looks like its lines."""
    if config.log.format is not LogFormat.JSON:
        return SystemExit(reason)
    from mgw.ops.json_lines import message_json

    event = {"log_time": time(), "log_level": LogLevel.critical, "log_namespace": __name__}
    return SystemExit(message_json({**event, "log_text": reason}).decode().rstrip())


def _exit_if_lost(gateway: Gateway) -> None:
    """Leave an exit status that says it, where usage events could not be kept; twistd knows none but 0."""
    if gateway.events_lost:
        sys.stdout.flush()
        os._exit(1)


def _service(
    config: Config,
    read: Callable[[], Config],
    reactor: Any,  # Any: a reactor has no one type
    log: LogFile | None,
) -> GatewayService | SupervisedService:
    if config.workers is None:
        from mgw.app.service import GatewayService

        return GatewayService(config, read, reactor, log)
    from mgw.app.supervised_service import SupervisedService  # which one process alone has no use for

    return SupervisedService(config, read, reactor, log)


def _log_path(options: usage.Options) -> tuple[str | None, bool]:
    """Return twistd's ``--logfile``, and whether the log was sent elsewhere altogether."""
    twistd: Any = options.parent or {}  # Any: usage.Options is a dict of all kinds
    if twistd.get("syslog") or twistd.get("logger"):
        return None, True
    path = twistd.get("logfile")
    if path == "-":
        return None, False
    if path:
        return str(Path(path).absolute()), False
    return (None if twistd.get("nodaemon", True) else str(Path("twistd.log").absolute())), False
