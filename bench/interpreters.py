"""The Pythons that run the gateway in a measurement, and how each was built.

``python -m bench.interpreters PYTHON`` ends with success where that is another Python than this one.

A build with profile-guided optimization (PGO) is faster than one without, so a result means little without
the build. What an interpreter says of itself (``sysconfig``) is not enough: Debian's is built with the
target ``profile-opt``, and its package takes all traces of that out of ``sysconfig``. So three sources are
asked, and where none of them knows, the answer is that it is not known:

- ``sysconfig``: ``--enable-optimizations`` or ``--with-lto`` among the arguments of ``configure``, or the
  compiler's own options among its flags;
- the debug information of the program, where it has any: GCC notes its options there (``DW_AT_producer``),
  so that it proves either answer;
- the changelog of Debian's package, which says that its builds have both, for programs of ``/usr/bin``.
"""

from __future__ import annotations

import gzip
import json
import mmap
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DEBIAN: Final = Path("/usr/bin/python3")
_FLAGS: Final = (
    "CONFIG_ARGS",
    "PY_CFLAGS",
    "PY_CORE_CFLAGS",
    "CFLAGS_NODIST",
    "PY_CORE_LDFLAGS",
    "LDFLAGS_NODIST",
)
_ASKED: Final = f"""
import json, os, platform, sys, sysconfig
of = sysconfig.get_config_var
program = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
library = os.path.join(of("LIBDIR") or "", of("INSTSONAME") or of("LDLIBRARY") or "")
print(json.dumps({{
    "implementation": platform.python_implementation(),
    "version": platform.python_version(),
    "prefix": sys.base_prefix,
    "program": program,
    "library": library if of("Py_ENABLE_SHARED") and os.path.isfile(library) else "",
    "flags": " ".join(str(of(name) or "") for name in {_FLAGS!r}),
}}))
"""
_PRODUCER: Final = re.compile(rb"GNU (?:C\d*|GIMPLE) \d[ -~]*")
_DEBIAN_SAYS: Final = "LTO/PGO builds"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an interpreter."""

    implementation: str
    version: str
    prefix: str
    """Where it is installed, without the virtual environment."""
    program: str
    library: str
    """Where most of its code is, if not in the program."""
    flags: str
    producers: tuple[str, ...] = ()
    """How its sources were compiled, as the debug information has it."""
    changelog: str = ""
    """Of Debian's package, where it is one."""


@dataclass(frozen=True, slots=True)
class Build:
    """An interpreter's version and optimizations; ``None``: not known."""

    version: str
    pgo: bool | None
    lto: bool | None
    source: str
    """Who says so."""

    @property
    def short(self) -> str:
        """Return what stands above a column."""
        return f"{self.version.partition(' ')[2]}{_optimizations(pgo=self.pgo, lto=self.lto)}"

    def __str__(self) -> str:
        return f"{self.version}{_optimizations(pgo=self.pgo, lto=self.lto)} ({self.source})"


def build_of(facts: Facts) -> Build:
    """Return how an interpreter was built, by the first source that knows."""
    version = f"{facts.implementation} {facts.version}"
    pgo = "--enable-optimizations" in facts.flags or "-fprofile-use" in facts.flags
    lto = "--with-lto" in facts.flags or "-flto" in facts.flags
    if facts.producers:
        pgo |= any("-fprofile-use" in one for one in facts.producers)
        lto |= any("-flto" in one or one.startswith("GNU GIMPLE") for one in facts.producers)
        return Build(version, pgo, lto, "its debug information")
    if pgo:
        return Build(version, pgo, lto, "its configuration")
    if _DEBIAN_SAYS in facts.changelog:
        return Build(version, pgo=True, lto=True, source="the package's changelog")
    return Build(version, None, lto or None, "its configuration says nothing")


def _optimizations(*, pgo: bool | None, lto: bool | None) -> str:
    if pgo is None:
        return ", PGO not known"
    return {
        (True, True): " with PGO and LTO",
        (True, False): " with PGO",
        (False, True): " with LTO, without PGO",
    }.get((pgo, bool(lto)), " without PGO")


def facts_of(python: Path) -> Facts:
    """Ask an interpreter, and look at its files.

    :raises OSError: it cannot be run.
    :raises subprocess.CalledProcessError: it did not answer.
    """
    asked = [str(python), "-I", "-c", _ASKED]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20)
    found: dict[str, str] = json.loads(said.stdout)
    program, library = found["program"], found["library"]
    producers = _producers(Path(library or program))
    return Facts(**found, producers=producers, changelog=_changelog(Path(program)))


def _producers(program: Path) -> tuple[str, ...]:
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return tuple(sorted({found[0].decode() for found in _PRODUCER.finditer(data)}))


def _changelog(program: Path) -> str:
    if program.parent != DEBIAN.parent:
        return ""
    try:
        with gzip.open(
            f"/usr/share/doc/{program.name}-minimal/changelog.Debian.gz", "rt", encoding="utf-8"
        ) as file:
            return file.read()
    except OSError:
        return ""


def are_the_same(one: Facts, other: Facts) -> bool:
    """Say whether two are one interpreter, perhaps in two virtual environments."""
    return (one.program, one.version) == (other.program, other.version)


def main() -> int:
    """Say whether the gateway is to be measured with this interpreter, too."""
    python = Path(sys.argv[1])
    try:
        other = facts_of(python)
    except (OSError, subprocess.SubprocessError) as problem:
        print(f"no column for {python}: {problem}", file=sys.stderr)
        return 1
    if are_the_same(other, facts_of(Path(sys.executable))):
        print(f"no second column: {python} is the Python of this environment", file=sys.stderr)
        return 1
    if tuple(map(int, other.version.split(".")[:2])) < (3, 11):
        print(f"no column for {python}: the gateway needs 3.11, and it is {other.version}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
