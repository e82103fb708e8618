"""The example configuration that is shipped."""

from __future__ import annotations

from pathlib import Path

import mgw


def example_text() -> str:
    """Return ``etc/mgw.yaml``: from the package where it is installed, else from the sources beside it."""
    package = Path(mgw.__file__).parent
    for folder in (package / "etc", package.parent / "etc"):
        file = folder / "mgw.yaml"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise SystemExit("mgw: the example configuration was not installed")
