"""What a process reports about requests: usage sinks, metrics and log lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, Logger, LogPublisher
from twisted.python.components import Componentized

from mgw.config.log import LogFormat, LogSettings
from mgw.config.settings import Config
from mgw.nouns.secret import Secret
from mgw.ops.json_lines import message_json
from mgw.ops.logs import AccessLog, LogFile, MessageWriter, RedactingObserver, UsageLog
from mgw.ops.metrics import Metrics
from mgw.ops.process import AcceptErrorObserver
from mgw.ops.request_lines import RequestLog
from mgw.reactor.daemon_threads import SerialRunner
from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.upstream.client import UpstreamLimits
from mgw.usage.journal import Journal
from mgw.usage.line_writer import LineWriter
from mgw.usage.open_sinks import OpenSinks
from mgw.usage.record import EndedRequest, exchanges_of
from mgw.usage.record_queue import RecordQueue
from mgw.usage.sinks import EventSpool, SinkTools
from mgw.usage.spool_files import SpoolFiles
from mgw.usage.spool_room import SpoolRoom

if TYPE_CHECKING:
    from mgw.reactor.treq_client import HTTPClient

_log: Final = Logger()


class Telemetry:
    """All of it; it outlives every configuration.

    :param config: the one to begin with; ``current_config`` returns the one in use.
    :param log_file: where the process log goes; ``None`` leaves twistd's observers alone.
    :param new_lines: makes what writes lines to an output, for a reactor and the output's name.
    """

    def __init__(
        self,
        reactor: Any,  # Any: a reactor has no one type
        config: Config,
        current_config: Callable[[], Config],
        metrics: Metrics,
        log_file: LogFile | None,
        new_lines: Callable[[Any, str], SerialRunner],
    ) -> None:
        self._reactor = reactor
        self._log_file = log_file
        self._new_lines = new_lines
        self.metrics = metrics
        self.log_text = LogPublisher()
        """Has the finished text of the process log, without secrets."""
        stream = log_file or LogFile(None)
        self._messages = MessageWriter(stream)
        self._log_lines: ILogObserver | None = None
        """Writes that text, or what a worker does with it."""
        self._hidden: Callable[[], Sequence[Secret]] = tuple
        """Returns what the log may not show."""
        self._journal = Journal(reactor)
        lines = LineWriter("process log", reactor, new_lines(reactor, "process log"), stream.output)
        self._usage_log, self._access_log = UsageLog(lines), AccessLog(lines)
        self._request_log = RequestLog(self._usage_log, self._access_log)
        self.records = RecordQueue(reactor, self._record_all)
        self.use_log(config.log)
        self.sinks = self._open_sinks(config, current_config)
        room = self.sinks.tools.spool.room
        metrics.state.counts_by_sink = self._journal.counts_by_sink
        metrics.state.events_stored = lambda: (room.used, room.max_bytes)

    async def render_metrics(self, accept: bytes | None) -> tuple[bytes, list[bytes]]:
        """Render the metrics, with all requests that have ended until now."""
        for _ in range(self.records.slices):
            self.records.write_slice()
            await deferLater(self._reactor, 0)
        return await self.metrics.render(accept)

    def take_over_log(self, application: object, secrets: Callable[[], list[Secret]]) -> None:
        """Write twistd's log to our file, without secrets, unless it was sent elsewhere."""
        if self._log_file is not None and isinstance(application, Componentized):
            self._log_lines = self._messages
            self.log_text.addObserver(self._log_lines)
            self.use_secrets(secrets)
            observer = RedactingObserver(self.log_text, self._secrets)
            application.setComponent(
                ILogObserver, AcceptErrorObserver(observer, RateLimitedLog(self._reactor))
            )

    def use_secrets(self, secrets: Callable[[], list[Secret]]) -> None:
        """Hide these from the log from now on."""
        self._hidden = secrets

    def use_log(self, settings: LogSettings) -> None:
        """Write lines as these settings say from now on."""
        self._messages.render = message_json if settings.format is LogFormat.JSON else None
        self._request_log.use(settings)

    def divert_log(self, redirect: Callable[[ILogObserver], ILogObserver]) -> None:
        """Have the text of the log taken by another observer, which is made from the one that writes it."""
        if self._log_lines is not None:
            self.log_text.removeObserver(self._log_lines)
            self._log_lines = redirect(self._log_lines)
            self.log_text.addObserver(self._log_lines)

    def reopen(self) -> None:
        """Open all files anew: they may have been renamed."""
        self._journal.reopen()
        if self._log_file is None:
            return
        self._usage_log.lines.reopen()
        try:
            self._log_file.reopen()
        except OSError as error:
            _log.error("the log file cannot be reopened: {error}", error=error.strerror)

    def report(self, reason: str) -> None:
        """Say in the log why the process ends, unless standard error, which is told too, is the log."""
        if self._log_file is None or self._log_file.path is not None:
            _log.critical("mgw: {reason}", reason=reason)

    async def close(self) -> int:
        """Write what waits, and close everything; each part has a time limit of its own.

        :returns: how many usage events could not be kept.
        """
        lost = await self.sinks.close()
        self.sinks.tools.spool.runner.stop()
        self.metrics.loop_delay.stop()
        return lost

    def _record_all(self, requests: Sequence[EndedRequest]) -> None:
        """Have a batch of records become events, numbers and lines."""
        settled = exchanges_of(requests)
        if settled:
            self._journal.record_all(settled)
        self._access_log.record_all(requests)

    def _secrets(self) -> Sequence[Secret]:
        return self._hidden()  # asked for each line: a fork of this process has others

    def _open_sinks(self, config: Config, current_config: Callable[[], Config]) -> OpenSinks:
        def new_client(seconds: float) -> tuple[HTTPClient, Callable[[], None]]:
            from mgw.upstream.agent import build_agent, client_over  # treq, as in SinkTools.receiver
            from mgw.usage.receiver import MAX_RESPONSE_BYTES

            limits = UpstreamLimits(connect=seconds, first_byte=seconds, idle=seconds)
            agent = build_agent(self._reactor, limits, MAX_RESPONSE_BYTES)
            return client_over(agent), agent.close

        spool = EventSpool(
            SpoolFiles(config.spool.dir),
            self._new_lines(self._reactor, "mgw-events"),
            SpoolRoom(config.spool.max_bytes),
        )
        tools = SinkTools(self._reactor, self._new_lines, new_client, spool, config=current_config)
        return OpenSinks(self._journal, tools, (self.metrics, self._usage_log), self.records.flush)
