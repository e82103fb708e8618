"""A token opens the gate for exactly one upload address, for a day, and for as long as its key is one."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import pytest

from mgw.clients import key_hints
from mgw.clients.identity_clients import IdentityClients
from mgw.clients.key_hints import KeyHints, key_hint
from mgw.clients.tokens.verify import MAX_CLIENT_CHARACTERS
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.groups import MAX_TAG_CHARACTERS, MAX_TAGS
from mgw.exchange import upload_tokens
from mgw.exchange.upload_tokens import identity_of_token, key_of_token, upload_token
from mgw.memo.known_head import Caller
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.web.edge_auth import EdgeGate, Upload
from tests.support.configs import THREE_FAMILIES, config

KEYS = (Secret("edge-1"), Secret("edge-2"))
PATH = b"/upload/v1beta/files"
QUERY = b"upload_id=abc&upload_protocol=resumable&provider=gem"
NOW = 1_800_000_000.0
DAY_SECONDS = 24 * 3600
DIGESTS = [sha256(key.reveal().encode()).digest() for key in KEYS]
TOKEN = upload_token(DIGESTS[0], PATH + b"?" + QUERY, NOW).encode()


def admit(
    query: bytes,
    path: bytes = PATH,
    now: float = NOW,
    keys: tuple[Secret, ...] = KEYS,
    *,
    upload: bool = True,
) -> Caller:
    gate = EdgeGate(EdgeAuthSettings(enabled=True, keys=keys))
    return gate.admit(Family.GEMINI, [], query, Upload(path, now) if upload else None)


def is_shut(query: bytes, path: bytes = PATH, now: float = NOW, keys: tuple[Secret, ...] = KEYS) -> bool:
    try:
        admit(query, path, now, keys)
    except GatewayError as error:
        return error.reason is Reason.EDGE_KEY
    return False


def test_a_token_opens_its_address_and_goes_no_further() -> None:
    caller = admit(QUERY + b"&mgw=" + TOKEN)
    assert caller.raw_query == QUERY
    assert caller.key is None


def test_a_token_may_stand_anywhere_in_the_query() -> None:
    first, _, rest = QUERY.partition(b"&")
    assert admit(first + b"&mgw=" + TOKEN + b"&" + rest).raw_query == QUERY


@pytest.mark.parametrize(
    ("query", "path"),
    [
        (QUERY, PATH),
        (QUERY + b"&mgw=", PATH),
        (QUERY + b"&mgw=" + TOKEN[:-1] + b"0" * 2, PATH),
        (QUERY + b"&mgw=9" + TOKEN, PATH),
        (QUERY.replace(b"abc", b"abd") + b"&mgw=" + TOKEN, PATH),
        (QUERY.replace(b"gem", b"gem2") + b"&mgw=" + TOKEN, PATH),
        (QUERY + b"&more=1&mgw=" + TOKEN, PATH),
        (QUERY + b"&mgw=" + TOKEN, b"/upload/v1/files"),
        (QUERY + b"&mgw=" + TOKEN, PATH + b"/x"),
    ],
)
def test_any_other_address_stays_shut(query: bytes, path: bytes) -> None:
    assert is_shut(query, path)


def test_a_token_opens_no_other_route() -> None:
    with pytest.raises(GatewayError):
        admit(QUERY + b"&mgw=" + TOKEN, upload=False)


def test_a_token_lasts_a_day() -> None:
    query = QUERY + b"&mgw=" + TOKEN
    assert not is_shut(query, now=NOW + DAY_SECONDS - 1)
    assert is_shut(query, now=NOW + DAY_SECONDS + 1)


def test_a_token_lives_and_dies_with_its_key() -> None:
    query = QUERY + b"&mgw=" + TOKEN
    assert not is_shut(query, keys=(Secret("new"), KEYS[0]))
    assert is_shut(query, keys=(Secret("new"), KEYS[1]))


def hints_of(digests: Iterable[bytes]) -> KeyHints:
    hints = KeyHints()
    for digest in digests:
        hints.add(digest)
    return hints


def test_a_token_tells_nothing_of_its_key() -> None:
    assert b"edge" not in TOKEN
    assert not any(DIGESTS[0].hex()[at : at + 8].encode() in TOKEN for at in range(57))
    assert key_of_token(hints_of(DIGESTS), PATH + b"?" + QUERY, TOKEN.decode(), NOW) == DIGESTS[0]


def test_an_expiry_without_end_is_no_token() -> None:
    hint = key_hint(DIGESTS[0])
    assert key_of_token(hints_of(DIGESTS), PATH, f"{'9' * 400}-{hint}-{'0' * 64}", NOW) is None


@pytest.mark.parametrize(("number", "tried"), [(7, 1), (None, 0)], ids=["one's hint", "no one's"])
def test_few_keys_are_tried_however_many_there_are(
    number: int | None, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = [sha256(b"%d" % number).digest() for number in range(1_000)]
    keys, hint = hints_of(digests), key_hint(digests[number] if number is not None else b"")
    with_keys = list[bytes]()

    def token_mac(digest: bytes, address: bytes, expires: int) -> str:
        with_keys.append(digest)
        return ""

    monkeypatch.setattr(upload_tokens, "_token_mac", token_mac)
    assert key_of_token(keys, PATH, f"9999999999-{hint}-{'0' * 64}", 0) is None
    assert len(with_keys) == tried


def test_keys_of_one_hint_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (key_hints, upload_tokens):
        monkeypatch.setattr(module, "key_hint", lambda _: "0" * 8)
    keys = hints_of(DIGESTS)
    for digest in DIGESTS:
        assert key_of_token(keys, PATH, upload_token(digest, PATH, NOW), NOW) == digest
    token = upload_token(DIGESTS[0], PATH, NOW)
    keys.remove(DIGESTS[0])
    assert key_of_token(keys, PATH, token, NOW) is None
    assert key_of_token(keys, PATH, upload_token(DIGESTS[1], PATH, NOW), NOW) == DIGESTS[1]


@pytest.mark.parametrize("size", [1, 60_000])
def test_a_token_opens_its_own_address_alone_however_long_that_is(size: int) -> None:
    digest, address = sha256(b"key").digest(), b"/upload/v1beta/files?" + b"a" * size
    token, keys = upload_token(digest, address, 0), hints_of([digest])
    assert key_of_token(keys, address, token, 0) == digest
    assert key_of_token(keys, address + b"a", token, 0) is None


def test_no_token_is_compared_with_a_key_that_opens_nothing() -> None:
    named = "[{name: alice, key: edge-1, expires: 2027-03-31}, {name: bob, key: edge-2}]"
    settings = config(f"{THREE_FAMILIES}edge_auth: {{enabled: true, keys: {named}}}").edge_auth
    keys = EdgeGate(settings, wall=lambda: NOW).keys
    hints = [key_hint(digest) for digest in DIGESTS]
    assert [list(keys.hints.find(hint)) for hint in hints] == [[digest] for digest in DIGESTS]
    assert [client.name for client in keys.expire(NOW + 400 * DAY_SECONDS)] == ["alice"]
    keys.remove("bob")
    assert [list(keys.hints.find(hint)) for hint in hints] == [[], []]


@pytest.mark.parametrize("character", ["a", "\u00e9", "\u6f22", "\U0001f600", '"'])
def test_an_address_names_a_client_however_long_its_tags_are(character: str) -> None:
    entry = {"name": "corp", "issuer": "https://login.example.com", "audience": "mgw", "rules": [{}]}
    settings = EdgeAuthSettings.model_validate({"enabled": True, "jwt": [entry]})
    clients = IdentityClients(settings, None, b"secret")
    long = character * MAX_CLIENT_CHARACTERS
    tags = {f"{number:02}".ljust(64, "x"): character * MAX_TAG_CHARACTERS for number in range(MAX_TAGS)}
    client = clients.client_of("corp", long, (), tags)
    token = upload_token(client.digest, PATH, NOW, client.identity)
    assert identity_of_token(clients, PATH, token, NOW) is client
    assert identity_of_token(clients, PATH + b"s", token, NOW) is None
