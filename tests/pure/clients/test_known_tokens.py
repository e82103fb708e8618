"""How many tokens are remembered, and which make room."""

from __future__ import annotations

from mgw.clients.client import Client
from mgw.clients.expired_tokens import MAX_TOKENS, ExpiredTokens
from mgw.clients.known_tokens import KnownToken, KnownTokens
from mgw.nouns.secret import Secret


def digest(number: int) -> bytes:
    return number.to_bytes(32)


def token() -> KnownToken:
    return KnownToken(Client("corp:ann", b""), Secret("token"), "corp", 1.0, 1.0)


def test_exactly_so_many_expired_tokens_are_remembered() -> None:
    expired = ExpiredTokens()
    for number in range(MAX_TOKENS):
        expired.add(digest(number))
    assert digest(0) in expired
    expired.add(digest(0))  # once more: it is the last one now
    expired.add(digest(MAX_TOKENS))
    assert digest(0) in expired
    assert digest(1) not in expired
    assert digest(2) in expired


def test_exactly_so_many_valid_tokens_are_known_and_the_least_used_makes_room() -> None:
    known = KnownTokens()
    for number in range(MAX_TOKENS):
        known.keep(digest(number), token())
    assert known.find(digest(0)) is not None
    known.keep(digest(MAX_TOKENS), token())
    assert len(known) == MAX_TOKENS
    assert known.find(digest(1)) is None
    assert known.find(digest(0)) is not None


def test_tokens_are_forgotten() -> None:
    known = KnownTokens()
    for number in range(3):
        known.keep(digest(number), token())
    known.forget(digest(1))
    known.forget(digest(1))
    assert len(known) == 2
    known.clear()
    assert known.find(digest(0)) is None
