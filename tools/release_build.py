"""Build the source archive, the wheel and the Debian package from a clone, which has only what is committed.

Archives have the time of the last commit (https://reproducible-builds.org/specs/source-date-epoch/): whoever
builds the same commit gets the same bytes, since ``constraints.txt`` says with which setuptools.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_UMASK: Final = 0o022
"""Modes of files get into archives."""
_PINNED: Final = dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), "constraints.txt")
"""So is what builds; pip up to 25.2 reads the first."""
_DEBIAN_TOOLS: Final = ("dpkg-buildpackage", "dpkg-checkbuilddeps", "dh", "dh_virtualenv")


class ToolFailed(Exception):  # noqa: N818  # read aloud: the tool failed
    """A program ended with another status than 0; the message has the end of what it printed."""


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a program to its end; return what it printed.

    :raises ToolFailed: it failed.
    """
    words = [str(word) for word in command]
    done = subprocess.run(  # noqa: S603  # what is run stands in this folder
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        umask=_UMASK,
        text=True,
        check=False,
    )
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-30:])
        raise ToolFailed(f"{' '.join(words)}: status {done.returncode}\n{end}")
    return done.stdout


def pip_for(python: Path) -> list[str | Path]:
    """Begin a command that works on another environment, which has no pip."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]


def clone(root: Path, folder: Path) -> Path:
    """Clone what is checked out at ``root``, without what is not committed."""
    commit = run(["git", "rev-parse", "HEAD"], root).strip()
    run(["git", "clone", "--quiet", "--no-checkout", root, folder], root)
    run(["git", "checkout", "--quiet", "--detach", commit], folder)
    return folder


def build_archives(sources: Path, out: Path) -> tuple[Path, Path]:
    """Build the source archive, and the wheel from it; return their paths in ``out``."""
    seconds = int(run(["git", "log", "-1", "--format=%ct"], sources))
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(sources)]
    run(command, sources, {"SOURCE_DATE_EPOCH": str(seconds), **_PINNED})
    [archive], [wheel] = out.glob("*.tar.gz"), out.glob("*.whl")
    archive.write_bytes(level(archive.read_bytes(), seconds))
    return archive, wheel


def level(archive: bytes, seconds: int) -> bytes:
    """Write a source archive anew, without what differs between builds: times, owners and order."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as before,
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=seconds) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for member in sorted(before.getmembers(), key=lambda one: one.name):
            runs = member.isdir() or member.mode & 0o100
            member.mode, member.mtime, member.pax_headers = 0o755 if runs else 0o644, seconds, {}
            member.uid, member.gid, member.uname, member.gname = 0, 0, "", ""
            after.addfile(member, before.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def debian_obstacle(sources: Path) -> str | None:
    """Say why the Debian package cannot be built on this machine."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    if (system.get("ID"), system.get("VERSION_ID")) != ("debian", "12"):
        return f"this is {system.get('PRETTY_NAME', platform.system())}, not Debian 12"
    if missing := [name for name in _DEBIAN_TOOLS if shutil.which(name) is None]:
        return f"{', '.join(missing)} cannot be found (apt install dpkg-dev debhelper dh-virtualenv)"
    try:
        run(["dpkg-checkbuilddeps"], sources)
    except ToolFailed as failure:
        return str(failure).splitlines()[-1]
    return None


def build_debian(sources: Path, out: Path) -> Path:
    """Build the Debian package in a clone; return its path in ``out``."""
    seconds = run(["git", "log", "-1", "--format=%ct"], sources).strip()
    run(["git", "clean", "--quiet", "-fdx"], sources)
    run(["dpkg-buildpackage", "-us", "-uc", "-b"], sources, {"SOURCE_DATE_EPOCH": seconds})
    [package] = sources.parent.glob("mgw_*.deb")
    return Path(shutil.move(package, out / package.name))


def checksums(files: Sequence[Path]) -> str:
    """Return the text that ``sha256sum --check`` reads."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    return "".join(sorted(lines, key=lambda line: line.partition("  ")[2]))
