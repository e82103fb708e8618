"""What a release changes in the sources, and which releases are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import docutils.nodes
import pytest
from docutils.core import publish_doctree
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tools.release_texts import Sources, Version, parse_version, refusals, released, version_of

WHEN = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
CHANGELOG = """\
Changelog
=========

Unreleased
----------

Added
~~~~~

- A route.

Fixed
~~~~~

- A fault; the heading Unreleased
  is not one here.

0.1.0 (2026-01-02)
------------------

Removed
~~~~~~~

- What nobody used.
"""
SOURCES = Sources(
    package='"""mgw, a gateway."""\n\n__version__ = "0.1.0"\n',
    changelog=CHANGELOG,
    debian="""\
mgw (0.1.0) bookworm; urgency=low

  * Package it.

 -- the mgw authors <mgw@example.org>  Fri, 02 Jan 2026 12:00:00 +0000
""",
    chart='version: 0.1.0\nappVersion: "0.1.0"\n',
    deployment='        - name: mgw\n          image: "registry.example.com/mgw:0.1.0"\n',
)
NUMBERS = st.integers(0, 30)
VERSIONS = st.builds(Version, NUMBERS, NUMBERS, NUMBERS) | st.builds(
    Version, NUMBERS, NUMBERS, NUMBERS, st.just(False), NUMBERS
)


def with_changes(changes: str) -> Sources:
    """The sources when this is below Unreleased."""
    before, _, rest = CHANGELOG.partition("Added\n")
    return structs.replace(SOURCES, changelog=f"{before}{changes}\n0.1.0{rest.partition('0.1.0')[2]}")


@given(VERSIONS)
def test_a_version_is_read_as_it_is_written(version: Version) -> None:
    assert parse_version(str(version)) == version


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3rc1", "1.2.3 ", "1.2.-3"]
)
def test_what_has_not_three_numbers_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="is no version"):
        parse_version(text)


def test_versions_have_an_order() -> None:
    texts = ["0.1.0.dev0", "0.1.0.dev1", "0.1.0", "0.1.1.dev0", "0.1.1", "0.2.0", "0.10.0", "1.0.0"]
    versions = [parse_version(text) for text in texts]
    assert all(before < after for before, after in pairwise(versions))


def test_the_version_of_the_package_is_the_released_one() -> None:
    after = released(SOURCES, parse_version("0.2.0"), WHEN)
    assert after.package == '"""mgw, a gateway."""\n\n__version__ = "0.2.0"\n'
    assert version_of(after) == Version(0, 2, 0)


def test_the_chart_and_the_manifests_name_the_image_of_the_release() -> None:
    after = released(SOURCES, parse_version("0.2.0"), WHEN)
    assert after.chart == 'version: 0.1.0\nappVersion: "0.2.0"\n'
    assert after.deployment == '        - name: mgw\n          image: "registry.example.com/mgw:0.2.0"\n'


def test_what_was_unreleased_has_the_version_and_the_date_and_nothing_is_unreleased() -> None:
    after = released(SOURCES, parse_version("0.2.0"), WHEN)
    heading = "0.2.0 (2026-11-24)\n------------------\n"
    assert after.changelog == CHANGELOG.replace(
        "Unreleased\n----------\n", f"Unreleased\n----------\n\n{heading}", 1
    )
    document = publish_doctree(after.changelog, settings_overrides={"halt_level": 2})
    titles = [title.astext() for title in document.findall(docutils.nodes.title)]
    assert titles == [
        "Changelog",
        "Unreleased",
        "0.2.0 (2026-11-24)",
        "Added",
        "Fixed",
        "0.1.0 (2026-01-02)",
        "Removed",
    ]


def test_the_debian_package_gets_an_entry_above_those_before() -> None:
    after = released(SOURCES, parse_version("0.2.0"), WHEN)
    assert after.debian == (
        "mgw (0.2.0) bookworm; urgency=medium\n\n"
        "  * New release; CHANGELOG.rst says what is different.\n\n"
        " -- the mgw authors <mgw@example.org>  Tue, 24 Nov 2026 09:30:00 +0000\n\n" + SOURCES.debian
    )


def test_a_changelog_of_another_package_is_not_added_to() -> None:
    with pytest.raises(ValueError, match="does not begin with an entry"):
        released(structs.replace(SOURCES, debian="other (1.0) x; urgency=low\n"), Version(0, 2, 0), WHEN)


@pytest.mark.parametrize("text", ["0.2.0", "0.10.0", "1.0.0"])
def test_a_newer_version_with_changes_is_released(text: str) -> None:
    assert refusals(SOURCES, parse_version(text)) == []


@pytest.mark.parametrize("text", ["0.1.0", "0.0.9"])
def test_a_version_that_is_not_newer_is_refused(text: str) -> None:
    assert f"{text} is not newer than 0.1.0, which mgw/__init__.py has" in refusals(
        SOURCES, parse_version(text)
    )


def test_the_release_of_what_is_in_development_is_newer() -> None:
    sources = structs.replace(SOURCES, package='__version__ = "0.2.0.dev0"\n')
    assert refusals(sources, parse_version("0.2.0")) == []


def test_a_version_in_development_is_not_released() -> None:
    assert refusals(SOURCES, parse_version("0.2.0.dev1")) == ["0.2.0.dev1 is a version in development"]


def test_a_second_release_without_a_change_is_refused() -> None:
    after = released(SOURCES, Version(0, 2, 0), WHEN)
    assert refusals(after, Version(0, 3, 0)) == ["nothing is below Unreleased in CHANGELOG.rst"]


def test_a_heading_alone_is_no_change() -> None:
    assert refusals(with_changes("Added\n~~~~~\n"), Version(0, 2, 0)) == [
        "nothing is below Unreleased in CHANGELOG.rst"
    ]


def test_a_changelog_without_the_heading_is_refused() -> None:
    sources = structs.replace(SOURCES, changelog="Changelog\n=========\n\n- A change.\n")
    assert refusals(sources, Version(0, 2, 0)) == ["CHANGELOG.rst has no heading Unreleased"]


@pytest.mark.parametrize(
    ("heading", "version", "wants"),
    [
        ("Fixed", "0.1.1", None),
        ("Security", "0.1.1", None),
        ("Changed", "0.1.1", None),
        ("Added", "0.1.1", "raise MINOR"),
        ("Removed", "0.1.1", "raise MINOR"),
        ("Removed", "0.2.0", None),
        ("Removed", "1.1.0", "raise MAJOR"),
        ("Added", "1.1.0", None),
        ("Removed", "2.0.0", None),
    ],
)
def test_a_version_says_how_much_is_different(heading: str, version: str, wants: str | None) -> None:
    found = refusals(with_changes(f"{heading}\n{'~' * len(heading)}\n\n- It.\n"), parse_version(version))
    assert [wants in text for text in found if wants] == ([True] if wants else [])
    assert wants or not found


def test_all_that_is_wrong_is_said_at_once() -> None:
    after = released(SOURCES, Version(0, 2, 0), WHEN)
    assert len(refusals(after, parse_version("0.2.0.dev0"))) == 3
