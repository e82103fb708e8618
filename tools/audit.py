"""Ask for known vulnerabilities of the libraries that an installation gets now: ``make lint-security``.

A service that has no answer for a library makes this fail: silence is not safety.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from mgw import DISTRIBUTION
from tools.release_build import ToolFailed, run
from tools.release_trial import EXTRAS

ROOT: Final = Path(__file__).resolve().parents[1]
_Answer = dict[str, Any]  # Any: JSON


def main() -> int:
    """Print what is known; return 0 only if every library is known and none has a vulnerability."""
    with tempfile.TemporaryDirectory(prefix="mgw-audit-") as folder:
        try:
            requirements = resolve(Path(folder))
        except ToolFailed as failure:
            sys.stderr.write(f"tools/audit.py: {failure}\n")
            return 1
        answer, said = _ask(requirements, Path(folder))
    if answer is None:
        sys.stderr.write(f"tools/audit.py: the service that knows vulnerabilities cannot be asked: {said}\n")
        return 1
    problems = [*vulnerabilities(answer), *unknown(answer)]
    sys.stderr.writelines(f"tools/audit.py: {problem}\n" for problem in problems)
    if not problems:
        sys.stdout.write(f"{len(answer['dependencies'])} libraries, none with a known vulnerability\n")
    return int(bool(problems))


def resolve(folder: Path) -> Path:
    """Write what pip would install with the gateway, each library with its version."""
    file = folder / "requirements.txt"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--dry-run"]
    report = folder / "report.json"
    run([*pip, "--ignore-installed", "--report", str(report), f"{ROOT}[{EXTRAS}]"], folder)
    file.write_text(pinned(json.loads(report.read_bytes())), encoding="utf-8")
    return file


def pinned(report: _Answer) -> str:
    """Return the libraries in pip's report (https://pip.pypa.io/en/stable/reference/installation-report/)."""
    parts = (part["metadata"] for part in report["install"])
    libraries = (part for part in parts if part["name"] != DISTRIBUTION)
    return "".join(sorted(f"{part['name']}=={part['version']}\n" for part in libraries))


def vulnerabilities(answer: _Answer) -> list[str]:
    """Say which libraries have known vulnerabilities, and where they are mended."""
    return [
        f"{library['name']} {library['version']} has {known['id']}, mended in {_versions(known)}"
        for library in answer["dependencies"]
        for known in library.get("vulns", ())
    ]


def unknown(answer: _Answer) -> list[str]:
    """Say that the service knows nothing about some libraries."""
    libraries = answer["dependencies"]
    names = [library["name"] for library in libraries if "skip_reason" in library]
    if not names:
        return []
    listed = f"{', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
    how_many = f"{len(names)} of {len(libraries)} libraries ({listed})"
    return [f"no answer about {how_many}: ask again where PyPI itself can be reached"]


def _ask(requirements: Path, folder: Path) -> tuple[_Answer | None, str]:
    """Return the answer of pip-audit, or what it said instead; its status alone does not tell which."""
    file = folder / "answer.json"
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        str(requirements),
        "--no-deps",
        "--disable-pip",
    ]
    options = ["--progress-spinner", "off", "--format", "json", "--output", str(file)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)  # noqa: S603  # ours
    if not file.is_file() or not file.stat().st_size:
        return None, "".join(done.stderr.splitlines()[-1:])
    answer: _Answer = json.loads(file.read_bytes())
    return answer, done.stderr


def _versions(known: _Answer) -> str:
    return " and ".join(known["fix_versions"]) or "no version yet"


if __name__ == "__main__":
    sys.exit(main())
