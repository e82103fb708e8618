"""What the Debian package holds agrees with the gateway."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from mgw import __version__
from mgw.cli.parser import COMMANDS
from mgw.config.settings import Config
from mgw.ops.service_manager import SECONDS_BEHIND_DRAIN
from tests.support.waiting import WAIT_SECONDS

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "debian"


def settings(name: str) -> dict[str, list[str]]:
    """The settings of a unit, each with its values."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (DEBIAN / name).read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def test_the_package_has_the_version_of_the_gateway() -> None:
    [version] = re.findall(r"\Amgw \((.+?)\)", (DEBIAN / "changelog").read_text(encoding="utf-8"))
    assert version.replace("~", ".") == __version__


def test_the_service_has_time_for_the_usual_drain() -> None:
    [seconds] = settings("mgw.service")["TimeoutStopSec"]
    assert float(seconds) > Config.model_fields["drain_seconds"].default + SECONDS_BEHIND_DRAIN


def test_the_service_may_have_the_memory_that_tls_needs() -> None:
    assert "MemoryDenyWriteExecute" not in settings("mgw.service")


def test_the_first_process_decides_what_becomes_of_workers() -> None:
    """It drains them when it is asked to stop, and replaces the one that the kernel has killed."""
    unit = settings("mgw.service")
    assert (unit["KillMode"], unit["OOMPolicy"]) == (["mixed"], ["continue"])


def test_the_package_uses_every_core() -> None:
    """Its rules change one line of the configuration: that line is there."""
    rules = (DEBIAN / "rules").read_text(encoding="utf-8")
    [pattern] = re.findall(r"sed -i 's/\^(.+)\$\$/workers: auto/'", rules)
    assert pattern in (ROOT / "etc/mgw.yaml").read_text(encoding="utf-8").splitlines()


def test_the_service_reads_the_files_that_the_package_installs() -> None:
    unit, installed = settings("mgw.service"), (DEBIAN / "mgw.install").read_text(encoding="utf-8")
    assert unit["ExecStart"] == ["/usr/bin/mgw run -c /etc/mgw.yaml"]
    assert unit["EnvironmentFile"] == ["-/etc/default/mgw"]
    assert installed.splitlines()[:2] == ["etc/mgw.yaml etc/", "debian/default/mgw etc/default/"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_exposure_of_the_service_is_low() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(DEBIAN / "mgw.service")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    [exposure] = re.findall(r"Overall exposure level for mgw\.service: ([0-9.]+)", found.stdout)
    assert float(exposure) < 2.0


def test_the_manual_page_names_every_command() -> None:
    page = (ROOT / "docs/man/mgw.1.rst").read_text(encoding="utf-8")
    described = set(re.findall(r"^\*\*([a-z]+)\*\*(?: .*)?\n    ", page, re.MULTILINE))
    assert described == {command.name for command in COMMANDS}
