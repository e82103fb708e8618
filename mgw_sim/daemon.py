"""``twistd -n mgw-sim``: the options, and the service that they ask for."""

from typing import cast

from twisted.application.service import IService
from twisted.internet.interfaces import IReactorTCP
from twisted.python import usage

from mgw_sim.aws.authority import read_key
from mgw_sim.aws.signature import KeyPair
from mgw_sim.service import SimulatorService

DEFAULT_LISTEN = "127.0.0.1:8788"


def parse_listen(address: str) -> tuple[str, int]:
    """Cut ``host:port`` (``:port`` for all interfaces, ``[::1]:port``).  Raises UsageError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise usage.UsageError(f"--listen: expected host:port, found {address!r}")
    return host.strip("[]"), int(port)


class Options(usage.Options):
    """Options of the simulator."""

    synopsis = "[options]"
    longdesc = "A simulated provider with the OpenAI, Anthropic and Gemini APIs. It requires no key."
    optParameters = [["listen", "l", DEFAULT_LISTEN, "host:port to listen on; port 0 picks a free one"]]  # noqa: RUF012  Twisted's way

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's own has no types
        self["aws_keys"] = ()

    def opt_aws(self, text: str) -> None:
        """KEYID:SECRET[:TOKEN][@REGION] of AWS with which requests are to be signed; may be repeated"""
        try:
            key: KeyPair = read_key(text)
        except ValueError as error:
            raise usage.UsageError(f"--aws: {error}") from None
        self["aws_keys"] = (*self["aws_keys"], key)

    def postOptions(self) -> None:
        """Check what was given."""
        self["host"], self["port"] = parse_listen(self["listen"])


def makeService(options: Options) -> IService:
    """The service for twistd."""
    from twisted.internet import reactor  # here, since importing it installs one

    tcp = cast(IReactorTCP, reactor)  # a module to mypy
    return SimulatorService(tcp, options["host"], options["port"], options["aws_keys"])
