"""Which keys of an issuer are used, and what is said of the others."""

from __future__ import annotations

import json
from contextlib import suppress
from time import thread_time
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.tokens.key_set import MAX_KEYS, MAX_KEYS_OF_ID, MAX_SET_BYTES, parse_key_set, shown_id
from tests.support.signed_tokens import b64, jwk_of, key_for, keys_of, number

Json = dict[str, Any]
RSA: Final = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
EDDSA: Final = {"EdDSA", "Ed25519"}
GOOD: Final = jwk_of(key_for("EdDSA"), kid="good")
"""Beside it, a set has a usable key."""


def rsa_key(bits: int = 2048, exponent: int = 65_537, **members: object) -> Json:
    """A key whose modulus is a number of so many bits."""
    return {"kty": "RSA", "n": number(2**bits - 1), "e": number(exponent), "kid": "x"} | members


def changed(algorithm: str, **members: object) -> Json:
    return jwk_of(key_for(algorithm), kid="x") | members


def flaw_of_key(jwk: object) -> str | None:
    """Say why a key is left out; ``None``: it is used."""
    found = parse_key_set(json.dumps({"keys": [jwk, GOOD]}).encode())
    if not found.left_out:
        assert len(found.keys) == 2
        return None
    [reason] = found.left_out
    assert [key.key_id for key in found.keys] == ["good"]
    return reason


def suits(jwk: Json) -> set[str]:
    """Return the algorithms that a key suits."""
    found = parse_key_set(json.dumps({"keys": [jwk, GOOD]}).encode())
    assert found.left_out == ()
    return {algorithm for key in found.keys if key.key_id != "good" for algorithm in key.algorithms}


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [("RS256", RSA), ("ES256", {"ES256"}), ("ES384", {"ES384"}), ("ES512", {"ES512"}), ("EdDSA", EDDSA)],
)
def test_a_key_suits_the_algorithms_of_its_type_and_curve(algorithm: str, expected: set[str]) -> None:
    assert suits(changed(algorithm)) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"alg": "RS256"}, {"RS256"}),
        ({"alg": "PS512"}, {"PS512"}),
        ({"alg": "rs256"}, set()),
        ({"alg": "RSA-OAEP"}, set()),
        ({"alg": "ES256"}, set()),
        ({"alg": "HS256"}, set()),
        ({"alg": "none"}, set()),
        ({"alg": ""}, set()),
        ({"alg": None}, RSA),
        ({"use": "sig"}, RSA),
        ({"use": None}, RSA),
        ({"use": "enc"}, set()),
        ({"use": "SIG"}, set()),
        ({"use": ["sig"]}, set()),
        ({"key_ops": ["verify"]}, RSA),
        ({"key_ops": ["sign", "verify"]}, RSA),
        ({"key_ops": ["encrypt"]}, set()),
        ({"key_ops": []}, set()),
        ({"key_ops": "verify"}, set()),
        ({"key_ops": {"verify": 1}}, set()),
        ({"use": "enc", "key_ops": ["verify"]}, set()),
        ({"use": "sig", "key_ops": ["verify"], "alg": "RS512"}, {"RS512"}),
        ({"x5c": ["AAAA"], "x5t": "A", "x5u": "https://evil.example", "ext": True, "foo": {}}, RSA),
    ],
)
def test_what_a_key_is_for(members: Json, expected: set[str]) -> None:
    assert suits(changed("RS256", **members)) == expected


@pytest.mark.parametrize("name", sorted(EDDSA))
def test_both_names_of_ed25519_mean_one_algorithm(name: str) -> None:
    assert suits(changed("EdDSA", alg=name)) == EDDSA
    assert suits(changed("EdDSA", alg="Ed448")) == set()


