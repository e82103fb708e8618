"""``mgw key``: what each command prints, writes and refuses."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from mgw.cli.key_file import alone_in, edit_settings, replace_file
from mgw.cli.main import main
from mgw.config.key_settings import NamedKeySettings
from mgw.config.load import parse_key_file
from mgw.nouns.secret import Secret

CONFIG: Final = """
providers: {{main: {{kind: openai, api_key: sk-canary-0001}}, claude: {{kind: anthropic}}}}
aliases: {{fast: main/gpt-a}}
prices: {{rows: [{{model: "*", input: 1, output: 1}}]}}
edge_auth:
  enabled: true
  keys_dir: {directory}
  timezone: Europe/Berlin
  groups: {{research: {{}}, ops: {{}}}}
  keys:
    - {{name: fixed, key: edge-canary-0001, groups: [ops]}}
    - {{name: over, key: edge-canary-0002, expires: 2020-01-01}}
"""
A_KEY: Final = re.compile(r"mgw_[A-Za-z0-9_-]{43}\n")


@dataclass
class Said:
    """What a command has returned and written."""

    status: int
    out: str
    err: str


@dataclass
class Desk:
    """A directory of key files, and a configuration that names it."""

    directory: Path
    config: Path
    read: Callable[[], Any]  # Any: pytest's

    def key(self, *arguments: str, dir_only: bool = False) -> Said:
        """Call ``mgw key``."""
        where = ("--dir", str(self.directory)) if dir_only else ("-c", str(self.config))
        try:
            status = main(["key", *arguments, *where])
        except SystemExit as error:  # argparse
            status = int(str(error.code))
        out, err = self.read()
        return Said(status, out, err)

    def add(self, name: str, *arguments: str) -> str:
        """Make a key."""
        said = self.key("add", name, *arguments)
        assert (said.status, said.err) == (0, "")
        assert A_KEY.fullmatch(said.out)
        return said.out.strip()

    def text(self, name: str) -> str:
        return (self.directory / f"{name}.yaml").read_text()

    def settings(self, name: str) -> NamedKeySettings:
        return parse_key_file(self.text(name), name, f"{name}.yaml", None)[0]

    def rows(self, *arguments: str) -> list[dict[str, Any]]:  # Any: JSON
        said = self.key("list", "--format", "json", *arguments)
        assert said.status == 0
        found: list[dict[str, Any]] = json.loads(said.out)
        return found


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    directory = tmp_path / "keys.d"
    directory.mkdir()
    config = tmp_path / "mgw.yaml"
    config.write_text(CONFIG.format(directory=directory))
    return Desk(directory, config, capsys.readouterr)


def digest_of(key: str) -> Secret:
    return Secret(sha256(key.encode()).hexdigest())


def test_add_prints_the_key_alone_and_writes_its_digest(desk: Desk) -> None:
    key = desk.add("alice")
    assert desk.settings("alice").sha256 == digest_of(key)
    assert key not in desk.text("alice")
    assert desk.add("bob") != key
    assert sorted(os.listdir(desk.directory)) == ["alice.yaml", "bob.yaml"]


def test_add_takes_every_setting_of_its_options(desk: Desk) -> None:
    desk.add(
        *("alice", "--group", "research", "--group", "ops", "--model", "claude/*", "--model", "fast"),
        *("--limit", "usd=50.25/month", "--limit", "in_flight=4", "--limit", "tokens=1000/minute"),
        *("--tag", "team=nlp: x", "--tag", "on=yes", "--expires", "2027-03-31"),
    )
    found = desk.settings("alice")
    assert found.groups == ("research", "ops")
    assert found.models == ("claude/*", "fast")
    assert [row.model_dump(exclude_unset=True) for row in found.limits] == [
        {"usd": found.limits[0].usd, "per": "month"},
        {"in_flight": 4},
        {"tokens": 1000, "per": "minute"},
    ]
    assert str(found.limits[0].usd) == "50.25"
    assert found.tags == {"team": "nlp: x", "on": "yes"}
    assert found.expires is not None
    assert found.expires.text == "2027-03-31"


def test_add_warns_of_patterns_that_fit_no_model(desk: Desk) -> None:
    patterns = ("--model", "Claude/*", "--model", "fast", "--model", "clod/*", "--model", "gpt-5")
    said = desk.key("add", "alice", *patterns)
    assert said.status == 0
    assert A_KEY.fullmatch(said.out), "scripts read the key alone"
    begins = "mgw key add: warning: --model: "
    assert [line.removeprefix(begins) for line in said.err.splitlines()] == [
        "'clod/*' matches no model: no provider is named 'clod' (known: main, claude)",
        "'gpt-5' matches no model: without defaults, clients ask for an alias or for <provider>/<model>",
    ]
    assert desk.settings("alice").models == ("claude/*", "fast", "clod/*", "gpt-5")
    assert desk.key("add", "bob", "--model", "clod/*", dir_only=True).err == "", "nobody knows the models"


@pytest.mark.parametrize(("stated", "length"), [("90d", timedelta(days=90)), ("12h", timedelta(hours=12))])
def test_a_time_from_now_becomes_a_moment(desk: Desk, stated: str, length: timedelta) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    desk.add("alice", "--expires", stated)
    expires = desk.settings("alice").expires
    assert expires is not None
    assert expires.moment is not None
    assert before + length <= expires.moment <= datetime.now(UTC) + length


def test_a_file_is_for_the_group_of_the_directory(desk: Desk) -> None:
    if os.geteuid() == 0:
        os.chown(desk.directory, -1, 1)
    desk.add("alice")
    found = (desk.directory / "alice.yaml").stat()
    assert stat.S_IMODE(found.st_mode) == 0o640
    assert found.st_gid == desk.directory.stat().st_gid
    desk.key("rotate", "alice")
    found = (desk.directory / "alice.yaml").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o640, desk.directory.stat().st_gid)


def test_who_may_not_set_the_group_is_told_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr("mgw.cli.key_file._group_of", lambda _: -1)
    said = desk.key("add", "alice")
    assert (said.status, said.out) == (1, "")
    assert "run the command as root, or as a member" in said.err
    assert not os.listdir(desk.directory)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "no name"), "NAME: expected a name"),
        (("add", ".hidden"), "NAME: expected a name"),
        (("add", "../alice"), "NAME: expected a name"),
        (("add", "none"), "metrics use none"),
        (("add", "alice", "--group", "nobody"), "groups.0: no group has this name"),
        (("add", "alice", "--limit", "usd=50"), "per"),
        (("add", "alice", "--limit", "usd=5e1/month"), "in_flight=4, found 'usd=5e1/month'"),
        (("add", "alice", "--limit", "tokens=10k/day"), "found 'tokens=10k/day' (write 10000)"),
        (("add", "alice", "--limit", "usd=5/minute"), "limits.0"),
        (("add", "alice", "--limit", "tokens=5/day", "--limit", "tokens=6/day"), "limits.1"),
        (("add", "alice", "--limit", "in_flight=4/day"), "limits.0"),
        (("add", "alice", "--tag", "nlp"), "--tag: expected"),
        (("add", "alice", "--expires", "soon"), "--expires: expected"),
        (("add", "alice", "--expires", "2020-01-01"), "--expires: this time is in the past"),
        (("add", "alice", "--expires", "0d"), "--expires: this time is in the past"),
        (("rotate", "alice", "--overlap", "tomorrow"), "--overlap: expected"),
        (("add",), "NAME"),
        (("list", "--format", "xml"), "--format"),
    ],
)
def test_wrong_calls_exit_with_2_and_write_nothing(
    desk: Desk, arguments: tuple[str, ...], words: str
) -> None:
    said = desk.key(*arguments)
    assert (said.status, said.out) == (2, "")
    assert words in said.err
    assert not os.listdir(desk.directory)


def test_no_name_is_given_twice(desk: Desk) -> None:
    desk.add("alice")
    before = desk.text("alice")
    said = desk.key("add", "alice")
    assert (said.status, said.out) == (1, "")
    assert said.err == (
        f"mgw key add: there is a key of this name: {desk.directory}/alice.yaml; to replace it, use `mgw key "
        "rotate`, or `mgw key revoke --delete` before\n"
    )
    assert desk.text("alice") == before
    assert os.listdir(desk.directory) == ["alice.yaml"]


@pytest.mark.parametrize("command", ["add", "rotate", "revoke"])
def test_keys_of_the_configuration_cannot_be_changed(desk: Desk, command: str) -> None:
    said = desk.key(command, "fixed")
    assert (said.status, said.out) == (1, "")
    assert said.err == f"mgw key {command}: fixed is a key of the configuration: change it there\n"


def test_rotate_keeps_the_old_key_for_a_while(desk: Desk) -> None:
    old = desk.add("alice", "--group", "ops", "--expires", "2027-03-31")
    before = datetime.now(UTC)
    said = desk.key("rotate", "alice")
    new = said.out.strip()
    assert A_KEY.fullmatch(said.out)
    found = desk.settings("alice")
    assert found.sha256 == digest_of(new)
    assert found.groups == ("ops",)
    assert found.previous is not None
    assert found.previous.sha256 == digest_of(old)
    moment = found.previous.expires.moment
    assert moment is not None
    assert timedelta(hours=23) < moment - before < timedelta(hours=25)
    newest = desk.key("rotate", "alice", "--overlap", "0").out.strip()
    found = desk.settings("alice")
    assert (found.sha256, found.previous, found.groups) == (digest_of(newest), None, ("ops",))
    desk.key("rotate", "alice", "--overlap", "7d")
    previous = desk.settings("alice").previous
    assert previous is not None
    assert previous.sha256 == digest_of(newest)


def test_rotate_says_that_a_disabled_key_is_still_rejected(desk: Desk) -> None:
    desk.add("alice")
    desk.key("revoke", "alice")
    said = desk.key("rotate", "alice")
    path = desk.directory / "alice.yaml"
    assert (said.status, desk.settings("alice").disabled) == (0, True)
    assert A_KEY.fullmatch(said.out)
    warning = f"warning: the key is disabled: to enable it, remove disabled from {path}"
    assert said.err == f"mgw key rotate: {warning}\n"


def test_rotate_says_that_an_expired_key_is_still_rejected(desk: Desk) -> None:
    desk.add("alice")
    path = desk.directory / "alice.yaml"
    path.write_text(desk.text("alice") + "expires: 2020-01-01\n")
    said = desk.key("rotate", "alice")
    assert A_KEY.fullmatch(said.out)
    warning = f"warning: the key has expired: to renew it, change expires in {path}"
    assert said.err == f"mgw key rotate: {warning}\n"


def test_revoke_disables_a_key_or_removes_its_file(desk: Desk) -> None:
    desk.add("alice", "--group", "ops")
    said = desk.key("revoke", "alice")
    assert (said.status, said.out, said.err) == (0, "", "")
    assert desk.settings("alice").disabled
    assert desk.key("revoke", "alice").status == 0
    assert desk.text("alice").count("disabled") == 1
    assert desk.key("revoke", "alice", "--delete").status == 0
    assert not os.listdir(desk.directory)
    said = desk.key("revoke", "alice", "--delete")
    assert said.status == 1
    assert "no key has this name" in said.err


def test_a_file_that_the_gateway_does_not_take_can_only_be_removed(desk: Desk) -> None:
    """Its last good state would stay in force: nothing would be revoked."""
    desk.add("alice")
    (desk.directory / "alice.yaml").write_text(desk.text("alice") + "nonsense: 1\n")
    said = desk.key("revoke", "alice")
    assert said.status == 1
    assert "alice.yaml:2: nonsense: unknown key" in said.err
    assert "use --delete" in said.err
    assert desk.key("rotate", "alice").status == 1
    assert desk.key("revoke", "alice", "--delete").status == 0


def test_an_edit_that_would_spoil_a_file_is_refused(desk: Desk) -> None:
    digest = sha256(b"canary-of-alice").hexdigest()
    text = f'sha256: &digest "{digest}"\ntags: {{known_as: *digest}}\n'
    (desk.directory / "alice.yaml").write_text(text)
    said = desk.key("rotate", "alice")
    assert (said.status, said.out) == (1, "")
    assert "alice.yaml cannot be changed" in said.err
    assert desk.text("alice") == text


def test_a_link_is_left_to_whoever_made_it(desk: Desk) -> None:
    desk.add("alice")
    (desk.directory / "alice.yaml").rename(desk.directory / ".data")
    (desk.directory / "alice.yaml").symlink_to(".data")
    for command in ("rotate", "revoke"):
        said = desk.key(command, "alice")
        assert said.status == 1
        assert "is a symbolic link" in said.err


def test_list_shows_states_groups_ends_and_places_but_no_digest(desk: Desk) -> None:
    desk.add("alice", "--group", "ops", "--group", "research", "--expires", "2037-03-31")
    desk.add("bob")
    desk.key("revoke", "bob")
    (desk.directory / "carol.yaml").write_text("sha256: 12\n")
    rows = desk.rows()
    ends = ("2020-01-01T23:00:00Z", "2037-03-31T22:00:00Z")
    assert [tuple(row.values()) for row in rows] == [
        ("fixed", "active", ["ops"], None, None, "config"),
        ("over", "expired", [], ends[0], None, "config"),
        ("alice", "active", ["ops", "research"], ends[1], None, "keys_dir"),
        ("bob", "disabled", [], None, None, "keys_dir"),
        ("carol", "invalid", [], None, None, "keys_dir"),
    ]
    assert list(rows[0]) == ["name", "state", "groups", "expires", "previous_expires", "where"]
    table = desk.key("list")
    assert [line.split()[:2] for line in table.out.splitlines()[1:]] == [
        [row["name"], row["state"]] for row in rows
    ]
    as_csv = list(csv.DictReader(io.StringIO(desk.key("list", "--format", "csv").out)))
    assert [row["where"] for row in as_csv] == ["config", "config", *["keys_dir"] * 3]
    assert [row["groups"] for row in as_csv] == ["ops", "", "ops research", "", ""]
    for name in ("alice", "bob"):
        digest = desk.settings(name).sha256
        assert digest is not None
        assert digest.reveal() not in table.out + json.dumps(rows)


def test_list_shows_until_when_the_key_before_a_rotation_is_valid(desk: Desk) -> None:
    desk.add("alice")
    desk.key("rotate", "alice", "--overlap", "7d")
    previous = desk.settings("alice").previous
    assert previous is not None
    alice = desk.rows()[2]
    assert alice["previous_expires"] == previous.expires.text
    desk.key("revoke", "alice")
    assert desk.rows()[2]["previous_expires"] is None, "it is disabled as well"
    past = desk.text("alice").replace(previous.expires.text, "2020-01-01").replace("disabled: true\n", "")
    (desk.directory / "alice.yaml").write_text(past)
    alice = desk.rows()[2]
    assert (alice["state"], alice["previous_expires"]) == ("active", None)


@pytest.mark.parametrize("name", ["a\nb", "\udcff", "none", ""])
def test_no_key_is_in_a_group_that_no_configuration_can_have(desk: Desk, name: str) -> None:
    said = desk.key("add", "alice", "--group", name, dir_only=True)
    assert (said.status, said.out) == (2, "")
    assert "--group: expected" in said.err
    assert not os.listdir(desk.directory)


def test_a_directory_may_be_named_in_place_of_a_configuration(desk: Desk) -> None:
    said = desk.key("add", "alice", "--group", "any", dir_only=True)
    assert said.status == 0
    listed = desk.key("list", dir_only=True)
    assert listed.out.splitlines()[1].split() == ["alice", "active", "any", "-", "-", "keys_dir"]
    both = desk.key("list", "--dir", str(desk.directory))
    assert both.status == 2
    assert "name only one" in both.err
    desk.config.write_text("providers: {main: {kind: openai, api_key: sk-canary-0001}}\n")
    said = desk.key("add", "bob")
    assert said.status == 1
    assert "has no edge_auth.keys_dir" in said.err
    assert desk.key("list").err == "no keys with names\n"
    desk.config.write_text("nonsense")
    assert desk.key("list").status == 1
    assert desk.key("add", "bob", dir_only=True).status == 0


def test_a_directory_that_is_not_there_is_said_to_be_missing(desk: Desk) -> None:
    desk.directory.rmdir()
    said = desk.key("add", "alice")
    assert said.err == f"mgw key add: directory not found; create it: {desk.directory}\n"
    desk.directory.touch()
    assert desk.key("add", "alice").err == f"mgw key add: not a directory: {desk.directory}\n"


def test_what_cannot_be_written_leaves_nothing_behind(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.add("alice")
    before = desk.text("alice")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    for arguments in (("add", "bob"), ("rotate", "alice"), ("revoke", "alice")):
        said = desk.key(*arguments)
        assert (said.status, said.out) == (1, "")
        assert said.err == f"mgw key {arguments[0]}: No space left on device\n"
    assert os.listdir(desk.directory) == ["alice.yaml"]
    assert desk.text("alice") == before


def test_without_hard_links_a_name_is_still_not_given_twice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    desk.add("alice")
    assert desk.key("add", "alice").status == 1
    assert os.listdir(desk.directory) == ["alice.yaml"]


WRITTEN: Final = """\
# the build server
sha256: "aa"   # of the key alone
previous:
  sha256: "bb"
  expires: 2027-01-01
  # until then

