"""Refresh tokens that an endpoint replaces outlive the process, in a file for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from mgw.credentials import credentials_of
from mgw.credentials.refresh_tokens import RefreshTokenFile, RefreshTokens
from mgw.credentials.subscription.accounts import LOCK_TRY_SECONDS
from mgw.credentials.subscription.store import CredentialStore
from mgw.credentials.token_request import TokenRequestError
from mgw.exchange.offload import run_inline
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TOKEN_URL, WALL, TokenHosts

SETTINGS = "client_id: me, refresh_token: canary-r1"


class Process:
    """A gateway that keeps refresh tokens in a directory."""

    def __init__(self, folder: Path, settings: str = SETTINGS) -> None:
        self.hosts = TokenHosts()
        clock = self.hosts.clock

        def open_file(name: str) -> RefreshTokenFile:
            return RefreshTokenFile(CredentialStore(folder / f"{name}.json"), run_inline, clock, lambda: WALL)

        self.hosts.sources.refresh_tokens = RefreshTokens(open_file)
        entry = f"kind: gemini, auth: oauth2, oauth: {{token_url: '{TOKEN_URL}', {settings}}}"
        provider = config(f"providers: {{p: {{{entry}}}}}").providers["p"]
        self.source: Any = credentials_of(provider, self.hosts.sources)

    def obtain(self) -> Deferred[Any]:
        return Deferred.fromCoroutine(self.source.obtain(None))

    @property
    def sent(self) -> list[str]:
        """The refresh tokens that were used."""
        return [post.form["refresh_token"] for post in self.hosts.posts()]

    def rotate(self, new: str) -> None:
        """Get a token, with which another refresh token comes."""
        waiting = self.obtain()
        self.hosts.newest().answer_token("canary-a", refresh_token=new, expires_in=60)
        assert result_of(waiting).key.reveal() == "canary-a"
        self.hosts.clock.advance(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tokens"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def test_after_a_restart_the_newest_token_is_used(folder: Path) -> None:
    with capturedLogs() as events:
        before = Process(folder)
        before.rotate("canary-r2")
        before.rotate("canary-r3")
        after = Process(folder)
        _ = after.obtain()
    assert before.sent == ["canary-r1", "canary-r2"]
    assert after.sent == ["canary-r3"]
    assert not events
    (file,) = files(folder)
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "canary" not in f"{file} {before.source!r}"


@pytest.mark.parametrize(
    "settings", ["client_id: me, refresh_token: canary-new", "client_id: you, refresh_token: canary-r1"]
)
def test_another_configured_token_or_client_starts_afresh(folder: Path, settings: str) -> None:
    Process(folder).rotate("canary-r2")
    other = Process(folder, settings)
    _ = other.obtain()
    assert settings.endswith(other.sent[0])


def test_no_file_is_made_for_a_token_that_stays(folder: Path) -> None:
    Process(folder).rotate("canary-r1")
    assert files(folder) == []


def test_the_file_is_written_before_the_access_token_is_used(folder: Path) -> None:
    process = Process(folder)
    waiting = process.obtain()
    seen: list[int] = []
    _ = waiting.addCallback(lambda _: seen.append(len(files(folder))))
    process.hosts.newest().answer_token("canary-a", refresh_token="canary-r2")
    assert seen == [1]


def test_two_gateways_never_use_one_token_twice(folder: Path) -> None:
    one, other = Process(folder), Process(folder)
    first, second = one.obtain(), other.obtain()
    assert (one.sent, other.sent) == (["canary-r1"], [])
    one.hosts.newest().answer_token("canary-a1", refresh_token="canary-r2")
    assert result_of(first).key.reveal() == "canary-a1"
    other.hosts.clock.advance(LOCK_TRY_SECONDS)
    assert other.sent == ["canary-r2"]
    other.hosts.newest().answer_token("canary-a2", refresh_token="canary-r3", expires_in=60)
    assert result_of(second).key.reveal() == "canary-a2"
    one.hosts.clock.advance(3600)
    _ = one.obtain()
    assert one.sent == ["canary-r1", "canary-r3"]


def test_a_file_that_cannot_be_read_is_an_error_that_says_so(folder: Path) -> None:
    Process(folder).rotate("canary-r2")
    (file,) = files(folder)
    file.chmod(0o644)
    process = Process(folder)
    with pytest.raises(TokenRequestError, match="chmod 600") as caught:
        result_of(process.obtain())
    assert "canary" not in caught.value.message
    assert process.sent == []
    file.chmod(0o600)
    _ = process.obtain()
    assert process.sent == ["canary-r2"], "it is tried again, and no lock was left behind"


def test_without_a_directory_the_token_is_in_memory_and_the_operator_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = Process(tmp_path / "file" / "tokens")
    with capturedLogs() as events:
        process.rotate("canary-r2")
        process.rotate("canary-r3")
    assert process.sent == ["canary-r1", "canary-r2"]
    assert len(events) == 1
    assert "in memory only" in events[0]["log_format"]
    assert "canary" not in str(events)


def test_what_could_not_be_written_is_written_with_the_next_token(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(folder)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", _fail)
        process.rotate("canary-r2")
    assert files(folder) == []
    process.rotate("canary-r2")
    after = Process(folder)
    _ = after.obtain()
    assert after.sent == ["canary-r2"]


def _fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_stop_waits_for_the_request_that_has_begun(folder: Path) -> None:
    process = Process(folder)
    waiting = process.obtain()
    stopping = Deferred.fromCoroutine(process.hosts.sources.stop())
    assert not stopping.called
    process.hosts.newest().answer_token("canary-a", refresh_token="canary-r2")
    result_of(waiting)
    result_of(stopping)
    assert len(files(folder)) == 1