@pytest.mark.parametrize(
    ("bits", "flaw"),
    [
        (1024, "RSA with 1024 bits; from 2048 to 8192 are supported"),
        (2047, "RSA with 2047 bits; from 2048 to 8192 are supported"),
        (2048, None),
        (3072, None),
        (8192, None),
        (8193, "RSA with 8193 bits; from 2048 to 8192 are supported"),
    ],
)
def test_rsa_keys_have_so_many_bits(bits: int, flaw: str | None) -> None:
    assert flaw_of_key(rsa_key(bits)) == (flaw and f"key 'x': {flaw}")


def test_a_zero_byte_before_a_modulus_does_not_make_it_larger() -> None:
    assert flaw_of_key(rsa_key(n=b64(b"\0" + (2**8192 - 1).to_bytes(1024)))) is None
    assert flaw_of_key(rsa_key(n=b64(b"\0" * 300 + b"\xff" * 128))) is not None


@pytest.mark.parametrize("exponent", [3, 17, 65_537, 2**64 - 1])
def test_an_exponent_is_odd_and_not_too_large(exponent: int) -> None:
    assert flaw_of_key(rsa_key(exponent=exponent)) is None


@pytest.mark.parametrize("exponent", [1, 2, 4, 65_536, 2**64 + 1, 2**2040 + 1])
def test_another_exponent_is_not_used(exponent: int) -> None:
    assert flaw_of_key(rsa_key(exponent=exponent)) == (
        "key 'x': its exponent (e) is not an odd number from 3 up to 64 bits"
    )


def zero_y_on(algorithm: str) -> Json:
    size = {"ES256": 32, "ES384": 48, "ES512": 66}[algorithm]
    return changed(algorithm, y=number(0, size))


@pytest.mark.parametrize(
    ("jwk", "flaw"),
    [
        pytest.param({"kty": "oct", "k": "c2VjcmV0", "kid": "x"}, "it is a shared secret (oct)", id="oct"),
        pytest.param({"kty": "oct", "use": "enc", "kid": "x"}, "it is a shared secret (oct)", id="oct, enc"),
        pytest.param({"kid": "x"}, "its type (kty) is not supported", id="no type"),
        pytest.param({"kty": "DSA", "kid": "x"}, "its type (kty) is not supported", id="another type"),
        pytest.param({"kty": "rsa", "kid": "x"}, "its type (kty) is not supported", id="type in lower case"),
        pytest.param({"kty": ["RSA"], "kid": "x"}, "kty is not a string", id="type as a list"),
        pytest.param(changed("RS256", alg=["RS256"]), "alg is not a string", id="alg as a list"),
        pytest.param(rsa_key(n=None), "n is not base64url without padding", id="no n"),
        pytest.param(rsa_key(e=65_537), "e is not base64url without padding", id="e as a number"),
        pytest.param(rsa_key(e="AQAB="), "e is not base64url without padding", id="padding"),
        pytest.param(rsa_key(e="A"), "e is not base64url without padding", id="one digit"),
        pytest.param(rsa_key(n=""), "n is not base64url without padding", id="nothing"),
        pytest.param(rsa_key(n="+" * 400), "n is not base64url without padding", id="the other alphabet"),
        pytest.param(rsa_key(n="é" * 400), "n is not base64url without padding", id="no ASCII"),
        pytest.param(rsa_key(n=number(2**2048 - 2)), "its modulus (n) is even", id="even"),
        pytest.param(changed("ES256", crv="secp256k1"), "its curve (crv) is not supported", id="curve"),
        pytest.param(
            changed("ES256", crv=["P-256"]), "its curve (crv) is not supported", id="curve as a list"
        ),
        pytest.param(changed("ES256", crv=None), "its curve (crv) is not supported", id="no curve"),
        pytest.param(
            changed("ES256", x="AAAA"), "a coordinate does not have the length of its curve", id="x"
        ),
        pytest.param(
            changed("ES256", y=number(1, 33)), "a coordinate does not have the length of its curve", id="y"
        ),
        pytest.param(changed("ES256", y=None), "y is not base64url without padding", id="no y"),
        *(
            pytest.param(zero_y_on(algorithm), "its point is not on its curve", id=f"point, {algorithm}")
            for algorithm in ("ES256", "ES384", "ES512")
        ),
        pytest.param(
            changed("ES256", x=number(0, 32), y=number(0, 32)), "its point is not on its curve", id="0, 0"
        ),
        pytest.param(
            changed("ES256", x=number(2**256 - 1, 32)), "its point is not on its curve", id="beyond the field"
        ),
        pytest.param(changed("EdDSA", crv="Ed448"), "its curve (crv) is not supported", id="Ed448"),
        pytest.param(changed("EdDSA", crv="X25519"), "its curve (crv) is not supported", id="X25519"),
        pytest.param(changed("EdDSA", x="AAAA"), "its point is not a public key of Ed25519", id="short"),
    ],
)
def test_a_key_that_cannot_be_used_is_left_out_with_the_reason(jwk: Json, flaw: str) -> None:
    assert flaw_of_key(jwk) == f"key 'x': {flaw}"


