"""What is taken for a token, and in which form it is malformed."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from time import thread_time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.tokens.token import MAX_TOKEN_BYTES, issuer_in, parse_token
from tests.support.signed_tokens import ISSUER, b64, claims_with, make_token, parsed, part

HEADER: Final = b'{"alg":"RS256","kid":"k1"}'
CLAIMS: Final = json.dumps(claims_with()).encode()
MOST_SECONDS: Final = 0.010
HEAD_BYTES: Final = 65_536


def token(header: bytes = HEADER, claims: bytes = CLAIMS, signature: bytes = b"AAAA") -> bytes:
    """Join parts that are not encoded but for the signature."""
    return part(header) + b"." + part(claims) + b"." + signature


def flaw_in(value: bytes) -> str | None:
    found = parsed(value)
    assert found.issuer == ISSUER
    return found.flaw


def test_a_token_is_taken_apart() -> None:
    value = token(signature=b"AQID")
    found = parsed(value)
    assert found.header == json.loads(HEADER)
    assert found.claims == json.loads(CLAIMS)
    assert found.signed + b".AQID" == value
    assert (found.signature, found.size, found.flaw) == (b"\1\2\3", len(value), None)
    assert (found.issuer, found.key_id) == (ISSUER, "k1")


def test_a_token_shows_nothing_of_itself() -> None:
    assert repr(parsed(make_token())) == f"UnverifiedToken({len(make_token())} bytes)"


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b".", b"..", b"...", b"e..", b"e.e.e", b"sk-proj-abc.def.ghi", b"mgw_" + b"a" * 43),
        *(token() + b".", token() + b".AAAA", b"." + token(), token().rpartition(b".")[0]),
        pytest.param(token() + b"=", id="padding"),
        pytest.param(token(signature=b"AA=="), id="padding of the signature"),
        pytest.param(
            urlsafe_b64encode(b'{"a":1}') + token()[token().index(b".") :], id="padding of the header"
        ),
        pytest.param(token(signature=b"+/+/"), id="the other alphabet"),
        pytest.param(token(signature=b"A"), id="no bytes have one digit"),
        pytest.param(token(signature=b"AA AA"), id="a blank"),
        pytest.param(token() + b"\n", id="a line break"),
        pytest.param(b" " + token(), id="a blank before it"),
        pytest.param(b"Bearer " + token(), id="its scheme"),
        pytest.param(token().replace(b"e", "е".encode(), 1), id="a letter that looks like one"),
        pytest.param(token(header=b"[]"), id="a list as header"),
        pytest.param(token(claims=b'["iss"]'), id="a list as claims"),
        pytest.param(token(claims=b'"iss"'), id="text as claims"),
        pytest.param(token(claims=b"null"), id="null as claims"),
        pytest.param(token(claims=token()), id="a token as claims"),
        pytest.param(token(claims=CLAIMS[:-1]), id="claims that are cut"),
        pytest.param(token(claims=CLAIMS + b"}"), id="claims and more"),
        pytest.param(token(claims=b"\xef\xbb\xbf" + CLAIMS), id="a byte order mark"),
        pytest.param(token(claims=CLAIMS.decode().encode("utf-16")), id="UTF-16"),
        pytest.param(token(claims=b'{"iss":"\xff"}'), id="no UTF-8"),
        pytest.param(token(claims=b'{"iss":"\xed\xa0\x80"}'), id="a surrogate in UTF-8"),
        pytest.param(token(claims=b'{"iss":"\xc0\xaf"}'), id="an overlong form"),
        pytest.param(token(claims=b"{'iss':1}"), id="other quotes"),
        pytest.param(token(claims=b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}"), id="deep nesting"),
    ],
)
def test_anything_else_is_not_a_token(value: bytes) -> None:
    assert parse_token(value) is None


@pytest.mark.parametrize("space", [b" ", b"\t", b"\r", b"\n"])
def test_white_space_around_the_objects_is_allowed(space: bytes) -> None:
    assert flaw_in(token(space + HEADER + space, space + CLAIMS + space)) is None


def test_a_token_without_a_signature_is_one_so_that_it_is_refused() -> None:
    assert parsed(token(signature=b"")).signature == b""


@pytest.mark.parametrize(
    ("signature", "is_canonical"),
    [(b"AA", True), (b"AB", False), (b"AAA", True), (b"AAB", False), (b"Ag", True), (b"Ah", False)],
)
def test_unused_bits_must_be_zero(signature: bytes, is_canonical: bool) -> None:
    flaw = None if is_canonical else "its base64 is not canonical"
    assert flaw_in(token(signature=signature)) == flaw


@pytest.mark.parametrize("place", [0, 1])
def test_unused_bits_of_the_other_parts_must_be_zero(place: int) -> None:
    parts = [part(HEADER + b" " * (-len(HEADER) % 3 + 1)), part(CLAIMS + b" " * (-len(CLAIMS) % 3 + 1))]
    assert len(parts[place]) % 4 == 2
    parts[place] = parts[place][:-1] + bytes([parts[place][-1] + 1])
    assert flaw_in(b".".join([*parts, b"AAAA"])) == "its base64 is not canonical"


@pytest.mark.parametrize(
    ("header", "claims"),
    [
        (b'{"alg":"none","alg":"RS256"}', CLAIMS),
        (HEADER, CLAIMS[:-1] + b',"iss":' + json.dumps(ISSUER).encode() + b"}"),
        (HEADER, CLAIMS[:-1] + b',"\\u0069ss":' + json.dumps(ISSUER).encode() + b"}"),
        (HEADER, CLAIMS[:-1] + b',"exp":4000000000}'),
        (HEADER, CLAIMS[:-1] + b',"a":[{"roles":1,"roles":2}]}'),
    ],
    ids=["alg", "iss", "iss, escaped", "exp", "in a list"],
)
def test_a_name_that_occurs_twice_is_malformed(header: bytes, claims: bytes) -> None:
    assert flaw_in(token(header, claims)) == "a name occurs twice in an object"


def test_of_two_issuers_the_last_is_recognized() -> None:
    found = parsed(token(claims=b'{"iss":"other","iss":"' + ISSUER.encode() + b'"}'))
    assert (found.issuer, found.flaw) == (ISSUER, "a name occurs twice in an object")


@pytest.mark.parametrize(
    "value",
    [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"1" * 5_000, b'"\\ud800"', b'{"\\udfff":1}'],
)
def test_values_that_programs_read_differently_are_malformed(value: bytes) -> None:
    claims = CLAIMS[:-1] + b',"exp2":' + value + b"}"
    assert flaw_in(token(claims=claims)) == "it contains a value that is not valid JSON"


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert parsed(token(claims=b'{"a":"\\ud83d\\ude00"}')).claims == {"a": "\U0001f600"}


def test_large_numbers_are_exact() -> None:
    number = 10**300 + 1
    assert parsed(token(claims=b'{"a":%d}' % number)).claims == {"a": number}


@pytest.mark.parametrize("value", [1, None, ["x"], {}, True])
def test_an_issuer_or_a_key_id_is_text(value: object) -> None:
    found = parsed(make_token({"iss": value}, {"kid": value}))
    assert (found.issuer, found.key_id) == (None, None)


def test_a_token_up_to_the_limit_is_well_formed_and_a_larger_one_is_recognized() -> None:
    small = token(claims=CLAIMS[:-1] + b',"a":""}')
    rest = (MAX_TOKEN_BYTES - len(small)) // 4 * 3
    sizes = {}
    for more in range(rest - 5, rest + 8):
        value = token(claims=CLAIMS[:-1] + b',"a":"' + b"x" * more + b'"}')
        sizes[len(value)] = flaw_in(value)
    assert {
        size: flaw for size, flaw in sizes.items() if (size > MAX_TOKEN_BYTES) != (flaw is not None)
    } == {}
    assert MAX_TOKEN_BYTES == 16_384
    assert MAX_TOKEN_BYTES in sizes
    assert sizes[MAX_TOKEN_BYTES + 1] == "it is too large"


UNITS: Final = (
    b"{},",
    b"[],",
    b"0,",
    b"1e5,",
    b'{"":0},',
    b'{"a":0,"a":0},',
    b"NaN,",
    b'"\\ud800",',
    b'"\xc3\xa9",',
)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("size", [MAX_TOKEN_BYTES, HEAD_BYTES])
def test_no_token_takes_long(unit: bytes, size: int) -> None:
    start, end = b'{"iss":"' + ISSUER.encode() + b'","a":[', b"0]}"
    room = size * 3 // 4 - len(start) - len(end) - 60
    check_time(token(claims=start + unit * (room // len(unit)) + end))


@pytest.mark.parametrize(
    "value",
    [
        b"e" + b"a" * HEAD_BYTES + b"..",
        b"e" + b"a" * HEAD_BYTES + b".a.+",
        b"." * HEAD_BYTES,
        token(claims=b'{"a":' + b"1" * 48_000 + b"}"),
        token(claims=b'{"a":' + b"[" * 48_000),
        token(claims=b'{"a":' + b'{"a":' * 9_000),
        token(claims=b'{"a":1e' + b"9" * 48_000 + b"}"),
    ],
    ids=["long", "the end is wrong", "dots", "digits", "lists", "objects", "exponent"],
)
def test_no_junk_takes_long(value: bytes) -> None:
    check_time(value)


def check_time(value: bytes) -> None:
    def once() -> float:
        start = thread_time()
        parse_token(value)
        return thread_time() - start

    assert min(once() for _ in range(5)) < MOST_SECONDS


OBJECTS: Final = st.dictionaries(
    st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5), max_size=4
)


@given(header=OBJECTS, claims=OBJECTS, signature=st.binary(max_size=70))
def test_what_was_joined_is_taken_apart(
    header: dict[str, object], claims: dict[str, object], signature: bytes
) -> None:
    value = b".".join([part(header), part(claims), b64(signature).encode()])
    found = parsed(value)
    assert (found.header, found.claims, found.signature, found.flaw) == (header, claims, signature, None)


@given(
    pieces=st.lists(
        st.sampled_from(
            [b"e", b"eyJ", b".", b"=", b"A", b"-", b"_", b"+", b"\n", b"\xff", part(HEADER), part(CLAIMS)]
        ),
        max_size=9,
    )
)
def test_whatever_arrives_is_a_token_only_in_its_one_form(pieces: list[bytes]) -> None:
    value = b"".join(pieces)
    found = parse_token(value)
    if found is None:
        return
    header, claims, signature = value.split(b".")
    for text, meaning in ((header, found.header), (claims, found.claims)):
        assert json.loads(urlsafe_b64decode(text + b"==")) == meaning
    assert (found.flaw is None) == all(
        b64(urlsafe_b64decode(one + b"==")).encode() == one for one in (header, claims, signature)
    )


def test_what_tokens_are_is_known_without_cryptography() -> None:
    program = (
        "import sys; import mgw.clients.tokens.token, mgw.clients.tokens.claims, mgw.clients.tokens.verify; "
        "sys.exit(any(name.split('.')[0] in ('cryptography', 'twisted') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


MEMBERS: Final = st.lists(
    st.sampled_from(
        [
            b'"iss":"https://a.example"',
            b'"\\u0069ss":"https://b.example"',
            b'"iss":5',
            b'"iss":null',
            b'"x":NaN',
            b'"x":"\\ud800"',
            b'"x":{"iss":"https://c.example"}',
            b'"x":1e999',
            b'"x":' + b"1" * 5000,
            b'"x":"' + b"y" * 14_000 + b'"',
            b'"x"',
        ]
    ),
    max_size=4,
)


@given(members=MEMBERS, blanks=st.sampled_from([b"", b" ", b"\n\t\r", b"\xef\xbb\xbf"]))
def test_the_issuer_of_claims_is_that_of_their_token(members: list[bytes], blanks: bytes) -> None:
    claims = blanks + b"{" + b",".join(members) + b"}"
    found = parse_token(token(claims=claims))
    assert issuer_in(part(claims)) == (None if found is None else found.issuer)
