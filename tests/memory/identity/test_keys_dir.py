"""A directory of key files, on a real disk: what a look finds, and what stays as it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from mgw.config.key_settings import NamedKeySettings
from mgw.config.load import parse
from mgw.config.places import Places
from mgw.config.problems import ConfigError
from mgw.identity.key_rules import key_rules, read_keys
from mgw.identity.keys_dir import (
    DIRECTORY,
    FURTHER_READINGS,
    MAX_FILE_BYTES,
    MAX_FILES,
    KeyChange,
    KeyRules,
    KeysDirectory,
    Mark,
    scan_directory,
)
from mgw.nouns.secret import Secret

CONFIG: Final = """
providers: {{main: {{kind: openai, api_key: sk-canary-0001}}}}
edge_auth:
  enabled: true
  keys_dir: {directory}
  groups: {groups}
  keys: [{{name: fixed, sha256: {digest}}}]
"""


def digest(name: str) -> str:
    return sha256(f"canary-{name}".encode()).hexdigest()


def text_of(name: str, *further: str) -> str:
    return "\n".join([f"sha256: {digest(name)}", *further, ""])


def config_text(directory: Path, groups: str = "{research: {}, ops: {}}") -> str:
    return CONFIG.format(directory=directory, groups=groups, digest=digest("fixed"))


class Files:
    """A directory, and what looks at it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paused = 0
        self.pauses: list[Callable[[], object]] = []
        """What somebody else does while a look waits."""
        rules = key_rules(parse(config_text(path), "mgw.yaml", {}))
        self.keys_dir = KeysDirectory(str(path), rules, pause=self._pause)

    def _pause(self, seconds: float) -> None:
        assert 0 < seconds < 1
        self.paused += 1
        if self.pauses:
            self.pauses.pop(0)()

    def write(self, name: str, text: str) -> None:
        """Write a file as tools do that know what they are about: beside, then renamed."""
        beside = self.path / ".beside"
        beside.write_text(text)
        beside.rename(self.path / f"{name}.yaml")

    def look(self) -> KeyChange:
        return self.keys_dir.look()

    @property
    def names(self) -> list[str]:
        return sorted(self.keys_dir.keys)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def names_of(change: KeyChange) -> list[str]:
    return sorted(key.name for key in change.changed)


def test_each_file_is_a_key(files: Files) -> None:
    files.write("alice", text_of("a", "groups: [research]", "expires: 2027-03-31"))
    files.write("bob", text_of("b"))
    for other in (".hidden.yaml", "notes.txt", "carol.yml", "README"):
        (files.path / other).write_text(text_of(other))
    change = files.look()
    assert names_of(change) == files.names == ["alice", "bob"]
    assert not change.before
    assert not change.faults
    alice = files.keys_dir.keys["alice"]
    assert alice.sha256 == Secret(digest("a"))
    assert alice.groups == ("research",)


def test_a_look_tells_what_has_changed_and_nothing_twice(files: Files) -> None:
    files.write("alice", text_of("a"))
    files.write("bob", text_of("b"))
    files.look()
    assert not files.look()
    files.write("alice", text_of("a", "disabled: true"))
    (files.path / "bob.yaml").unlink()
    change = files.look()
    assert (names_of(change), change.gone) == (["alice"], ("bob",))
    assert [key.disabled for key in change.before.values()] == [False]
    assert files.names == ["alice"]
    assert not any(files.look() for _ in range(FURTHER_READINGS + 1))