def ed25519(y: int, sign: int = 0) -> str:
    return b64((y | sign << 255).to_bytes(32, "little"))


P: Final = 2**255 - 19
ORDER_8: Final = int.from_bytes(
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
)


@pytest.mark.parametrize(
    "y",
    [0, 1, P - 1, ORDER_8, P - ORDER_8, P, P + 1, 2**255 - 1, 2],
    ids=["order 4", "order 1", "order 2", "order 8", "order 8, other", "p", "p + 1", "all ones", "no point"],
)
@pytest.mark.parametrize("sign", [0, 1])
def test_a_point_with_which_anyone_could_sign_is_not_a_key(y: int, sign: int) -> None:
    flaw = "key 'x': its point is not a public key of Ed25519"
    assert flaw_of_key(changed("EdDSA", x=ed25519(y, sign))) == flaw


def test_the_base_point_is_a_key() -> None:
    assert flaw_of_key(changed("EdDSA", x=ed25519(4 * pow(5, -1, P) % P))) is None


def test_elements_that_are_not_objects_are_left_out_by_their_position() -> None:
    others: list[Any] = [5, None, [], "x"]
    found = keys_of(GOOD, *others)
    assert found.left_out == tuple(
        f"key {place}: it is not a JSON object that can be read" for place in (2, 3, 4, 5)
    )


def test_a_key_without_a_usable_id_is_named_by_its_position() -> None:
    found = keys_of({"kty": "oct"}, GOOD, {"kty": "oct", "kid": 5})
    assert found.left_out == ("key 1: it is a shared secret (oct)", "key 3: it is a shared secret (oct)")
    assert keys_of(changed("RS256", kid=["a"]), GOOD).left_out == ("key 1: kid is not a string",)


@pytest.mark.parametrize(
    ("key_id", "shown"),
    [
        (None, "without an id"),
        ("", "''"),
        ("k1", "'k1'"),
        ("a\nb\x7f\u202e", r"'a\nb\x7f\u202e'"),
        ("x" * 64, repr("x" * 64)),
        ("x" * 65, repr("x" * 64 + "...")),
        ("'", '"\'"'),
    ],
)
def test_an_id_is_shown_short_and_printable(key_id: str | None, shown: str) -> None:
    assert shown_id(key_id) == shown


def test_no_material_is_shown() -> None:
    secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQ"
    found = keys_of(
        GOOD, {"kty": "oct", "k": secret}, changed("ES256", x=secret, d=secret), changed("RS256", n=secret)
    )
    shown = repr((found.keys, found.left_out, found))
    assert len(found.left_out) == 3
    assert secret not in shown
    assert GOOD["x"] not in shown


