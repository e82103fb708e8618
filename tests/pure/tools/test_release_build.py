"""Archives that do not depend on when, where and by whom they are built."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.release_build import ToolFailed, checksums, level, run

NAMES = st.text("abc/", min_size=1, max_size=5).map(lambda name: f"mgw_gateway-1/{name.strip('/') or 'd'}")


def archive(files: dict[str, bytes], time: int, owner: str, mode: int) -> bytes:
    """A source archive with these files in this order."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), time, mode
            member.uid, member.uname = time % 1000, owner
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@given(files=st.dictionaries(NAMES, st.binary(max_size=9), max_size=4), data=st.data())
def test_archives_of_the_same_files_are_the_same_bytes(files: dict[str, bytes], data: st.DataObject) -> None:
    shuffled = {name: files[name] for name in data.draw(st.permutations(sorted(files)))}
    one, other = archive(files, 1_000_000, "a", 0o664), archive(shuffled, 2_000_001, "b", 0o640)
    made = level(one, 1_700_000_000)
    assert made == level(other, 1_700_000_000)
    assert int.from_bytes(made[4:8], "little") == 1_700_000_000  # RFC 1952 2.3, MTIME


def test_files_keep_their_content_and_whether_they_can_be_run() -> None:
    files = {"mgw_gateway-1/b": b"text", "mgw_gateway-1/a": b""}
    for before, after in ((0o600, 0o644), (0o700, 0o755)):
        with tarfile.open(fileobj=io.BytesIO(level(archive(files, 5, "a", before), 7))) as tar:
            found = {one.name: (tar.extractfile(one), one.mode, one.mtime) for one in tar.getmembers()}
            contents = {name: held.read() for name, (held, _, _) in found.items() if held}
        assert contents == files
        assert {(mode, time) for _, mode, time in found.values()} == {(after, 7)}


def test_checksums_are_as_sha256sum_writes_them(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b.whl", "a.tar.gz")]
    for file in files:
        file.write_bytes(file.name.encode())
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.tar.gz", "b.whl")}
    assert checksums(files) == "".join(f"{value}  {name}\n" for name, value in sums.items())
    (tmp_path / "SHA256SUMS").write_text(checksums(files), encoding="utf-8")
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)


def test_a_program_that_fails_is_shown_with_the_end_of_what_it_printed(tmp_path: Path) -> None:
    lines = "import sys; print(*range(50), sep='\\n'); sys.exit(3)"
    with pytest.raises(ToolFailed, match=r"(?s)status 3\n20\n.*49$"):
        run([sys.executable, "-c", lines], tmp_path)
    assert run([sys.executable, "-c", "print('well')"], tmp_path) == "well\n"
