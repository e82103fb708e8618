"""Ask whether the tests would notice: change a module in many small ways, and run its tests with each.

``python -m tools.mutate mgw/wire/frames.py --count 20`` draws twenty changes, runs the module's tests with
each, and names those with which all of them pass.  Unless ``--tests`` names others, these are first the files
of ``tests/pure`` and ``tests/memory`` that have the module's name, then the folders that mirror its package.
Everything happens in a temporary copy of the sources, so the tree stays as it is.  A change that lives on
shows a promise that no test holds, code that does nothing, or what nobody can see: look at each.

Exit status: 0 if every change was noticed, 1 if some live on, 2 if the tests fail without any change.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from msgspec import Struct

from tools.mutations import Mutation, count_mutations, mutate

_ROOT: Final = Path(__file__).resolve().parents[1]
_COPIED: Final = ("mgw", "tests", "tools", "bench", "docs", "etc", "twisted", "contrib", "debian")
_PYTEST: Final = (*("-m", "pytest", "-x", "-q", "-n", "0"), *("--no-header", "--hypothesis-seed=0"))
_TIMES: Final = 5
"""A run may take as long as this many runs without a change: a loop without an end is noticed, too."""
_STARTED: Final = 20.0
"""Seconds that a run may take in any case, as when the machine has other work."""


class Trial(Struct, frozen=True):
    """What is tried: a module, its tests, and how long all of it may take."""

    root: Path
    module: str
    stages: Sequence[Sequence[str]]
    """Files and folders of tests; those of a later stage are run with what lives on."""
    count: int
    seed: int
    minutes: float


def mirrored_tests(root: Path, module: str) -> list[list[str]]:
    """Return a module's tests: the files that have its name, then the folders that mirror its package."""
    path = Path(module)
    folders = [Path("tests", layer, path.parent.relative_to("mgw")) for layer in ("pure", "memory")]
    files = [file for folder in folders for file in sorted((root / folder).glob(f"test_{path.stem}*.py"))]
    stages = [[str(file.relative_to(root)) for file in files]]
    if path.parent != Path("mgw"):  # beside the packages stand modules of all kinds
        stages.append([str(folder) for folder in folders if (root / folder).is_dir()])
    return [stage for stage in stages if stage]


def draw(source: str, count: int, seed: int) -> Iterator[Mutation]:
    """Yield so many mutations of a module, or all that it has, the same for every run with one seed."""
    drawn = random.Random(seed)  # noqa: S311 - nothing is guessed
    numbers = drawn.sample(range(known := count_mutations(source)), known)
    for mutation in (mutate(source, number) for number in numbers):
        if count == 0:
            return
        if mutation is not None:
            count -= 1
            yield mutation


class Copy:
    """A copy of the sources in which one module is changed over and over."""

    def __init__(self, trial: Trial, folder: Path) -> None:
        self._trial = trial
        self._folder = folder
        self._module = folder / trial.module
        self._seconds: float | None = None

    def fill(self) -> None:
        """Copy what tests need."""
        for path in self._trial.root.iterdir():
            if path.is_file():
                shutil.copy2(path, self._folder)
            elif path.name in _COPIED:
                ignored = shutil.ignore_patterns("__pycache__", "node_modules")
                shutil.copytree(path, self._folder / path.name, ignore=ignored, symlinks=True)

    def passes_unchanged(self) -> bool:
        """Whether the tests pass without a change; from then on every run has a limit."""
        begun = time.monotonic()
        passed = self.passes((self._trial.root / self._trial.module).read_text(encoding="utf-8"))
        self._seconds = _STARTED + _TIMES * (time.monotonic() - begun)
        return passed

    def passes(self, source: str) -> bool:
        """Whether the tests pass with this as the module's source."""
        self._module.write_text(source, encoding="utf-8")
        # Its time, in seconds, and its size may be those of the one before.
        Path(cache_from_source(str(self._module))).unlink(missing_ok=True)
        return all(map(self._run, self._trial.stages))

    def _run(self, tests: Sequence[str]) -> bool:
        environment = {**os.environ, "PYTHONPATH": str(self._folder)}
        # What runs is this interpreter, with tests of this repository.
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, *_PYTEST, *tests],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(self._seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a run of tests, and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(trial: Trial) -> int:
    """Try the mutations, print those that live on, and return the exit status."""
    source = (trial.root / trial.module).read_text(encoding="utf-8")
    lines = source.splitlines()
    begun = time.monotonic()
    tried = alive = 0
    with tempfile.TemporaryDirectory(prefix="mgw-mutate-") as folder:
        copy = Copy(trial, Path(folder))
        copy.fill()
        if not copy.passes_unchanged():
            _say(f"the tests of {trial.module} fail without any change")
            return 2
        for mutation in draw(source, trial.count, trial.seed):
            if time.monotonic() - begun > trial.minutes * 60:
                _say(f"{trial.module}: the time is up")
                break
            tried += 1
            if copy.passes(mutation.source):
                alive += 1
                _say(f"{trial.module}:{mutation.line}: {mutation.before} -> {mutation.after}")
                _say(f"    {lines[mutation.line - 1].strip()}")
    _say(f"{trial.module}: {alive} of {tried} mutations live on")
    return min(alive, 1)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutate", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("module", help="the file to change, as mgw/wire/frames.py")
    parser.add_argument("--tests", nargs="+", help="files or folders (default: those that mirror it)")
    parser.add_argument("--count", type=int, default=20, help="how many mutations (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="which of them are drawn (default: 0)")
    parser.add_argument("--minutes", type=float, default=30.0, help="then no other begins (default: 30)")
    options = parser.parse_args(arguments)
    stages = [options.tests] if options.tests else mirrored_tests(_ROOT, options.module)
    if not stages:
        parser.error(f"no tests mirror {options.module}: name some with --tests")
    return run(Trial(_ROOT, options.module, stages, options.count, options.seed, options.minutes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
