"""The file of subscription credentials."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mgw.credentials.subscription import store as module
from mgw.credentials.subscription.store import (
    MAX_BYTES,
    CredentialStore,
    Entries,
    StoredCredential,
    StoreError,
)
from mgw.nouns.secret import Secret

ENTRY = StoredCredential(
    profile="example",
    access_token=Secret("access-canary-1"),
    refresh_token=Secret("refresh-canary-1"),
    expires_at=1000.5,
    account="someone@example.com",
    scopes=("a", "b"),
    details={"account_id": "x"},
    created_at=1.0,
)


@pytest.fixture
def store(tmp_path: Path) -> CredentialStore:
    return CredentialStore(tmp_path / "state" / "credentials" / "store.json")


def put(store: CredentialStore, name: str, entry: StoredCredential = ENTRY) -> Entries:
    return store.update(lambda entries: entries.update({name: entry}))


def test_entries_are_read_as_they_were_written(store: CredentialStore) -> None:
    assert store.read() == {}
    put(store, "work")
    bare = StoredCredential(profile="p", access_token=Secret("t"), created_at=2.0)
    put(store, "home", bare)
    assert CredentialStore(store.path).read() == {"work": ENTRY, "home": bare}


def test_the_file_and_its_directory_are_for_their_owner_alone(store: CredentialStore) -> None:
    before = os.umask(0)
    try:
        put(store, "work")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in store.path.parent.iterdir()}
    assert modes == {"store.json": 0o600, "store.json.lock": 0o600}
    assert store.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("place", "mode", "advice"),
    [("store.json", 0o640, "chmod 600"), ("store.json", 0o604, "chmod 600"), (".", 0o750, "chmod 700")],
)
def test_a_store_that_is_open_to_others_is_refused(
    store: CredentialStore, place: str, mode: int, advice: str
) -> None:
    put(store, "work")
    (store.path.parent / place).chmod(mode)
    with pytest.raises(StoreError, match=advice):
        store.read()


def test_a_store_of_another_user_is_refused(store: CredentialStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, "work")
    monkeypatch.setattr(os, "geteuid", lambda: store.path.stat().st_uid + 1)
    with pytest.raises(StoreError, match="another user"):
        store.read()


def test_a_link_in_the_place_of_the_store_is_refused(store: CredentialStore) -> None:
    put(store, "work")
    store.path.rename(store.path.with_name("other"))
    store.path.symlink_to("other")
    with pytest.raises(StoreError, match="cannot be read"):
        store.read()


def test_a_pipe_in_the_place_of_the_store_holds_up_nobody(store: CredentialStore) -> None:
    put(store, "work")
    store.path.unlink()
    os.mkfifo(store.path, 0o600)
    with pytest.raises(StoreError, match="not a regular file"):
        store.read()


@pytest.mark.parametrize(("more", "words"), [(0, "is damaged"), (1, "has more than 16777216 bytes")])
def test_a_store_that_is_too_large_is_not_called_damaged(
    store: CredentialStore, more: int, words: str
) -> None:
    put(store, "work")
    store.path.write_bytes(b" " * (16 * 1024 * 1024 + more))
    with pytest.raises(StoreError, match=words):
        store.read()


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("refresh", [None, Secret("r")])
@pytest.mark.parametrize(
    ("expires_at", "is_good"), [(None, True), (99.0, False), (100.0, False), (100.5, True)]
)
def test_an_entry_is_usable_while_its_token_is_good_or_can_be_refreshed(
    expires_at: float | None, is_good: bool, refresh: Secret | None, is_lost: bool
) -> None:
    entry = replace(ENTRY, expires_at=expires_at, refresh_token=refresh, is_lost=is_lost)
    assert entry.is_usable(100.0) == (is_good or (refresh is not None and not is_lost))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"version":2,"entries":{}}',
        b'{"version":1,"entries":{"x":{"profile":"p","access_token":7,"created_at":1}}}',
        b'{"version":1,"entries":{"x":{"profile":"p"}}}',
    ],
)
def test_a_damaged_store_is_refused_and_left_as_it_is(store: CredentialStore, content: bytes) -> None:
    put(store, "work")
    store.path.write_bytes(content)
    with pytest.raises(StoreError) as refused:
        put(store, "home")
    assert "canary" not in str(refused.value)
    assert store.path.read_bytes() == content


def test_a_change_tells_one_state_of_the_file_from_another(store: CredentialStore) -> None:
    assert store.file_id() is None
    put(store, "work")
    first = store.file_id()
    put(store, "work")
    assert store.file_id() == first, "nothing was changed, so nothing was written"
    put(store, "work", replace(ENTRY, access_token=Secret("access-canary-2")))
    assert store.file_id() not in (None, first)


def test_nothing_that_is_printed_holds_a_token(store: CredentialStore) -> None:
    assert "canary" not in f"{put(store, 'work')!r} {store!r} {ENTRY}"


class DyingOs:
    """The module ``os``, but for a process that is killed at the call with this number."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __getattr__(self, name: str) -> Any:  # Any: whatever os has
        found = getattr(os, name)
        return self._counted(found) if name in {"open", "fsync", "replace", "close", "fstat"} else found

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return dying


