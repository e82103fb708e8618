"""What a release changes in the sources: the version, the changelog, and the Debian package's changelog.

What mends something raises PATCH, what adds something MINOR, and what takes something away MAJOR, or MINOR
below 1.0.0.
"""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import format_datetime
from typing import Final

from msgspec import Struct, structs

_VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:\.dev(0|[1-9]\d*))?")
_ASSIGNED: Final = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_APP_VERSION: Final = re.compile(r'^appVersion: ".+"$', re.MULTILINE)
_IMAGE: Final = re.compile(r'^( +image: ".+/mgw:)[^"]+(")$', re.MULTILINE)
_UNRELEASED: Final = "Unreleased\n----------\n"
_NEXT_RELEASE: Final = re.compile(r"^[^\n]+\n-{3,}\n", re.MULTILINE)
_HEADING: Final = re.compile(r"^([A-Z][a-z]+)\n~{3,}$", re.MULTILINE)
_ENTRY: Final = re.compile(r"mgw \([^)]+\) (?P<target>[^;\n]+);.*?\n -- (?P<maintainer>[^\n]+>)  ", re.DOTALL)


class Version(Struct, frozen=True, order=True):
    """A version of the gateway; those in development come before their release."""

    major: int
    minor: int
    patch: int
    released: bool = True
    development: int = 0

    def __str__(self) -> str:
        number = f"{self.major}.{self.minor}.{self.patch}"
        return number if self.released else f"{number}.dev{self.development}"


class Sources(Struct, frozen=True):
    """The texts that a release changes."""

    package: str
    """``mgw/__init__.py``"""
    changelog: str
    """``CHANGELOG.rst``"""
    debian: str
    """``debian/changelog``"""
    chart: str
    """``etc/deployment/helm/mgw/Chart.yaml``"""
    deployment: str
    """``etc/deployment/kubernetes/deployment.yaml``"""


PATHS: Final = Sources(
    "mgw/__init__.py",
    "CHANGELOG.rst",
    "debian/changelog",
    "etc/deployment/helm/mgw/Chart.yaml",
    "etc/deployment/kubernetes/deployment.yaml",
)
"""Where they are, below the root of the sources."""


def parse_version(text: str) -> Version:
    """Read ``1.2.3`` or ``1.2.3.dev4``.

    :raises ValueError: for anything else.
    """
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no version: it has the form 1.2.3")
    major, minor, patch, development = found.groups()
    return Version(int(major), int(minor), int(patch), development is None, int(development or 0))


def version_of(sources: Sources) -> Version:
    """Return the version that the sources have now."""
    [text] = _ASSIGNED.findall(sources.package)
    return parse_version(text)


def refusals(sources: Sources, version: Version) -> list[str]:
    """Say all that is wrong with a release of these sources under this version."""
    now, found = version_of(sources), []
    if not version.released:
        found.append(f"{version} is a version in development")
    if version <= now:
        found.append(f"{version} is not newer than {now}, which mgw/__init__.py has")
    changes = _unreleased(sources.changelog)
    if changes is None:
        found.append("CHANGELOG.rst has no heading Unreleased")
    elif re.search(r"^- \S", changes, re.MULTILINE) is None:
        found.append("nothing is below Unreleased in CHANGELOG.rst")
    else:
        found += _too_small(version, _HEADING.findall(changes))
    return found


def released(sources: Sources, version: Version, when: datetime) -> Sources:
    """Return the sources of the release, whose changelog has room for what comes next."""
    heading = f"{version} ({when:%Y-%m-%d})"
    return structs.replace(
        sources,
        package=_ASSIGNED.sub(f'__version__ = "{version}"', sources.package),
        changelog=sources.changelog.replace(
            _UNRELEASED, f"{_UNRELEASED}\n{heading}\n{'-' * len(heading)}\n", 1
        ),
        debian=f"{_debian_entry(sources.debian, version, when)}\n{sources.debian}",
        chart=_APP_VERSION.sub(f'appVersion: "{version}"', sources.chart),
        deployment=_IMAGE.sub(rf"\g<1>{version}\g<2>", sources.deployment),
    )


def _unreleased(changelog: str) -> str | None:
    """Return what is below that heading."""
    _, heading, rest = changelog.partition(f"\n{_UNRELEASED}")
    return _NEXT_RELEASE.split(rest, maxsplit=1)[0] if heading else None


def _too_small(version: Version, headings: list[str]) -> list[str]:
    """Say which headings do not go with so small a step."""
    if version.patch and (found := [name for name in ("Added", "Removed") if name in headings]):
        return [f"{version} is for fixes alone, and CHANGELOG.rst has {' and '.join(found)}: raise MINOR"]
    if version.minor and version.major and "Removed" in headings:
        return [f"{version} takes nothing away, and CHANGELOG.rst has Removed: raise MAJOR"]
    return []


def _debian_entry(before: str, version: Version, when: datetime) -> str:
    """Write an entry for the same system and by the same maintainer as the one on top."""
    top = _ENTRY.match(before)
    if top is None:
        raise ValueError("debian/changelog does not begin with an entry for mgw")
    lines = (
        f"mgw ({version}) {top['target']}; urgency=medium",
        "  * New release; CHANGELOG.rst says what is different.",
        f" -- {top['maintainer']}  {format_datetime(when)}",
    )
    return "\n\n".join(lines) + "\n"
