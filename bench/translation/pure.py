"""The conversions alone: each program in a process of its own, in turn, round by round."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from bench.machines import ROOT
from bench.processes import PROXY_CORE, environment, pinned
from bench.results import progress
from bench.translation.side import ANSWER, REQUEST, STREAM, TEXT_CHARACTERS, key
from bench.translation.tally import Tally, differences, of_body, of_stream
from tests.support.talks import agent, chat, first_lines
from tests.support.wires import WIRES, answer, request, stream

LIMIT_SECONDS = 300


@dataclass(slots=True)
class Found:
    """What one program gave, by the names of the things measured."""

    version: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)
    wrong: dict[str, list[str]] = field(default_factory=dict)
    """Where its output lacks something, or has too much."""
    problems: list[str] = field(default_factory=list)

    def microseconds(self, name: str) -> float | None:
        """The median."""
        return median(found) if (found := self.samples.get(name)) else None

    def spread(self) -> float:
        """What lies between the quarters, as a share of the median; the median of all things measured."""
        quarters = [quantiles(found, n=4) for found in self.samples.values() if len(found) > 1]
        return median((high - low) / middle for low, middle, high in quarters) if quarters else 0.0


def measure(pythons: dict[str, Path], folder: Path, rounds: int, samples: int) -> dict[str, Found]:
    """Measure the sides by their names, each with the interpreter that has its program."""
    found = {name: Found() for name in pythons}
    for number in range(rounds):
        for name, python in pythons.items():
            progress(f"conversions, round {number + 1} of {rounds}: {name}")
            _run(name, python, folder / f"{name}-{number}.json", samples, found[name])
    return found


def _run(name: str, python: Path, to: Path, samples: int, found: Found) -> None:
    command = [str(python), "-m", "bench.translation.side", name, str(samples), str(to)]
    done = subprocess.run(
        pinned(PROXY_CORE, *command),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(),
        timeout=LIMIT_SECONDS,
    )
    if done.returncode != 0 or not to.exists():
        found.problems.append(f"ended with {done.returncode}: {done.stderr[-500:]}")
        return
    gave = json.loads(to.read_text())
    found.version = gave["version"]
    found.problems += [f"{one}: {text}" for one, text in gave["problems"].items() if not found.samples]
    for one, values in gave["samples"].items():
        found.samples.setdefault(one, []).extend(values)
    found.wrong = wrong(gave["tallies"])


def wrong(tallies: dict[str, Tally]) -> dict[str, list[str]]:
    """What outputs have that they should not, or lack."""
    right = wanted()
    said = {name: differences(right[name], tally) for name, tally in tallies.items()}
    return {name: found for name, found in said.items() if found}


def wanted() -> dict[str, Tally]:
    """What each output has to hold: what the cases hold in that wire."""
    found: dict[str, Tally] = {}
    for client in WIRES:
        for provider in WIRES:
            found |= _wanted(client, provider)
    return found


def _wanted(client: str, provider: str) -> dict[str, Tally]:
    found: dict[str, Tally] = {}
    for talk in (chat(), agent()):
        asked, answered = request(provider, talk), answer(client, talk)
        found[key(talk.name, client, provider, REQUEST)] = of_body(asked)
        found[key(talk.name, client, provider, ANSWER)] = of_body(answered)
    for name, said in (("text", first_lines(chat(), TEXT_CHARACTERS)), ("calls", agent().answer)):
        found[key(name, client, provider, STREAM)] = of_stream(b"".join(stream(client, said)))
    return found
