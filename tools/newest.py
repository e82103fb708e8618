"""Say what the newest SDKs bring, and run the tests that follow them: ``make test-newest``.

The tests of this project run with the versions in ``constraints.txt``.  Here those that use an SDK run with
the newest versions that ``setup.py`` allows, in an environment of their own, and what the SDKs offer in both
environments is compared.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from tools.sdk_inventory import Inventory, inventory

ROOT: Final = Path(__file__).resolve().parents[1]
SDKS: Final = {"openai": "openai", "anthropic": "anthropic", "google-genai": "google/genai"}
"""Each SDK's folder among the packages."""
_FOLLOWS: Final = re.compile(
    r"^\s*(?:from|import) (?:(?:openai|anthropic|google\.genai)\b|google import genai"
    r"|tests\.support\.sdk_|tools\.translation\.)",
    re.MULTILINE,
)
_LAYERS: Final = ("pure", "memory", "sockets")


def main() -> int:
    """Compare this environment with the one whose Python is the first argument, and run the tests there."""
    python = Path(sys.argv[1]).absolute()
    pinned, newest = _packages(Path(sys.executable)), _packages(python)
    sys.stdout.writelines(f"{line}\n" for line in report(pinned, newest))
    sys.stdout.flush()
    tests = map(str, followers(ROOT / "tests"))
    command = [str(python), "-m", "pytest", "-n", "2", "--dist", "worksteal", *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603  # our own tests


def report(pinned: Path, newest: Path) -> Iterator[str]:
    """Yield what is new, line by line: first the SDKs with what they offer, then all other libraries."""
    before, after = versions(pinned), versions(newest)
    for name, folder in SDKS.items():
        yield _change(name, before, after)
        yield from differences(inventory(pinned / folder), inventory(newest / folder))
    yield "other libraries"
    others = sorted((before.keys() | after.keys()) - SDKS.keys())
    changed = [name for name in others if before.get(name) != after.get(name)]
    yield from (f"    {_change(name, before, after)}" for name in changed)
    if not changed:
        yield "    nothing is new"


def differences(before: Inventory, after: Inventory) -> Iterator[str]:
    """Yield what an SDK offers now and did not, and what it does no longer."""
    is_same = True
    for what in Inventory.__struct_fields__:
        old, new = getattr(before, what), getattr(after, what)
        for word, found in (("new", new - old), ("removed", old - new)):
            if found:
                is_same = False
                yield f"    {word} {what}"
                yield from (f"        {one}" for one in sorted(found))
    if is_same:
        yield "    nothing is new"


def versions(packages: Path) -> Mapping[str, str]:
    """Return the version of each library in a folder of packages."""
    return {one.name.lower().replace("_", "-"): one.version for one in distributions(path=[str(packages)])}


def followers(tests: Path) -> list[Path]:
    """Return the test modules that use an SDK."""
    files = (file for layer in _LAYERS for file in sorted((tests / layer).rglob("test_*.py")))
    return [file for file in files if _FOLLOWS.search(file.read_text(encoding="utf-8"))]


def _change(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    old, new = before.get(name, "not installed"), after.get(name, "not installed")
    return f"{name} {old}" if old == new else f"{name} {old} -> {new}"


def _packages(python: Path) -> Path:
    """Return the folder of an environment's packages."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603  # ours
    return Path(done.stdout.strip())


if __name__ == "__main__":
    sys.exit(main())