@pytest.mark.parametrize(
    ("broken", "line", "words"),
    [
        ("", 1, "found nothing"),
        ("sha256: abc\n", 1, "64 hex digits"),
        (text_of("a", "nonsense: 1"), 2, "unknown key"),
        (text_of("a", "", "groups: [nobody]"), 3, "no group has this name"),
        (text_of("a", "name: alice"), 2, "the key has the name of the file"),
        ("groups: [research]\n", 1, "missing, expected the 64 hex digits"),
        (text_of("a", "limits: [{usd: 5, per: month}]"), 2, "requires prices"),
        (text_of("a", "previous: {sha256: " + digest("a") + ", expires: 2027-01-01}"), 2, "the same key"),
        ("[", 1, "not YAML"),
    ],
)
def test_a_broken_file_leaves_the_last_good_state(files: Files, broken: str, line: int, words: str) -> None:
    files.write("alice", text_of("a", "disabled: true"))
    files.look()
    files.write("alice", broken)
    change = files.look()
    assert (change.changed, change.gone) == ((), ())
    (fault,) = change.faults
    assert fault.startswith(f"{files.path}/alice.yaml:{line}: ")
    assert words in fault
    assert files.keys_dir.keys["alice"].disabled
    assert not any(files.look() for _ in range(4)), "it is reported once"
    files.write("alice", broken + "\n")
    assert len(files.look().faults) == 1, "and once more for another change"
    files.write("alice", text_of("a"))
    assert names_of(files.look()) == ["alice"]
    assert not files.keys_dir.faults


def test_at_start_a_broken_file_is_a_key_that_is_missing(files: Files) -> None:
    files.write("alice", "sha256: 12\n")
    files.write("bob", text_of("b"))
    change = files.keys_dir.read_all()
    assert names_of(change) == ["bob"]
    assert len(change.faults) == 1
    files.write("alice", text_of("a"))
    change = files.look()
    assert (names_of(change), dict(change.before)) == (["alice"], {})


def test_no_beginning_of_a_valid_file_is_taken_while_it_is_written(files: Files) -> None:
    """In place, and each piece is seen by a look: many of them are valid keys with fewer limits."""
    whole = text_of("a", "models: [fast]", "max_in_flight: 2", "expires: 2027-03-31", "disabled: true")
    path = files.path / "alice.yaml"
    path.write_text(whole)
    files.look()
    while files.look():
        pass
    for end in range(len(whole)):
        path.write_text(whole[:end])
        files.pauses.append(partial(path.write_text, whole[: end + 1]))
        assert not files.look(), end
        path.write_text(whole)
        assert not files.look()
        assert files.keys_dir.keys["alice"] == parsed(files, whole)


def parsed(files: Files, text: str) -> NamedKeySettings:
    return files.keys_dir.rules.parse(text, "alice", "alice.yaml")[0]


def test_a_file_that_is_being_written_waits_for_the_next_look(files: Files) -> None:
    path = files.path / "alice.yaml"
    path.write_text(text_of("a"))
    files.pauses.append(lambda: path.write_text(text_of("a", "disabled: true")))
    assert not files.look()
    assert files.look().changed[0].disabled
    files.pauses.append(path.unlink)
    files.write("alice", text_of("a"))
    assert files.look().gone == ("alice",)


def test_a_file_that_never_rests_is_read_all_the_same(files: Files) -> None:
    path = files.path / "alice.yaml"
    path.write_text(text_of("a"))
    for number in range(2):
        text = text_of("a", f"max_in_flight: {number + 1}")
        files.pauses.append(partial(path.write_text, text))
    assert not files.look()
    assert names_of(files.look()) == ["alice"]


def test_every_prefix_of_a_valid_file_is_a_key_or_a_fault(files: Files) -> None:
    whole = text_of("a", "groups: [research]", "limits: [{tokens: 5, per: day}]", 'tags: {team: "nlp"}')
    for end in range(len(whole) + 1):
        files.write("alice", whole[:end])
        change = files.look()
        assert len(change.faults) + len(change.changed) <= 1
        expected = parse_or_none(files, whole[:end])
        assert bool(files.keys_dir.faults) == (expected is None)
        assert expected is None or files.keys_dir.keys["alice"] == expected
    assert files.keys_dir.keys["alice"] == parsed(files, whole)


def parse_or_none(files: Files, text: str) -> NamedKeySettings | None:
    try:
        return parsed(files, text)
    except ConfigError:
        return None


