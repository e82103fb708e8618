"""What ``mgw auth import`` takes of another program's file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.cli.auth import parse_import
from mgw.cli.subcommands import CallError
from mgw.credentials.subscription.store import StoredCredential
from mgw.nouns.secret import Secret


def imported(at: str | None = None, **fields: Any) -> StoredCredential:  # Any: JSON
    content = json.dumps({"access_token": "canary-1", **fields}).encode()
    return parse_import(content, at, "example", 1000.0)


def test_what_is_known_of_an_account_comes_along() -> None:
    entry = imported(
        refreshToken="canary-2",
        account="Jane Doe",
        scope="a b",
        details={"id": 17, "none": None},
        expires_in=60,
    )
    assert entry == StoredCredential(
        profile="example",
        access_token=Secret("canary-1"),
        refresh_token=Secret("canary-2"),
        expires_at=1060.0,
        account="Jane Doe",
        scopes=("a", "b"),
        details={"id": "17"},
        created_at=1000.0,
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"details": {"id": "x\r\nX-Injected: 1"}},
        {"details": {"id": "\u20ac"}},
        {"details": {"id": ["x"]}},
        {"details": "x"},
        {"account": "\x1b[2J"},
        {"scopes": ["\x1b[2J"]},
        {"scopes": 5},
        {"scopes": {"a": 1}},
        {"access_token": "x\ny"},
        {"refresh_token": 7},
        {"expires_at": "soon"},
        {"expires_in": []},
    ],
)
def test_what_cannot_stand_in_a_header_or_on_a_terminal_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(CallError) as refused:
        imported(**fields)
    assert "canary" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_tokens_deep_within_a_file_are_found_and_a_file_without_any_is_refused() -> None:
    assert parse_import(b'{"a":{"b":{"accessToken":"t"}}}', "a.b", "p", 0.0).access_token == Secret("t")
    for content in (b"", b"\xff", b"[]", b"{}", b'{"a":1}', b"[" * 100_000):
        with pytest.raises(CallError):
            parse_import(content, None, "p", 0.0)


def test_a_refresh_token_alone_is_used_at_once() -> None:
    entry = parse_import(b'{"refresh_token":"r","expires_at":9e9}', None, "p", 50.0)
    assert (entry.access_token, entry.expires_at) == (Secret(""), 50.0)
