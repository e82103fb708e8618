"""What an installed gateway consists of: its libraries by version, and a bill of materials of them."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from mgw import DISTRIBUTION
from tools.release_build import pip_for, run

SPECIFICATION: Final = "1.6"
"""The version of CycloneDX (https://cyclonedx.org/docs/1.6/json/)."""
_PROJECT: Final = '[project]\nname = "{name}"\nversion = "{version}"\ndescription = "A model gateway"\n'


class PartsMissing(Exception):  # noqa: N818  # read aloud: parts are missing
    """A bill of materials leaves out a library that is installed."""


def write_requirements(python: Path, file: Path) -> None:
    """Write the libraries of an environment, as ``pip install --requirement`` reads them."""
    file.write_text(
        run([*pip_for(python), "freeze", "--exclude", DISTRIBUTION], file.parent), encoding="utf-8"
    )


def write_bill(python: Path, version: str, now: datetime, file: Path) -> None:
    """Write the bill of materials of an environment, in CycloneDX's JSON; the tool checks it with its schema.

    :raises ToolFailed: if it is not valid, and ``PartsMissing``.
    """
    project = file.with_name("pyproject.toml")
    project.write_text(_PROJECT.format(name=DISTRIBUTION, version=version), encoding="utf-8")
    tool = [sys.executable, "-m", "cyclonedx_py", "environment", "--validate", "--output-reproducible"]
    what = ["--sv", SPECIFICATION, "--of", "JSON", "--pyproject", str(project), "--output-file", str(file)]
    run([*tool, *what, python], file.parent, {"SOURCE_DATE_EPOCH": f"{now.timestamp():.0f}"})
    project.unlink()


def missing_parts(bill: dict[str, Any], requirements: str) -> list[str]:  # Any: JSON
    """Name the libraries, each with its version, that a bill of materials leaves out."""
    listed = {f"{part['name']}=={part['version']}".lower().replace("_", "-") for part in bill["components"]}
    return [line for line in requirements.splitlines() if line.lower().replace("_", "-") not in listed]


def compare(bill: Path, requirements: Path) -> int:
    """Return how many libraries the bill of materials has.

    :raises PartsMissing: if it leaves one out.
    """
    document = json.loads(bill.read_bytes())
    if missing := missing_parts(document, requirements.read_text(encoding="utf-8")):
        raise PartsMissing(f"{bill.name} leaves out {', '.join(missing)}")
    return len(document["components"])
