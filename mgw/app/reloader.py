"""Reload: read the configuration again in a thread, build what it asks for, and have the service use it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.app.check import warnings
from mgw.app.gateway import Gateway, Prepared
from mgw.app.key_files import log_key
from mgw.app.status import Status, process_warnings
from mgw.clients.key_changes import key_changes
from mgw.config.key_settings import NamedKeySettings
from mgw.config.problems import ConfigError
from mgw.config.settings import Config
from mgw.generation import SLICE_SECONDS, Generation, Parts, make_parts
from mgw.identity.key_rules import read_keys
from mgw.identity.keys_dir import KeysDirectory
from mgw.reactor.daemon_threads import DaemonThreads
from mgw.web.ports import read_certificate

if TYPE_CHECKING:
    from mgw.web.tls import Certificate

_log: Final = Logger()


class _Read(Struct, frozen=True):
    """What a thread has made of a configuration file."""

    parts: Parts
    certificate: Certificate | None
    key_files: KeysDirectory | None
    warnings: Sequence[str]


class Reloader:
    """Reloads one after another; what is asked for during one of them is done afterwards, once.

    :param read_config: reads the configuration anew; raises :class:`ConfigError` or ``OSError``.
    :param use: the service's way to use it: calls :meth:`accept` or :meth:`reject`.
    """

    def __init__(
        self,
        gateway: Gateway,
        status: Status,
        read_config: Callable[[], Config],
        use: Callable[[Prepared], Awaitable[None]],
    ) -> None:
        self._gateway = gateway
        self._status = status
        self._read_config = read_config
        self._use = use
        self._threads = DaemonThreads(gateway.reactor, "mgw-reload")
        self.is_reloading = False
        """Whether a reload is in progress, or the service still starts."""
        self._again = False

    def reload(self) -> None:
        """Use the configuration as it stands in the file now; an invalid one changes nothing."""
        self._gateway.telemetry.reopen()
        self._status.reloads.ask()
        if self._gateway.serving.stopping:
            _log.warn("the configuration was not reloaded: the gateway is stopping")
        elif self.is_reloading:
            self._again = True  # the file may have changed since it was read: once more, however many ask
        else:
            self._begin()

    def hold(self) -> None:
        """Let reloads wait for :meth:`release`."""
        self.is_reloading = True

    def release(self) -> None:
        """Say that the service is ready, and do what has waited."""
        self.is_reloading = False
        if self._gateway.serving.stopping:
            return
        self._status.ready()
        if self._again:
            self._begin()

    def accept(self, prepared: Prepared) -> None:
        """Use a configuration in this process."""
        self._gateway.use(prepared)
        self._status.on_reloaded()

    def reject(self, prepared: Prepared, reason: str) -> None:
        """Let go of a configuration that some process cannot use."""
        prepared.generation.retire()
        self._gateway.telemetry.sinks.discard(prepared.sinks)
        self._status.on_not_reloaded(reason)

    def stop(self) -> None:
        """Read nothing more."""
        self._threads.stop()

    def _begin(self) -> None:
        self.is_reloading, self._again = True, False
        self._status.on_reload()
        reloading = Deferred.fromCoroutine(self._reload()).addErrback(self._on_bug)
        _ = reloading.addBoth(lambda _: self.release())

    async def _reload(self) -> None:
        prepared = await self._prepare()
        if prepared is not None:
            before = self._gateway.config.edge_auth.named
            await self._use(prepared)
            await self._tell_in_slices(prepared, before)

    async def _prepare(self) -> Prepared | None:
        """Read the configuration anew and build what it asks for; ``None``: it stays as it was."""
        serving, sinks = self._gateway.serving, self._gateway.telemetry.sinks
        generation: Generation | None = None
        try:
            read = await self._threads.defer(self._read)
            with read.parts.config.places.locating():
                generation = await serving.build(read.parts, serving.generation.number + 1)
                if serving.stopping:
                    generation.retire()
                    return None
                opened = sinks.open(generation.config.hooks)
        except (ConfigError, OSError, ValueError) as error:
            if generation is not None:
                generation.retire()
            self._status.on_not_reloaded(str(error))
            return None
        self._status.on_needs_restart(generation.config)
        return Prepared(
            generation.config, generation, opened, read.certificate, read.key_files, read.warnings
        )

    def _read(self) -> _Read:
        """Read, in a thread, the configuration and the files that it names.

        :raises ConfigError: it has problems.
        :raises OSError: its file cannot be read.
        :raises ValueError: the certificate or a directory of key files cannot be read.
        """
        config = self._read_config()
        with config.places.locating():
            parts = make_parts(config, os.environ, int(time()))
            key_files = read_keys(config, self._gateway.key_files.current)
            further = () if key_files is None else tuple(key_files.keys.values())
            self._gateway.serving.prepare(config, further)
            prices = parts.files.prices
            known = None if isinstance(prices, ValueError) else prices
            return _Read(
                parts, read_certificate(config), key_files, warnings(config, known, file_keys=further)
            )

    async def _tell_in_slices(self, prepared: Prepared, before: Sequence[NamedKeySettings]) -> None:
        """Say what has become of keys, and what will hurt, if it is in use: maybe thousands of lines.

        :param before: the keys with names that the configuration had.
        """
        if self._gateway.serving.generation is not prepared.generation:
            return
        until = monotonic() + SLICE_SECONDS
        for tell in _lines_about(prepared, before):
            tell()
            if monotonic() > until:
                await deferLater(self._gateway.reactor, 0)
                until = monotonic() + SLICE_SECONDS

    def _on_bug(self, failure: Failure) -> None:
        _log.failure("internal error: the configuration was not reloaded", failure)
        self._status.reloads.fail("internal error; see the log")


def _lines_about(prepared: Prepared, before: Sequence[NamedKeySettings]) -> Iterator[Callable[[], None]]:
    """Yield what writes each line of the log about a configuration that is in use now."""
    places, named = prepared.config.places, prepared.config.edge_auth.named
    for name, what in key_changes({key.name: key for key in before}, {key.name: key for key in named}):
        yield partial(log_key, name, what)
    for warning in [*prepared.warnings, *process_warnings(prepared.config)]:
        yield partial(_log.warn, "{warning}", warning=places.locate(warning))