def test_a_secret_of_kubernetes_is_swapped_as_a_whole(files: Files) -> None:
    def publish(version: str, keys: dict[str, str]) -> None:
        (files.path / f"..{version}").mkdir()
        for name, text in keys.items():
            (files.path / f"..{version}" / f"{name}.yaml").write_text(text)
        (files.path / "..data_tmp").symlink_to(f"..{version}")
        (files.path / "..data_tmp").rename(files.path / "..data")
        for name in keys:
            link = files.path / f"{name}.yaml"
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}.yaml")

    publish("v1", {"alice": text_of("a"), "bob": text_of("b")})
    assert names_of(files.look()) == ["alice", "bob"]
    publish("v2", {"alice": text_of("a2"), "carol": text_of("c")})
    change = files.look()  # the link of bob leads nowhere until the kubelet removes it
    assert (names_of(change), change.gone, change.faults) == (["alice", "carol"], ("bob",), ())
    paused = files.paused
    assert not any(files.look() for _ in range(3))
    assert files.paused == paused, "a link to nothing is no change"
    (files.path / "bob.yaml").unlink()
    assert not files.look()
    assert files.keys_dir.keys["alice"].sha256 == Secret(digest("a2"))


def with_frozen(scan: Callable[[str], dict[str, Mark]], frozen: set[int]) -> Callable[[str], dict[str, Mark]]:
    """Return a scan of one file of which parts of the mark stay as they were first."""
    first: dict[int, int] = {}

    def scan_frozen(path: str) -> dict[str, Mark]:
        (found,) = scan(path).values()
        parts = [first.setdefault(i, part) if i in frozen else part for i, part in enumerate(found)]
        return {"alice": tuple(parts)}

    return scan_frozen


@pytest.mark.parametrize("seen", [1, 2, 3, 4], ids=["inode", "size", "modified", "changed"])
def test_each_part_of_a_mark_alone_tells_of_a_change(files: Files, seen: int) -> None:
    """As on an NFS with clocks that lag: the same times and size, and another inode."""
    files.keys_dir.scan = with_frozen(scan_directory, {0, 1, 2, 3, 4} - {seen})
    files.write("alice", text_of("a"))
    while files.look():
        pass
    for _ in range(FURTHER_READINGS):
        assert not files.look()
    files.write("alice", text_of("z", "max_in_flight: 2"))
    assert names_of(files.look()) == ["alice"]


