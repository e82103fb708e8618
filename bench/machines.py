"""The machine under the measurement: what it is, and what a process on it has used."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_implementation, python_version, release

from mgw import __version__

ROOT = Path(__file__).resolve().parent.parent
NGINX = "/usr/sbin/nginx"
PACKAGES = ("twisted", "klein", "treq", "httptools", "msgspec")


def cpu_seconds(pid: int) -> float:
    """Processor time of a process with all its threads, in nanosecond steps (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def process_tree(pid: int) -> list[int]:
    """A process and those that it has started and that still run."""
    children = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")).split()
    return [pid, *(one for child in children for one in process_tree(int(child)))]


def tree_cpu_seconds(pid: int) -> float:
    """Processor time of a process and of those that it has started and that still run."""
    return sum(map(cpu_seconds, process_tree(pid)))


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def reset_peak(pid: int) -> None:
    """Let the peak of a process's memory begin anew (proc(5), ``clear_refs``)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """Return the most resident memory of a process since then."""
    return int(_first(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())) * 1024


def stolen_seconds() -> float:
    """Time that the hypervisor kept from this machine since it started, over all cores."""
    cpu = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(cpu[8]) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """Time that all cores together have worked since the machine started."""
    user, nice, system, _idle, _iowait, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds: of all cores, of this process and its children, of the wall; and what the hypervisor kept."""

    busy: float
    ours: float
    wall: float
    stolen: float


def clocks() -> Clocks:
    """What has been used until now."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ours = sum(one.ru_utime + one.ru_stime for one in used)
    return Clocks(busy_seconds(), ours, time.monotonic(), stolen_seconds())


def disturbance(before: Clocks, after: Clocks) -> dict[str, str]:
    """How much of the machine was not for the measurement; the children must have ended."""
    cores = (after.wall - before.wall) * (os.cpu_count() or 1)
    others = max((after.busy - before.busy) - (after.ours - before.ours), 0)
    return {
        "used by other processes meanwhile": f"{others / cores:.1%} of all cores",
        "kept by the hypervisor meanwhile": f"{(after.stolen - before.stolen) / cores:.1%} of all cores",
    }


def description() -> dict[str, str]:
    """What a reader of the results must know about the machine and the programs."""
    return {
        "cpu": _first(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()),
        "cores": str(os.cpu_count()),
        "kernel": release(),
        "memory": _first(r"MemTotal:\s*(.+)", Path("/proc/meminfo").read_text()),
        "load average at the start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "commit": commit_of(ROOT),
        "python": f"{python_implementation()} {python_version()}",
        "mgw": __version__,
        **{name: _installed(name) for name in PACKAGES},
        "nginx": _first(r"nginx/(\S+)", _said(NGINX, "-v")),
        "wrk": _first(r"wrk (\S+ \S+)", _said("wrk", "--version")),
        "gcc": _first(r"\) (\S+)", _said("gcc", "--version")),
    }


def commit_of(tree: Path) -> str:
    """Return the commit of a checkout, and whether files of it are changed."""
    changed = " with changes" if _said("git", "-C", str(tree), "status", "--porcelain") else ""
    return _said("git", "-C", str(tree), "rev-parse", "--short", "HEAD").strip() + changed


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1].strip() if found else "unknown"


def _said(*command: str) -> str:
    """What a program writes, to either output; nothing when it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except OSError:
        return ""
    return done.stdout + done.stderr