@pytest.mark.parametrize(
    "document",
    [
        *(
            b"",
            b"null",
            b"[]",
            b"5",
            b'"x"',
            b"{}",
            b'{"keys":{}}',
            b'{"keys":null}',
            b'{"keys":[{}',
            b"<html>",
        ),
        *(b'{"keys":[' + b"[" * 100_000, b"\xff\xfe", b'{"keys":[{}]} x', b'{"Keys":[]}'),
    ],
)
def test_something_else_is_not_a_set_of_keys(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it is not a JSON object with a list of keys$"):
        parse_key_set(document)


@pytest.mark.parametrize("keys", [[], [{"kty": "oct"}], [{}], [changed("RS256", use="enc")]])
def test_a_set_without_a_usable_key_is_an_error(keys: list[Json]) -> None:
    with pytest.raises(ValueError, match=r"^none of its keys can verify a signature"):
        keys_of(*keys)


def test_the_error_names_some_reasons() -> None:
    with pytest.raises(ValueError, match="shared secret") as caught:
        keys_of(*[{"kty": "oct", "kid": f"k{place}"} for place in range(9)])
    assert str(caught.value).count("shared secret") == 5


def test_so_many_keys_may_be_in_a_set() -> None:
    keys = [GOOD | {"kid": str(place)} for place in range(MAX_KEYS)]
    assert len(keys_of(*keys).keys) == MAX_KEYS
    with pytest.raises(ValueError, match=r"^it has 101 keys, more than 100$"):
        keys_of(*keys, GOOD)


def test_so_many_bytes_may_be_in_a_set() -> None:
    document = json.dumps({"keys": [GOOD]}).encode()
    full = document + b" " * (MAX_SET_BYTES - len(document))
    assert parse_key_set(full).keys
    with pytest.raises(ValueError, match=r"^it is larger than 1048576 bytes$"):
        parse_key_set(full + b" ")


def named(key_id: str | None, algorithm: str, serial: int = 1, **members: object) -> Json:
    return jwk_of(key_for(algorithm, serial), kid=key_id, **members)


def thumbprint_of(jwk: Json) -> bytes:
    [key] = keys_of({name: value for name, value in jwk.items() if name not in ("use", "alg")}).keys
    return key.thumbprint


def found_by(keys: list[Json], algorithm: str, key_id: str | None) -> list[Json]:
    found = keys_of(*keys).suiting(algorithm, key_id)
    return [jwk for jwk in keys for key in found if thumbprint_of(jwk) == key.thumbprint]


def test_a_key_is_found_by_its_id_if_it_suits() -> None:
    rsa, curve = named("a", "RS256"), named("b", "ES256")
    keys = [rsa, curve]
    assert found_by(keys, "RS256", "a") == [rsa]
    assert found_by(keys, "ES256", "b") == [curve]
    assert found_by(keys, "ES256", "a") == []
    assert found_by(keys, "RS256", "A") == []
    assert found_by(keys, "RS256", "") == []


def test_one_id_may_name_keys_of_several_types() -> None:
    rsa, curve = named("a", "RS256"), named("a", "ES256")
    assert found_by([rsa, curve], "RS256", "a") == [rsa]
    assert found_by([rsa, curve], "ES256", "a") == [curve]


def test_of_keys_with_one_id_few_are_tried() -> None:
    keys = [named("a", "ES256", serial) for serial in range(1, MAX_KEYS_OF_ID + 2)]
    found = keys_of(*keys, named("b", "ES256"))
    assert found_by(keys, "ES256", "a") == keys[:MAX_KEYS_OF_ID]
    assert found.left_out == ("key 'a': 4 other keys have this id",)
    assert len(found.keys) == MAX_KEYS_OF_ID + 1


def test_a_key_may_be_there_once_for_each_of_its_algorithms() -> None:
    names = sorted(RSA)
    found = keys_of(*(named("a", "RS256", alg=name) for name in names))
    assert [len(found.suiting(name, "a")) for name in names] == [1] * len(names)
    assert found.left_out == ()


def test_a_key_that_is_there_twice_counts_once() -> None:
    keys = [named("a", "ES256")] * (MAX_KEYS_OF_ID + 1)
    assert len(keys_of(*keys).keys) == 1


def test_without_an_id_exactly_one_key_has_to_suit() -> None:
    rsa, other, curve = named("a", "RS256"), named("b", "RS256", 2), named(None, "ES256")
    assert found_by([rsa, curve], "RS256", None) == [rsa]
    assert found_by([rsa, curve], "ES256", None) == [curve]
    assert found_by([rsa, other, curve], "RS256", None) == []
    assert found_by([rsa, other | {"alg": "PS256"}], "RS256", None) == [rsa]
    assert found_by([rsa, other | {"use": "enc"}], "RS256", None) == [rsa]
    assert found_by([curve], "RS256", None) == []


def test_a_key_with_two_ids_is_one_key() -> None:
    assert len(keys_of(named("a", "RS256"), named("b", "RS256")).suiting("RS256", None)) == 1


def test_thumbprints_tell_keys_apart() -> None:
    prints = {keys_of(named("a", algorithm, serial)).keys[0].thumbprint for algorithm, serial in OTHERS}
    assert len(prints) == len(OTHERS)
    again = keys_of(named("b", "RS256", use="sig", alg="RS256")).keys[0].thumbprint
    assert again == keys_of(named("a", "RS256")).keys[0].thumbprint


OTHERS: Final = [
    (algorithm, serial) for algorithm in ("RS256", "ES256", "ES384", "EdDSA") for serial in (1, 2)
]
VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=4)
    | st.sampled_from(["RSA", "EC", "sig", "AQAB"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
MEMBERS: Final = ["kty", "use", "key_ops", "alg", "kid", "crv", "n", "e", "x", "y", "d"]


@given(
    algorithm=st.sampled_from(["RS256", "ES256", "ES512", "EdDSA"]),
    changes=st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=3),
)
def test_whatever_a_key_says_the_others_stay(algorithm: str, changes: Json) -> None:
    found = keys_of(changed(algorithm) | changes, GOOD)
    assert any(key.key_id == "good" for key in found.keys)
    assert len(found.keys) + len(found.left_out) <= 2


def ec_keys(curve: ec.EllipticCurve, name: str, size: int) -> list[Json]:
    point = ec.generate_private_key(curve).public_key().public_numbers()
    return [
        {"kty": "EC", "crv": name, "x": number(point.x, size), "y": number(point.y, size), "kid": str(place)}
        for place in range(MAX_KEYS)
    ]


def document_of(keys: list[Json]) -> bytes:
    return json.dumps({"keys": keys}).encode()


LARGE: Final = {
    "RSA": document_of([rsa_key(8192, 2**64 - 1, kid=str(place)) for place in range(MAX_KEYS)]),
    "P-521": document_of(ec_keys(ec.SECP521R1(), "P-521", 66)),
    "Ed25519": document_of([GOOD | {"kid": str(place)} for place in range(MAX_KEYS)]),
    "numbers": b'{"keys":[' + b"0," * 524_000 + b"0]}",
    "objects": b'{"keys":[' + b"{}," * 340_000 + b"{}]}",
    "depth": b'{"keys":[' + b"[" * 1_000_000,
    "a modulus": b'{"keys":[{"kty":"RSA","e":"AQAB","n":"' + b"x" * 1_000_000 + b'"}]}',
    "an id": b'{"keys":[{"kty":"oct","kid":"' + b"\\u0001" * 170_000 + b'"}]}',
    "operations": b'{"keys":[{"kty":"RSA","key_ops":[' + b"{}," * 340_000 + b"{}]}]}",
    "members": b"{" + b",".join(b'"%x":0' % place for place in range(100_000)) + b"}",
}


@pytest.mark.parametrize("document", LARGE.values(), ids=LARGE)
def test_no_set_takes_long(document: bytes) -> None:
    assert len(document) <= MAX_SET_BYTES

    def once() -> float:
        start = thread_time()
        with suppress(ValueError):
            parse_key_set(document)
        return thread_time() - start

    assert min(once() for _ in range(3)) < 0.250