models: [fast,
  "claude/*"]  # two
disabled: false
"""


def test_an_edit_changes_what_it_is_about_and_nothing_else() -> None:
    assert edit_settings(WRITTEN, {"disabled": True}) == WRITTEN.replace("false", "true")
    assert edit_settings(WRITTEN, {"sha256": "cc"}) == WRITTEN.replace('"aa"', '"cc"')
    without = edit_settings(WRITTEN, {"previous": None, "tags": {"a": "b"}})
    assert without.startswith('# the build server\nsha256: "aa"   # of the key alone\n')
    assert "bb" not in without
    assert without.endswith('disabled: false\ntags: {"a": "b"}\n')
    assert edit_settings('sha256: "aa"', {"disabled": True}) == 'sha256: "aa"\ndisabled: true\n'
    assert edit_settings('sha256: "aa"', {"sha256": "bb", "previous": None}) == 'sha256: "bb"\n'
    with pytest.raises(ValueError, match="one setting on each line"):
        edit_settings('{sha256: "aa"}', {"disabled": True})


@pytest.mark.parametrize("arguments", [("alice",), ("alice", "--delete")])
def test_no_key_is_revoked_while_it_is_rotated(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    desk.add("alice")
    meanwhile: list[Said] = []

    def replace(path: Path, text: str) -> None:
        monkeypatch.undo()
        monkeypatch.setattr("mgw.cli.key_file.LOCK_SECONDS", 0.0)
        meanwhile.append(desk.key("revoke", *arguments))
        replace_file(path, text)

    monkeypatch.setattr("mgw.cli.key_actions.replace_file", replace)
    assert desk.key("rotate", "alice").status == 0
    assert meanwhile[0].status == 1, "else the new file would bring it back"


@pytest.mark.parametrize("command", ["add", "rotate", "revoke"])
def test_a_command_does_not_wait_for_ever_for_another_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    desk.add("alice")
    monkeypatch.setattr("mgw.cli.key_file.LOCK_SECONDS", 0.0)
    before = desk.text("alice")
    with alone_in(str(desk.directory)):
        said = desk.key(command, "bob" if command == "add" else "alice")
    assert (said.status, said.out) == (1, "")
    assert "another command has locked the directory" in said.err
    assert desk.text("alice") == before
    assert not (desk.directory / "bob.yaml").exists()


def test_where_directories_cannot_be_locked_keys_are_still_changed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int, __: int) -> None:
        raise OSError(errno.EBADF, "as NFS says")

    monkeypatch.setattr("mgw.cli.key_file.flock", refuse)
    desk.add("alice")
    assert desk.key("revoke", "alice").status == 0


def test_list_shows_a_strange_name_of_a_file_on_one_line(desk: Desk) -> None:
    strange = os.fsencode(desk.directory) + b"/a\n\x1b[31m\xff.yaml"
    Path(os.fsdecode(strange)).write_text("")
    said = desk.key("list")
    assert said.status == 0
    assert r"a\n\x1b[31m\udcff" in said.out
    assert "\x1b" not in said.out
