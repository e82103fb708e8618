"""The simulator as a service, and its options."""

import re
from pathlib import Path

import pytest
from twisted.internet.testing import MemoryReactorClock
from twisted.python.usage import UsageError

from mgw_sim.daemon import Options, parse_listen
from mgw_sim.faults import WORDS
from mgw_sim.service import SimulatorService


@pytest.mark.parametrize(
    ("said", "meant"), [("127.0.0.1:0", ("127.0.0.1", 0)), (":80", ("", 80)), ("[::1]:8788", ("::1", 8788))]
)
def test_addresses_are_read(said: str, meant: tuple[str, int]) -> None:
    assert parse_listen(said) == meant


@pytest.mark.parametrize("said", ["8788", "host", "host:", "host:70000"])
def test_what_is_no_address_is_refused(said: str) -> None:
    options = Options()
    with pytest.raises(UsageError, match="host:port"):
        options.parseOptions(["--listen", said])  # type: ignore[no-untyped-call]  # Twisted's own has no types


def test_it_listens_while_it_runs() -> None:
    reactor = MemoryReactorClock()
    service = SimulatorService(reactor, "127.0.0.1", 8788)
    service.startService()
    [(port, _, _, host)] = reactor.tcpServers
    assert (host, port) == ("127.0.0.1", 8788)
    assert service.requests == []


def test_every_fault_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "simulator.rst").read_text()
    documented = set(
        re.findall(
            r"^``sim-([a-z0-9-]+?)(?:-(?:N|MS|BYTES|TEXT|STATUS-TIMES|REASON|HOW|CODE-N|KIND|SECONDS|IN-OUT|TIER|NAME))?``",
            text,
            re.MULTILINE,
        )
    )
    assert documented == set(WORDS)
