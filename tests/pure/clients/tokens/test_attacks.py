"""Attacks on tokens: those of RFC 8725, and those that libraries had to be mended for."""

from __future__ import annotations

import hmac
import json
from base64 import b64encode, urlsafe_b64encode
from hashlib import sha256
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mgw.clients.tokens.key_set import KeySet
from mgw.clients.tokens.token import parse_token
from mgw.nouns.token_flaw import TokenFlaw
from tests.support.signed_tokens import (
    ISSUER,
    b64,
    claims_with,
    entry_with,
    flaw_of,
    join,
    json_bytes,
    jwk_of,
    key_for,
    keys_for,
    keys_of,
    make_token,
    part,
    signature,
)

HEADER: Final = {"alg": "RS256", "kid": "k1"}
RSA_KEY: Final = key_for("RS256")
STRANGER: Final = key_for("RS256", 2)
P256_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def signed_with(header: Any, claims: Any = None) -> bytes:
    return part(header) + b"." + part(claims_with() if claims is None else claims)


@pytest.mark.parametrize(
    "algorithm",
    ["none", "None", "NONE", "nOnE", "none ", " none", "", "null", "noNE\0", None, [], ["none"], {}, 0],
)
@pytest.mark.parametrize("end", [b"", b"AAAA"], ids=["no signature", "a signature"])
def test_a_token_without_an_algorithm(algorithm: object, end: bytes) -> None:
    """RFC 8725 2.1 and 3.2."""
    token = signed_with(HEADER | {"alg": algorithm}) + b"." + end
    assert flaw_of(token) is TokenFlaw.ALGORITHM
    assert flaw_of(signed_with({"kid": "k1"}) + b"." + end) is TokenFlaw.ALGORITHM


def public_forms() -> list[Any]:
    """All forms in which the issuer's public key is known to everybody."""
    assert isinstance(RSA_KEY, rsa.RSAPrivateKey)
    public = RSA_KEY.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    jwk = jwk_of(RSA_KEY, kid="k1")
    return [
        pytest.param(pem, id="PEM"),
        pytest.param(pem.rstrip(), id="PEM without its line break"),
        pytest.param(public.public_bytes(Encoding.PEM, PublicFormat.PKCS1), id="PKCS 1"),
        pytest.param(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), id="DER"),
        pytest.param(json.dumps(jwk).encode(), id="JWK"),
        pytest.param(jwk["n"].encode(), id="modulus"),
        pytest.param(b"", id="nothing"),
    ]


@pytest.mark.parametrize("secret", public_forms())
@pytest.mark.parametrize("name", ["HS256", "hs256", "RS256"])
def test_the_public_key_as_a_shared_secret(secret: bytes, name: str) -> None:
    """RFC 8725 2.1: the signature is an HMAC with what everybody knows."""
    signed = signed_with(HEADER | {"alg": name})
    token = join(signed, hmac.digest(secret, signed, sha256))
    assert flaw_of(token) is (TokenFlaw.SIGNATURE if name == "RS256" else TokenFlaw.ALGORITHM)


@pytest.mark.parametrize(
    "algorithm",
    [
        "rs256",
        "Rs256",
        "RS256 ",
        " RS256",
        "RS-256",
        "RSA256",
        "RS256\0",
        "RS1",
        "ES256K",
        "eddsa",
        "ED25519",
        "Ed448",
    ],
)
def test_an_algorithm_in_another_spelling(algorithm: str) -> None:
    signed = signed_with(HEADER | {"alg": algorithm})
    assert flaw_of(join(signed, signature("RS256", RSA_KEY, signed))) is TokenFlaw.ALGORITHM


@pytest.mark.parametrize("name", ["PS256", "RS384", "ES256", "EdDSA"])
def test_a_signature_under_the_name_of_another_algorithm(name: str) -> None:
    signed = signed_with(HEADER | {"alg": name})
    flaw = TokenFlaw.SIGNATURE if name[0] in "PR" else TokenFlaw.UNKNOWN_KEY
    assert flaw_of(join(signed, signature("RS256", RSA_KEY, signed))) is flaw


def test_a_signature_with_sha_1_or_another_salt() -> None:
    assert isinstance(RSA_KEY, rsa.RSAPrivateKey)
    signed = signed_with(HEADER)
    assert flaw_of(join(signed, RSA_KEY.sign(signed, padding.PKCS1v15(), SHA1()))) is TokenFlaw.SIGNATURE
    signed = signed_with(HEADER | {"alg": "PS256"})
    for salt, mask in ((0, SHA256()), (20, SHA256()), (222, SHA256()), (32, SHA384())):
        made = RSA_KEY.sign(signed, padding.PSS(padding.MGF1(mask), salt), SHA256())
        assert flaw_of(join(signed, made)) is TokenFlaw.SIGNATURE, salt
    made = RSA_KEY.sign(signed, padding.PSS(padding.MGF1(SHA256()), 32), SHA256())
    assert flaw_of(join(signed, made)) is None


