"""Make a release: ``python -m tools.release 0.4.0`` (``make release VERSION=0.4.0``).

Everything is built from a clone in a temporary folder, whose last commit is the release, and each archive is
installed into an empty environment and used.  Only then is anything written here: the archives in ``dist/``,
and the files that say the version, uncommitted, or with ``--tag`` that very commit and its tag.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import structs

from mgw import DISTRIBUTION
from tools.release_build import (
    ToolFailed,
    build_archives,
    build_debian,
    checksums,
    clone,
    debian_obstacle,
    run,
)
from tools.release_parts import PartsMissing, compare, write_bill, write_requirements
from tools.release_texts import PATHS, Sources, Version, parse_version, refusals, released
from tools.release_trial import TrialFailed, install, try_out, try_package

ROOT: Final = Path(__file__).resolve().parents[1]
_KEEP: Final = "nothing is committed: read it over and commit it, or begin anew with git restore and --tag"


def main(arguments: Sequence[str], now: datetime, root: Path) -> int:
    """Make the release that the command line names; return the exit status.

    :param now: the time of the release, with its zone.
    :param root: the repository.
    """
    said = _parser().parse_args(arguments)
    version: Version = said.version
    if found := [*obstacles(root, version), *refusals(read(root), version)]:
        sys.stderr.writelines(f"tools/release.py: {text}\n" for text in found)
        return 1
    try:
        with tempfile.TemporaryDirectory(prefix="mgw-release-") as folder:
            _release(root, version, now, Path(folder), tag=said.tag, debian=said.debian)
    except (ToolFailed, TrialFailed, PartsMissing) as failure:
        sys.stderr.write(f"tools/release.py: {failure}\n")
        return 1
    return 0


def read(root: Path) -> Sources:
    """Read the files that a release changes."""
    texts = structs.asdict(PATHS)
    return Sources(**{name: (root / path).read_text(encoding="utf-8") for name, path in texts.items()})


def write(root: Path, sources: Sources) -> None:
    """Write the files that a release changes."""
    for name, path in structs.asdict(PATHS).items():
        (root / path).write_text(getattr(sources, name), encoding="utf-8")


def obstacles(root: Path, version: Version) -> list[str]:
    """Say what forbids a release in this repository."""
    found = []
    if changes := run(["git", "status", "--porcelain"], root).splitlines():
        found.append(f"not everything is committed: {', '.join(line[3:] for line in changes)}")
    if run(["git", "tag", "--list", f"v{version}"], root):
        found.append(f"the tag v{version} exists")
    return found


def commit_release(root: Path, sources: Path, version: Version, now: datetime) -> None:
    """Commit the release in a clone, under the name of whoever works in this repository."""
    write(sources, released(read(sources), version, now))
    name, mail = (run(["git", "config", f"user.{key}"], root).strip() for key in ("name", "email"))
    date = now.isoformat(timespec="seconds")
    names = ["-c", f"user.name={name}", "-c", f"user.email={mail}"]
    command = ["git", *names, "commit", "--quiet", "--all", "-m", f"Release {version}"]
    run(command, sources, {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date})


def tag_release(root: Path, sources: Path, version: Version) -> None:
    """Take over the commit of the clone, from which everything was built, and tag it."""
    run(["git", "fetch", "--quiet", sources, "HEAD"], root)
    run(["git", "merge", "--quiet", "--ff-only", "FETCH_HEAD"], root)
    run(["git", "tag", "--annotate", f"v{version}", "-m", f"mgw {version}"], root)


def _release(root: Path, version: Version, now: datetime, folder: Path, *, tag: bool, debian: bool) -> None:
    sources, out = clone(root, folder / "mgw"), folder / "out"
    out.mkdir()
    commit_release(root, sources, version, now)
    _say("build the source archive and the wheel")
    for archive in build_archives(sources, out):
        _say(f"install and use {archive.name}")
        work = Path(tempfile.mkdtemp(dir=folder))
        python = install(archive, work / "environment")
        try_out(python, sources, str(version), work)
    _write_parts(python, version, now, out)
    if debian:
        _package(sources, out)
    files = sorted(out.iterdir())
    (out / "SHA256SUMS").write_text(checksums(files), encoding="utf-8")
    shutil.copytree(out, root / "dist", dirs_exist_ok=True)
    _say(f"dist/: {', '.join(file.name for file in (*files, out / 'SHA256SUMS'))}")
    if tag:
        tag_release(root, sources, version)
        _say(f"committed and tagged v{version}; git push --follow-tags publishes it")
    else:
        write(root, read(sources))
        _say(f"{', '.join(structs.astuple(PATHS))} have version {version}; {_KEEP}")


def _write_parts(python: Path, version: Version, now: datetime, out: Path) -> None:
    requirements, bill = (
        out / f"{DISTRIBUTION}-{version}.{ending}" for ending in ("requirements.txt", "cdx.json")
    )
    write_requirements(python, requirements)
    write_bill(python, str(version), now, bill)
    _say(f"{bill.name} is valid and has {compare(bill, requirements)} libraries")


def _package(sources: Path, out: Path) -> None:
    """Build and try the Debian package where that can be done, or say why not."""
    if obstacle := debian_obstacle(sources):
        _say(f"NO Debian package: {obstacle}")
        return
    _say("build the Debian package, which takes some minutes")
    package = build_debian(sources, out)
    _say(f"install and use {package.name} on a clean Debian 12")
    if obstacle := try_package(package, sources):
        _say(f"the Debian package was NOT tried: {obstacle}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Make a release.")
    parser.add_argument("version", type=parse_version, help="as 0.4.0")
    parser.add_argument("--tag", action="store_true", help="commit the release and tag it, as v0.4.0")
    parser.add_argument(
        "--no-debian", dest="debian", action="store_false", help="leave the Debian package out"
    )
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"== {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], datetime.now(UTC).replace(microsecond=0), ROOT))
