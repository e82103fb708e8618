"""What an issuer answers: how long its keys are used, and where they are."""

from __future__ import annotations

import json
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.identity.jwks_answer import (
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    USUAL_SECONDS,
    jwks_uri_in,
    seconds_until_next,
)

ISSUER = "https://login.example.com/realms/main"


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ([], 3600),
        ([b"public, max-age=7200, must-revalidate"], 7200),
        ([b"no-store"], 3600),
        ([b"max-age=0"], 300),
        ([b"max-age=299"], 300),
        ([b"max-age=301"], 301),
        ([b"max-age=86399"], 86399),
        ([b"max-age=86401"], 86400),
        ([b"max-age=" + b"9" * 100_000], 86400),
        ([b"max-age=000000000000000000600"], 600),
        ([b"max-age=-7200"], 300),
        ([b'Max-Age = "600"'], 600),
        ([b"max-age=600", b"max-age=900"], 600),
        ([b"max-age=600, max-age=900"], 600),
        ([b"s-maxage=600"], 3600),
        ([b"x-max-age=600"], 3600),
        ([b"max-age=1e3"], 3600),
        ([b"max-age=soon", b"max-age=900"], 900),
        ([b"max-age="], 3600),
        ([b"\xff\xfe, max-age=\xd9\xa3"], 3600),
    ],
    ids=str,
)
def test_keys_are_fetched_again_when_the_answer_says_so(fields: list[bytes], seconds: float) -> None:
    assert seconds_until_next(fields) == seconds


@pytest.mark.parametrize("zero", [b"0", b"1", b" ", b'"', b"-", b"0,"])
def test_a_long_field_takes_no_longer_than_its_length(zero: bytes) -> None:
    began = process_time()
    assert seconds_until_next([b"max-age=" + zero * 100_000 + b"x"]) in (SHORTEST_SECONDS, USUAL_SECONDS)
    assert process_time() - began < 1.0, "it took half a minute where each zero was tried with all others"


PIECES = st.sampled_from(
    [b"max-age", b"=", b"-", b"+", b'"', b",", b" ", b"\t", b"9" * 30, b"0", b"x", b"\xff"]
)


@given(fields=st.lists(st.lists(PIECES, max_size=12).map(b"".join), max_size=4))
def test_no_answer_makes_it_sooner_or_later_than_may_be(fields: list[bytes]) -> None:
    seconds = seconds_until_next(fields)
    assert SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS
    assert seconds == USUAL_SECONDS or any(b"max-age" in field for field in fields)


def document(**changes: object) -> bytes:
    return json.dumps({"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys", **changes}).encode()


@pytest.mark.parametrize(
    "uri",
    [
        "https://other.example/keys?v=1",
        "https://10.0.0.1:6443/openid/v1/jwks",
        "http://127.0.0.1:8080/keys",
        "http://localhost/keys",
        "http://[::1]/keys",
    ],
)
def test_keys_are_where_the_document_says(uri: str) -> None:
    assert jwks_uri_in(document(jwks_uri=uri), ISSUER) == uri


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (b"<html>canary</html>", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"", "not a JSON object"),
        (b"\xff", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (document(issuer=ISSUER + "/"), "its issuer is not .*: only one of them ends with a /"),
        (document(issuer="https://canary.example"), "in the configuration$"),
        (document(issuer=None), "issuer"),
        (document(issuer=[ISSUER]), "issuer"),
        (document(jwks_uri=None), "no jwks_uri"),
        (document(jwks_uri=["https://canary.example"]), "no jwks_uri"),
        (document(jwks_uri="http://canary.example/keys"), "https://"),
        (document(jwks_uri="file:///etc/canary"), "https://"),
        (document(jwks_uri="https://canary:secret@other.example/keys"), "https://"),
        (document(jwks_uri="https://other.example/canary\r\nHost: x"), "https://"),
        (document(jwks_uri="//canary.example/keys"), "https://"),
        (document(jwks_uri="https://"), "https://"),
        (document(jwks_uri="https://canary.example:99999/"), "https://"),
    ],
)
def test_other_documents_are_refused_and_not_repeated(found: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what) as refusal:
        jwks_uri_in(found, ISSUER)
    assert "canary" not in str(refusal.value)