def test_a_forged_padding_with_a_small_exponent() -> None:
    """Bleichenbacher, 2006: the cube root of a number that begins as a signature does."""
    key = rsa.generate_private_key(65537, 2048)
    modulus = key.public_key().public_numbers().n
    keys = keys_of({"kty": "RSA", "n": b64(modulus.to_bytes(256)), "e": "Aw", "kid": "k1"})
    signed = signed_with(HEADER)
    prefix = bytes.fromhex("0001ff003031300d060960864801650304020105000420") + sha256(signed).digest()
    number = int.from_bytes(prefix + b"\0" * (256 - len(prefix)))
    low, high = 0, 1 << 700
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**3 < number else (low, middle)
    assert (low**3).to_bytes(256).startswith(prefix)
    assert flaw_of(join(signed, low.to_bytes(256)), keys=keys) is TokenFlaw.SIGNATURE


@pytest.mark.parametrize("number", [0, 1], ids=["0", "1"])
def test_an_rsa_signature_that_is_its_own_power(number: int) -> None:
    assert flaw_of(join(signed_with(HEADER), number.to_bytes(256))) is TokenFlaw.SIGNATURE


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512"])
@pytest.mark.parametrize("r", ["0", "1", "n", "all ones"])
@pytest.mark.parametrize("s", ["0", "1", "n", "all ones"])
def test_numbers_that_fit_every_message(algorithm: str, r: str, s: str) -> None:
    """CVE-2022-21449: with r and s zero, or both the order, a careless check holds."""
    size = {"ES256": 32, "ES384": 48, "ES512": 66}[algorithm]
    order = P256_ORDER if algorithm == "ES256" else (1 << (size * 8)) - 2
    numbers = {"0": 0, "1": 1, "n": order, "all ones": (1 << (size * 8)) - 1}
    made = numbers[r].to_bytes(size) + numbers[s].to_bytes(size)
    token = join(signed_with({"alg": algorithm, "kid": "k1"}), made)
    assert flaw_of(token, keys=keys_for(algorithm)) is TokenFlaw.SIGNATURE


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512"])
def test_an_ecdsa_signature_in_der(algorithm: str) -> None:
    """RFC 7518 3.4."""
    key = key_for(algorithm)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    signed = signed_with({"alg": algorithm, "kid": "k1"})
    der = key.sign(signed, ec.ECDSA({"ES256": SHA256(), "ES384": SHA384()}.get(algorithm, SHA256())))
    assert flaw_of(join(signed, der), keys=keys_for(algorithm)) is TokenFlaw.SIGNATURE


def test_the_other_s_is_as_good_but_another_token() -> None:
    """ECDSA signatures have a twin; nothing here may know a token by its signature."""
    key = key_for("ES256")
    signed = signed_with({"alg": "ES256", "kid": "k1"})
    made = signature("ES256", key, signed)
    twin = made[:32] + (P256_ORDER - int.from_bytes(made[32:])).to_bytes(32)
    assert flaw_of(join(signed, twin), keys=keys_for("ES256")) is None


def test_a_key_on_another_curve() -> None:
    """RFC 8725 2.5 and 3.4: the point is on a curve with the same equation but for its last term."""
    point = jwk_of(key_for("ES256"))
    other = point | {"x": point["y"], "y": point["x"]}
    with pytest.raises(ValueError, match="its point is not on its curve"):
        keys_of(other)
    with pytest.raises(ValueError, match="length of its curve"):
        keys_of(point | {"crv": "P-384"})


@pytest.mark.parametrize("curve", ["ES384", "ES512"])
def test_a_key_of_another_curve_than_the_algorithm(curve: str) -> None:
    signed = signed_with({"alg": "ES256", "kid": "k1"})
    token = join(signed, signature(curve, key_for(curve), signed))
    assert flaw_of(token, keys=keys_for(curve)) is TokenFlaw.UNKNOWN_KEY


