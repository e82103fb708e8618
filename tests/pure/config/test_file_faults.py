"""Why a file cannot be used: what is missing, and who is denied what."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from mgw.config.file_faults import shown_path, unreadable, unusable_folder, unwritable, user_name
from mgw.reactor.regular_file import read_regular_file

NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may look into, unlike those of pytest; its name does not look like a key."""
    folder = Path(f"/tmp/mgw-faults-{os.getpid()}")
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    yield folder
    rmtree(folder)


@pytest.fixture
def unprivileged() -> Iterator[str]:
    """This process as a user who may not do everything; the name of that user."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield user_name()
    os.seteuid(before)


def said_of(path: str, *, hides_path: bool = False) -> str:
    with pytest.raises(OSError) as failed:  # noqa: PT011  its kind is what is looked at
        read_regular_file(path, 100)
    return unreadable(path, failed.value, hides_path=hides_path)


def test_a_missing_file_is_told_from_a_missing_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "file").write_text("")
    assert said_of(f"{place}/none") == f"file not found: {place}/none"
    assert (
        said_of(f"{place}/a/b/none")
        == f"file not found: {place}/a/b/none (folder {place}/a/b does not exist)"
    )
    assert (
        said_of(f"{place}/file/none") == f"file not found: {place}/file/none ({place}/file is not a folder)"
    )
    assert said_of("none") == f"file not found: none (in {place})"
    assert said_of(str(place)) == f"expected a file, found a directory: {place}"
    assert said_of(f"{place}/a/b/none", hides_path=True) == "file not found"


def test_a_denied_file_names_the_user(place: Path, unprivileged: str) -> None:
    secret, closed = place / "secret", place / "closed"
    with_all_rights(secret, closed)
    assert said_of(str(secret)) == f"permission denied for user {unprivileged}: {secret}"
    assert said_of(str(secret), hides_path=True) == f"permission denied for user {unprivileged}"
    assert said_of(f"{closed}/in/none") == f"permission denied for user {unprivileged}: {closed}/in/none"
    assert unwritable(str(secret)) == f"{secret} cannot be written: permission denied for user {unprivileged}"
    reason = f"permission denied for user {unprivileged} in folder {closed}"
    assert unwritable(f"{closed}/new") == f"{closed}/new cannot be written: {reason}"
    assert unwritable(f"{closed}/in/new") == f"{closed}/in/new cannot be written: {reason}"
    assert unusable_folder(f"{closed}/in/new") == f"{closed}/in/new cannot be written to: {reason}"


def with_all_rights(secret: Path, closed: Path) -> None:
    """Make a file and a folder that only their owner may use, as their owner."""
    me = os.geteuid()
    owner = os.getuid()
    os.seteuid(owner)
    secret.write_text("")
    closed.mkdir()
    rights = 0o600 if owner != me else 0
    secret.chmod(rights)
    closed.chmod(rights and 0o700)
    os.seteuid(me)


def test_a_file_that_can_be_made_or_written_has_no_fault(place: Path) -> None:
    (place / "file").write_text("")
    assert unwritable(f"{place}/new") is None
    assert unwritable(f"{place}/file") is None
    assert unusable_folder(str(place)) is None
    assert unusable_folder(f"{place}/a/b") is None
    assert list(place.iterdir()) == [place / "file"]


def test_a_file_needs_its_folder_and_a_folder_needs_no_other(place: Path) -> None:
    (place / "file").write_text("")
    assert unwritable(f"{place}/a/new") == f"{place}/a/new cannot be written: folder {place}/a does not exist"
    assert unwritable(f"{place}/file/x") == f"{place}/file/x cannot be written: {place}/file is not a folder"
    assert unwritable(str(place)) == f"{place} cannot be written: expected a file, found a directory"
    assert (
        unusable_folder(f"{place}/file/x")
        == f"{place}/file/x cannot be written to: {place}/file is not a folder"
    )


def test_any_other_fault_is_told_in_the_systems_words() -> None:
    error = OSError(errno.EIO, "Input/output error")
    assert unreadable("/x/key.pem", error) == "/x/key.pem cannot be read: Input/output error"
    assert unreadable("/x/key.pem", error, hides_path=True) == "the file cannot be read: Input/output error"


def test_a_path_is_short_and_without_what_may_be_a_key() -> None:
    assert "canary" not in shown_path("/run/sk-canary-7f3a91/x")
    assert len(shown_path("/x" * 3000)) < 200
