"""Listening addresses, and their certificate."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.protocol import ServerFactory
from twisted.internet.unix import Port as UnixPort
from twisted.python.failure import Failure

from mgw.config.listen import EndpointText
from mgw.config.quoting import redact
from mgw.config.settings import Config
from mgw.web.listener import BACKLOG, listen_error, listening_endpoint, shown_address

if TYPE_CHECKING:
    from mgw.web.tls import Certificate, RenewableCertificate


def read_certificate(config: Config) -> Certificate | None:
    """Read the certificate of a configuration, if it has one; this blocks.

    :raises ValueError: it cannot be read.
    """
    if config.tls is None:
        return None
    from mgw.web.tls import Certificate  # as below

    return Certificate.read(config.tls)


class ListeningSocket(Struct, frozen=True):
    """A socket that listens, as a process inherits it."""

    descriptor: int
    family: int


class _NoConnections(ServerFactory):
    """The factory of a port from which this process accepts nobody."""

    noisy = False


class _InheritedUnixPort(UnixPort):
    """A UNIX socket that another process has made, whose file is left alone.

    Twisted opens the file of an adopted socket to all users, and removes it at the end.  It does neither for
    a name that begins with a zero byte, which is in no file system (unix(7)).
    """

    def __init__(
        self, descriptor: int, factory: IProtocolFactory, reactor: Any
    ) -> None:  # Any: a reactor has no one type
        super().__init__(b"\0inherited", factory, BACKLOG, reactor=reactor)
        self._preexistingSocket = socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM)

    def _logConnectionLostMsg(self) -> None:
        """Say nothing: that name cannot be read."""


@dataclass(slots=True, eq=False, repr=False)
class Ports:
    """The ports of one gateway; a reload renews their certificate and nothing else."""

    reactor: Any  # Any: a reactor has no one type
    certificate: RenewableCertificate | None = None
    """``None``: plain HTTP."""
    _ports: list[IListeningPort] = field(default_factory=list)
    _listening: Deferred[None] | None = None
    _is_secure: bool = False
    """Whether clients speak TLS with what listens, whoever has the certificate."""

    @property
    def addresses(self) -> list[str]:
        """Where it listens, as ``host:port``."""
        return [shown_address(port) for port in self._ports]

    @property
    def urls(self) -> list[str]:
        """Where it listens, as clients write it."""
        scheme = "https" if self._is_secure else "http"
        return [where if where.startswith("unix:") else f"{scheme}://{where}" for where in self.addresses]

    def certificate_expires(self) -> float | None:
        """Return the Unix seconds at which the certificate ends, if there is one."""
        return None if self.certificate is None else self.certificate.expires

    def listen(self, config: Config, factory: IProtocolFactory) -> None:
        """Open the ports.

        :raises ValueError: the address cannot be had, or the certificate not be read; it says why.
        """
        failures: list[Failure] = []  # a Deferred would swallow what its callback raises
        listen = config.listen
        self._is_secure = config.tls is not None or (isinstance(listen, EndpointText) and listen.brings_tls)
        factory = self._with_tls(config, factory)
        try:
            listening = listening_endpoint(listen, self.reactor).listen(factory)
        except (OSError, LookupError, TypeError, ValueError) as error:  # an endpoint string means much
            is_unknown = isinstance(error, LookupError)
            what = "no such socket was passed to the process" if is_unknown else str(error)
            raise ValueError(f"listen: cannot listen on {redact(str(listen))}: {what}") from None
        self._listening = listening.addCallbacks(self._ports.append, failures.append)
        for failure in failures:
            raise ValueError(f"listen: cannot listen on {redact(str(listen))}: {listen_error(failure)}")

    def bind(self, config: Config) -> None:
        """Open the ports for other processes, which inherit their sockets and accept what comes.

        :raises ValueError: as :meth:`listen` does.
        """
        self.listen(config, _NoConnections())
        self.pause()

    def sockets(self) -> list[ListeningSocket]:
        """Return what another process adopts."""
        ports: list[Any] = list(self._ports)  # Any: as above
        return [ListeningSocket(port.fileno(), port.socket.family) for port in ports]

    def adopt(self, sockets: Iterable[ListeningSocket], config: Config, factory: IProtocolFactory) -> None:
        """Accept what comes to sockets that another process has opened.

        :raises ValueError: the certificate cannot be read; it says why.
        """
        factory = self._with_tls(config, factory)
        for one in sockets:
            if one.family == socket.AF_UNIX:
                port: Any = _InheritedUnixPort(one.descriptor, factory, self.reactor)  # Any: as above
                port.startListening()
                self._ports.append(port)
            else:
                self._ports.append(self.reactor.adoptStreamPort(one.descriptor, one.family, factory))

    def pause(self) -> None:
        """Leave clients to other processes that accept from the same sockets."""
        for port in self._ports:
            without_reading: Any = port  # Any: each of Twisted's is a descriptor, and no interface says so
            without_reading.stopReading()

    def resume(self) -> None:
        """Accept clients again."""
        for port in self._ports:
            reading: Any = port  # Any: as above
            reading.startReading()

    def renew(self, certificate: Certificate | None) -> None:
        """Show another certificate, if it was read and this gateway shows one."""
        if self.certificate is not None and certificate is not None:
            self.certificate.renew(certificate)

    async def stop(self) -> None:
        """Take no more connections."""
        ports, self._ports = self._ports, []
        for port in ports:
            stopping = port.stopListening()
            if isinstance(stopping, Deferred):
                await stopping

    def _with_tls(self, config: Config, factory: IProtocolFactory) -> IProtocolFactory:
        if config.tls is None:
            return factory
        from mgw.web.tls import Certificate, RenewableCertificate, with_tls  # OpenSSL is slow to import

        self.certificate = RenewableCertificate(Certificate.read(config.tls))
        return with_tls(factory, self.certificate, self.reactor)