def test_times_that_were_set_back_hide_no_change(files: Files) -> None:
    files.write("alice", text_of("a"))
    for _ in range(FURTHER_READINGS + 2):
        files.look()
    path = files.path / "alice.yaml"
    before = path.stat()
    path.write_text(text_of("z"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )
    assert names_of(files.look()) == ["alice"]


def test_what_is_written_within_the_tick_of_a_clock_is_read_at_the_next_look(files: Files) -> None:
    files.keys_dir.scan = with_frozen(scan_directory, {0, 1, 2, 3, 4})
    path = files.path / "alice.yaml"
    path.write_text(text_of("a"))
    files.look()
    for name in ("y", "z"):
        path.write_text(text_of(name))
        assert names_of(files.look()) == ["alice"]
        assert files.keys_dir.keys["alice"].sha256 == Secret(digest(name))


def test_names_and_digests_of_the_configuration_come_first(files: Files) -> None:
    files.write("fixed", text_of("other"))
    files.write("twin", text_of("fixed"))
    files.write("was", text_of("w", f"previous: {{sha256: {digest('fixed')}, expires: 2030-01-01}}"))
    change = files.look()
    assert not files.names
    assert sorted(change.faults) == [
        f"{files.path}/fixed.yaml:1: edge_auth.keys has a key of this name",
        f"{files.path}/twin.yaml:1: sha256: the same key as in edge_auth.keys: keep only one",
        f"{files.path}/was.yaml:2: previous.sha256: the same key as in edge_auth.keys: keep only one",
    ]


def test_of_two_files_with_one_digest_the_first_counts(files: Files) -> None:
    files.write("bob", text_of("b"))
    files.look()
    files.write("alice", text_of("b"))
    change = files.look()
    assert (names_of(change), change.gone) == (["alice"], ("bob",))
    assert change.faults == (
        f"{files.path}/bob.yaml:1: sha256: the same key as in alice.yaml: keep only one",
    )
    (files.path / "alice.yaml").unlink()
    assert names_of(files.look()) == ["bob"]


def test_two_keys_that_change_their_digests_at_once_are_no_duplicates(files: Files) -> None:
    files.write("alice", text_of("a"))
    files.write("bob", text_of("b"))
    files.look()
    files.write("alice", text_of("b"))
    files.write("bob", text_of("a"))
    change = files.look()
    assert (names_of(change), change.faults) == (["alice", "bob"], ())


def test_a_directory_that_is_away_takes_no_key_away(files: Files) -> None:
    files.write("alice", text_of("a"))
    files.look()
    files.path.rename(files.path.with_name("elsewhere"))
    (fault,) = files.look().faults
    assert fault == f"edge_auth.keys_dir: directory not found: {files.path}"
    assert not files.look()
    assert files.names == ["alice"]
    files.path.with_name("elsewhere").rename(files.path)
    files.look()
    assert not files.keys_dir.faults


def test_a_file_that_may_not_be_read_leaves_the_last_good_state(files: Files) -> None:
    files.write("alice", text_of("a"))
    files.look()
    (files.path / "alice.yaml").unlink()
    (files.path / "alice.yaml").mkdir()
    (fault,) = files.look().faults
    assert fault == f"{files.path}/alice.yaml:1: expected a file, found a directory"
    assert files.names == ["alice"]
    (files.path / "alice.yaml").rmdir()
    os.mkfifo(files.path / "alice.yaml")
    assert len(files.look().faults) == 1
    (files.path / "alice.yaml").unlink()
    assert files.look().gone == ("alice",)


def test_a_file_has_at_most_64_kib(files: Files) -> None:
    text = text_of("a")
    files.write("alice", text + "#" * (MAX_FILE_BYTES - len(text)))
    assert names_of(files.look()) == ["alice"]
    files.write("alice", text + "#" * (MAX_FILE_BYTES - len(text) + 1))
    (fault,) = files.look().faults
    assert "larger than 65536 bytes" in fault
    assert files.names == ["alice"]


def quickly(text: str, name: str, file: str) -> tuple[NamedKeySettings, Places]:
    """Parse what these tests write, without YAML."""
    return NamedKeySettings.model_construct(name=name, sha256=Secret(text), previous=None), Places()


def test_ten_thousand_files_are_read_and_one_more_is_not(tmp_path: Path) -> None:
    files = KeysDirectory(str(tmp_path), KeyRules(quickly))
    for number in range(MAX_FILES):
        (tmp_path / f"k{number:05}.yaml").write_text(str(number))
    assert len(files.read_all().changed) == MAX_FILES
    assert not files.look()
    (tmp_path / "a.yaml").write_text("first in the alphabet")
    files.pause = lambda _: None
    change = files.look()
    assert change.faults == ("edge_auth.keys_dir: more than 10000 key files: 1 are not read",)
    assert not change.changed
    assert not files.look()
    (tmp_path / "k00007.yaml").unlink()
    change = files.look()
    assert (names_of(change), change.gone) == (["a"], ("k00007",))
    assert DIRECTORY not in files.faults


def test_an_unchanged_directory_is_only_listed(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("alice", text_of("a"))
    while files.look():
        pass
    for _ in range(FURTHER_READINGS):
        files.look()
    monkeypatch.setattr("mgw.identity.keys_dir.read_regular_file", None)
    assert not files.look()


def test_a_reload_that_takes_a_group_away_is_refused_with_the_file(tmp_path: Path) -> None:
    config = parse(config_text(tmp_path), "mgw.yaml", {})
    (tmp_path / "alice.yaml").write_text(text_of("a", "groups: [ops]"))
    before = read_keys(config)
    assert before is not None
    narrower = parse(config_text(tmp_path, "{research: {}}"), "mgw.yaml", {})
    with pytest.raises(ValueError, match=r"alice\.yaml names the group ops"):
        read_keys(narrower, before)
    (tmp_path / "alice.yaml").write_text(text_of("a", "groups: [research]"))
    after = read_keys(narrower, before)
    assert after is not None
    assert after.keys["alice"].groups == ("research",)


@pytest.mark.parametrize(("files", "more"), [(2, ""), (10, ""), (13, " and 3 more")])
def test_a_reload_that_takes_groups_away_names_the_files_that_name_them(
    tmp_path: Path, files: int, more: str
) -> None:
    config = parse(config_text(tmp_path), "mgw.yaml", {})
    for number in range(files):
        (tmp_path / f"k{number:02}.yaml").write_text(text_of(f"k{number}", "groups: [research, ops]"))
    before = read_keys(config)
    with pytest.raises(ValueError, match=r"edge_auth\.groups: ") as refused:
        read_keys(parse(config_text(tmp_path, "{research: {}}"), "mgw.yaml", {}), before)
    named = [f"{tmp_path}/k{number:02}.yaml names the group ops" for number in range(min(files, 10))]
    assert str(refused.value) == f"edge_auth.groups: {', '.join(named)}{more}, which are not there"


def test_a_reload_keeps_the_last_good_state_of_a_broken_file(tmp_path: Path) -> None:
    config = parse(config_text(tmp_path), "mgw.yaml", {})
    (tmp_path / "alice.yaml").write_text(text_of("a"))
    before = read_keys(config)
    (tmp_path / "alice.yaml").write_text("")
    after = read_keys(config, before)
    assert after is not None
    assert list(after.keys) == list(after.faults) == ["alice"]
    again = read_keys(config)
    assert again is not None
    assert not again.keys


def test_a_directory_that_is_none_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^edge_auth\.keys_dir: directory not found: "):
        read_keys(parse(config_text(tmp_path / "nowhere"), "mgw.yaml", {}))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^edge_auth\.keys_dir: not a directory: "):
        read_keys(parse(config_text(tmp_path / "file"), "mgw.yaml", {}))


@pytest.mark.parametrize(
    "name", [b"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87", b"\xff\xfe", b"a\nb\x1b[31m", b"-x", b"a b"]
)
def test_a_file_with_a_strange_name_keeps_no_other_from_being_revoked(files: Files, name: bytes) -> None:
    files.write("alice", text_of("alice"))
    files.keys_dir.read_all()
    Path(os.fsdecode(os.path.join(os.fsencode(files.path), name + b".yaml"))).write_text(text_of("strange"))
    files.write("alice", text_of("alice", "disabled: true"))
    found = files.keys_dir.look()
    assert [(key.name, key.disabled) for key in found.changed] == [("alice", True)]
    (fault,) = found.faults
    assert "expected a name of at most 64 letters" in fault
    assert fault.isprintable()


def test_a_bug_over_one_file_keeps_no_other_from_being_revoked(files: Files) -> None:
    parse = files.keys_dir.rules.parse

    def parse_with_bug(text: str, name: str, file: str) -> tuple[NamedKeySettings, Places]:
        if name == "bob":
            raise KeyError("sk-canary-0002")
        return parse(text, name, file)

    files.keys_dir.rules = KeyRules(parse_with_bug)
    files.write("alice", text_of("alice"))
    files.write("bob", text_of("bob"))
    assert list(files.keys_dir.read_all().faults) == [f"{files.path}/bob.yaml:1: internal error: KeyError"]
    files.write("alice", text_of("alice", "disabled: true"))
    assert files.keys_dir.look().changed[0].disabled
