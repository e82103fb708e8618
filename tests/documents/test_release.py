"""A release in a repository of its own: what forbids it, what it commits, and what it leaves alone."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from mgw import __version__
from tools import release
from tools.release_build import clone, run
from tools.release_texts import PATHS, Version, released, version_of

ROOT = Path(__file__).resolve().parents[2]
VERSION, WHEN = Version(99, 0, 0), datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the files that a release changes, all committed."""
    root = tmp_path / "repository"
    for path in structs.astuple(PATHS):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, root / path)
    for words in (
        ["init", "--quiet"],
        ["config", "user.name", "Somebody"],
        ["config", "user.email", "somebody@example.org"],
        ["add", "--all"],
        ["commit", "--quiet", "-m", "Begin"],
    ):
        run(["git", *words], root)
    return root


def test_the_sources_can_be_released() -> None:
    """Each file has what a release looks for, whatever is below Unreleased."""
    before = release.read(ROOT)
    assert str(version_of(before)) == __version__
    after = released(before, VERSION, WHEN)
    assert "\nUnreleased\n----------\n\n99.0.0 (2026-11-24)\n-------------------\n" in after.changelog
    assert 'appVersion: "99.0.0"\n' in after.chart
    assert '/mgw:99.0.0"\n' in after.deployment
    assert after.debian.startswith("mgw (99.0.0) bookworm; urgency=medium\n")
    assert version_of(after) == VERSION


@needs_git
def test_a_clean_repository_forbids_nothing(repository: Path) -> None:
    assert release.obstacles(repository, VERSION) == []


@needs_git
def test_what_is_not_committed_forbids_a_release(repository: Path) -> None:
    (repository / "CHANGELOG.rst").write_text("other\n", encoding="utf-8")
    (repository / "new.py").touch()
    assert release.obstacles(repository, VERSION) == ["not everything is committed: CHANGELOG.rst, new.py"]


@needs_git
def test_a_tag_that_exists_forbids_a_release(repository: Path) -> None:
    run(["git", "tag", "v99.0.0"], repository)
    assert release.obstacles(repository, VERSION) == ["the tag v99.0.0 exists"]
    assert release.obstacles(repository, Version(99, 0, 1)) == []


@needs_git
def test_the_release_is_committed_in_the_clone_alone(repository: Path, tmp_path: Path) -> None:
    before = run(["git", "rev-parse", "HEAD"], repository)
    sources = clone(repository, tmp_path / "clone")
    release.commit_release(repository, sources, VERSION, WHEN)
    assert (
        run(["git", "log", "-1", "--format=%s|%an|%ct"], sources)
        == f"Release 99.0.0|Somebody|{WHEN.timestamp():.0f}\n"
    )
    assert run(["git", "status", "--porcelain"], sources) == ""
    assert run(["git", "rev-parse", "HEAD"], repository) == before
    assert version_of(release.read(repository)) != VERSION


@needs_git
def test_a_tag_names_the_commit_that_was_built(repository: Path, tmp_path: Path) -> None:
    sources = clone(repository, tmp_path / "clone")
    release.commit_release(repository, sources, VERSION, WHEN)
    release.tag_release(repository, sources, VERSION)
    built = run(["git", "rev-parse", "HEAD"], sources)
    assert run(["git", "rev-parse", "v99.0.0^{commit}"], repository) == built
    assert run(["git", "rev-parse", "HEAD"], repository) == built
    assert version_of(release.read(repository)) == VERSION


@needs_git
def test_a_refused_release_says_why_and_builds_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "new.py").touch()
    assert release.main(["0.0.1"], WHEN, repository) == 1
    said = capsys.readouterr()
    assert "not everything is committed: new.py" in said.err
    assert "0.0.1 is not newer than" in said.err
    assert said.out == ""