def child_dies(work: Callable[[], object]) -> bool:
    """Do work in a child process; return whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_process_killed_at_any_step_leaves_the_store_before_or_after_the_change(
    store: CredentialStore,
) -> None:
    put(store, "work")
    newer = replace(ENTRY, access_token=Secret("access-canary-2"))
    seen = set()

    def change(calls: int) -> None:
        vars(module)["os"] = DyingOs(calls)  # in the child alone
        put(store, "work", newer)

    for calls in range(1, 50):
        if not child_dies(lambda calls=calls: change(calls)):  # type: ignore[misc]  # of a lambda
            break
        found = store.read()
        assert found in ({"work": ENTRY}, {"work": newer})
        seen.add(found["work"].access_token.reveal())
        put(store, "work")  # the next change is not kept from anything by what is left behind
    else:
        raise AssertionError("it always died")
    assert calls > 8
    assert seen == {"access-canary-1", "access-canary-2"}
    assert {path.name for path in store.path.parent.iterdir()} == {"store.json", "store.json.lock"}


def test_changes_of_several_processes_are_all_kept(store: CredentialStore) -> None:
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            try:
                for turn in range(10):
                    put(store, f"e{number}-{turn}")
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert len(store.read()) == 40


def test_a_lock_that_nobody_lets_go_is_an_error_and_one_of_the_dead_is_none(
    store: CredentialStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.0)
    with store.locked("work"), pytest.raises(StoreError, match="cannot be locked"):
        store.lock("work")
    with store.locked("work"), store.locked("home"), store.locked(None):
        pass

    def lock_and_die() -> None:
        store.lock("work")
        os.kill(os.getpid(), signal.SIGKILL)

    assert child_dies(lock_and_die)
    with store.locked("work"):
        pass


PAST, FUTURE, NOW = 999.0, 1001.0, 1000.0
USABLE = {
    "an end that is unknown": (None, False, False, True),
    "an end that is unknown, whatever else": (None, True, True, True),
    "not yet ended": (FUTURE, False, False, True),
    "not yet ended, though its login has": (FUTURE, True, True, True),
    "ended": (PAST, False, False, False),
    "ended, and it can be refreshed": (PAST, True, False, True),
    "ended, and its login has ended too": (PAST, True, True, False),
    "it ends now": (NOW, False, False, False),
    "it ends now, and can be refreshed": (NOW, True, False, True),
}


@pytest.mark.parametrize(("expires_at", "can", "is_lost", "usable"), USABLE.values(), ids=USABLE)
def test_an_account_is_usable_while_there_is_a_token_to_send_or_one_can_be_had(
    expires_at: float | None, can: bool, is_lost: bool, usable: bool
) -> None:
    token = Secret("refresh-canary-1") if can else None
    entry = replace(ENTRY, expires_at=expires_at, refresh_token=token, is_lost=is_lost)
    assert entry.is_usable(NOW) is usable


def write_of_size(store: CredentialStore, size: int) -> None:
    put(store, "work")
    content = store.path.read_bytes()
    store.path.write_bytes(content + b" " * (size - len(content)))


@pytest.mark.parametrize("more", [0, 1, 2, 1000])
def test_a_store_that_is_too_large_says_so(store: CredentialStore, more: int) -> None:
    write_of_size(store, MAX_BYTES + more)
    if not more:
        assert store.read() == {"work": ENTRY}
        return
    with pytest.raises(StoreError, match=f"has more than {MAX_BYTES} bytes"):
        store.read()