def test_a_signature_of_ed25519_with_a_number_beyond_the_order() -> None:
    """RFC 8032 5.1.7: S has to be below the order, or a signature has twins."""
    order = 2**252 + 27742317777372353535851937790883648493
    signed = signed_with({"alg": "EdDSA", "kid": "k1"})
    made = signature("EdDSA", key_for("EdDSA"), signed)
    twin = made[:32] + (int.from_bytes(made[32:], "little") + order).to_bytes(32, "little")
    assert flaw_of(join(signed, made), keys=keys_for("EdDSA")) is None
    assert flaw_of(join(signed, twin), keys=keys_for("EdDSA")) is TokenFlaw.SIGNATURE


@pytest.mark.parametrize(
    "kid",
    [
        *(
            "../../../dev/null",
            "/dev/null",
            "k1'; DROP TABLE keys; --",
            "k1\0",
            "K1",
            " k1",
            "",
            "*",
            "k*",
            ".",
        ),
        *("https://evil.example/key.pem", "k1\n", "$(id)", "0", "None", "e1" * 4_000),
    ],
)
def test_an_id_that_is_a_path_a_query_or_a_pattern(kid: str) -> None:
    """RFC 8725 2.9 and 3.10: an id only finds a key that the issuer publishes."""
    assert flaw_of(make_token(header=HEADER | {"kid": kid})) is TokenFlaw.UNKNOWN_KEY


CARRIERS: Final = {
    "jwk": {"jwk": jwk_of(STRANGER, kid="k1")},
    "jwk, no kid": {"jwk": jwk_of(STRANGER), "kid": "evil"},
    "jku": {"jku": "https://evil.example/jwks"},
    "x5u": {"x5u": "https://evil.example/chain.pem"},
    "x5c": {"x5c": [b64encode(b"certificate").decode()]},
    "x5t": {"x5t": b64(sha256(b"certificate").digest())},
}


@pytest.mark.parametrize("members", CARRIERS.values(), ids=CARRIERS)
def test_a_key_in_the_header(members: dict[str, Any]) -> None:
    """RFC 8725 3.10, RFC 7515 4.1.2 to 4.1.8: what the token says of its key is not believed."""
    flaw = TokenFlaw.UNKNOWN_KEY if "kid" in members else TokenFlaw.SIGNATURE
    assert flaw_of(make_token(header=HEADER | members, key=STRANGER)) is flaw
    if "kid" not in members:
        assert flaw_of(make_token(header=HEADER | members)) is None


@pytest.mark.parametrize(
    "members",
    [
        *({"crit": ["b64"], "b64": False}, {"crit": ["exp"], "exp": 0}, {"crit": []}, {"crit": None}),
        *({"crit": ["http://example.invalid/UNDEFINED"], "http://example.invalid/UNDEFINED": True},),
    ],
)
def test_extensions_that_must_be_understood(members: dict[str, Any]) -> None:
    """CVE-2026-32597: a library did not look at ``crit``."""
    assert flaw_of(make_token(header=HEADER | members)) is TokenFlaw.MALFORMED


def test_a_payload_that_is_not_encoded() -> None:
    """RFC 7797: with ``b64`` the signature covers the payload itself."""
    header = part(HEADER | {"b64": False, "crit": ["b64"]})
    raw = json.dumps(claims_with()).encode()
    token = join(header + b"." + part(claims_with()), signature("RS256", RSA_KEY, header + b"." + raw))
    assert flaw_of(token) is TokenFlaw.MALFORMED
    header = part(HEADER | {"b64": False})
    token = join(header + b"." + part(claims_with()), signature("RS256", RSA_KEY, header + b"." + raw))
    assert flaw_of(token) is TokenFlaw.SIGNATURE
    assert parse_token(header + b"." + raw + b".AAAA") is None


@pytest.mark.parametrize("typ", ["JWT", "id+jwt", "logout+jwt", "secevent+jwt", "dpop+jwt", None, ""])
def test_a_token_for_another_purpose(typ: object) -> None:
    """RFC 8725 2.8, 3.11 and 3.12: where a type is required, another kind of token does not open the gate."""
    assert (
        flaw_of(make_token(header=HEADER | {"typ": typ}), entry_with(typ=["at+jwt"])) is TokenFlaw.MALFORMED
    )


def test_a_token_of_one_issuer_as_that_of_another() -> None:
    """RFC 8725 3.8: the keys of one issuer are not those of another, even if both have the same audience."""
    other = "https://other.example"
    claims = claims_with(iss=other)
    assert flaw_of(make_token(claims), keys=keys_for()) is TokenFlaw.MALFORMED
    assert flaw_of(make_token(claims), entry_with(issuer=other), keys_for()) is None
    theirs = keys_of(jwk_of(STRANGER, kid="k1"))
    assert flaw_of(make_token(claims), entry_with(issuer=other), theirs) is TokenFlaw.SIGNATURE


@pytest.mark.parametrize(
    "issuer",
    [ISSUER + "/", ISSUER.upper(), ISSUER + "\0", ISSUER[:-1], " " + ISSUER, [ISSUER], {"iss": ISSUER}],
)
def test_an_issuer_that_is_almost_ours(issuer: object) -> None:
    assert flaw_of(make_token(claims_with(iss=issuer))) is TokenFlaw.MALFORMED


@pytest.mark.parametrize("audience", ["other", ["other"], "mgw,other", "mgw other", [["mgw"]], None, [], {}])
def test_a_token_for_another_service(audience: object) -> None:
    """RFC 8725 2.7 and 3.9."""
    claims = claims_with() | {"aud": audience}
    assert flaw_of(make_token(claims)) is TokenFlaw.AUDIENCE


@pytest.mark.parametrize(
    "raw",
    [
        b'{"alg":"RS256","kid":"k1","alg":"none"}',
        b'{"alg":"none","alg":"RS256","kid":"k1"}',
        b'{"alg":"RS256","kid":"evil","kid":"k1"}',
        b'{"alg":"RS256","\\u0061lg":"RS256","kid":"k1"}',
    ],
)
def test_two_readings_of_a_header(raw: bytes) -> None:
    assert flaw_of(make_token(header=raw)) is TokenFlaw.MALFORMED


@pytest.mark.parametrize("name", ["iss", "aud", "exp", "sub"])
def test_two_readings_of_claims(name: str) -> None:
    claims = json_bytes(claims_with())
    same = claims[:-1] + b"," + json_bytes({name: claims_with()[name]})[1:]
    assert flaw_of(make_token(same)) is TokenFlaw.MALFORMED


def test_names_differ_in_case() -> None:
    claims = claims_with(exp=None) | {"Exp": claims_with()["exp"], "EXP": 4e9}
    assert flaw_of(make_token(claims)) is TokenFlaw.EXPIRED
    assert flaw_of(make_token(header={"Alg": "RS256", "alg ": "RS256", "kid": "k1"})) is TokenFlaw.ALGORITHM


def test_a_token_in_a_token() -> None:
    """RFC 7519 5.2: only the outer signature is checked, so a nested token is not one of ours."""
    inner = make_token()
    assert parse_token(make_token(inner, HEADER | {"cty": "JWT"})) is None
    assert parse_token(make_token(json_bytes(inner.decode()), HEADER | {"cty": "JWT"})) is None
    assert flaw_of(make_token({"token": inner.decode()})) is TokenFlaw.MALFORMED


def test_a_signature_over_another_payload() -> None:
    header, claims, made = make_token().split(b".")
    other = part(claims_with(sub="admin"))
    assert flaw_of(b".".join([header, other, made])) is TokenFlaw.SIGNATURE
    assert flaw_of(b".".join([part(HEADER | {"typ": "JWT"}), claims, made])) is TokenFlaw.SIGNATURE
    assert flaw_of(b".".join([header, claims, b""])) is TokenFlaw.SIGNATURE
    assert flaw_of(b".".join([header, claims, make_token(claims_with(sub="bob")).split(b".")[2]])) is (
        TokenFlaw.SIGNATURE
    )


def test_the_same_claims_in_another_form() -> None:
    """The signature covers the bytes that arrived, not what they mean."""
    header, _, made = make_token().split(b".")
    spaced = urlsafe_b64encode(json.dumps(claims_with(), indent=1).encode()).rstrip(b"=")
    assert flaw_of(b".".join([header, spaced, made])) is TokenFlaw.SIGNATURE


def test_a_stranger_signs() -> None:
    assert flaw_of(make_token(key=STRANGER)) is TokenFlaw.SIGNATURE


def test_encrypted_tokens_and_other_serializations_are_not_tokens() -> None:
    """RFC 7516 has five parts, and JSON forms have none."""
    assert (
        parse_token(b".".join([part({"alg": "RSA-OAEP", "enc": "A128GCM"}), b"A", b"A", b"A", b"A"])) is None
    )
    header, claims, made = (text.decode() for text in make_token().split(b"."))
    flattened = {"protected": header, "payload": claims, "signature": made}
    assert parse_token(json.dumps(flattened).encode()) is None


def empty_keys() -> KeySet:
    return KeySet(())


def test_a_set_without_keys_knows_no_key() -> None:
    assert flaw_of(make_token(), keys=empty_keys()) is TokenFlaw.UNKNOWN_KEY
    assert flaw_of(make_token(header={"alg": "RS256"}), keys=empty_keys()) is TokenFlaw.UNKNOWN_KEY
