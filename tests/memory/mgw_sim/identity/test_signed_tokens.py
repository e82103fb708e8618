"""Tokens of simulated identity providers: verified by the key set, with every algorithm and every flaw."""

from __future__ import annotations

import hashlib
import hmac
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mgw_sim.identity.keys import KIND_OF_ALGORITHM
from mgw_sim.identity.signed_tokens import FLAWS
from tests.memory.mgw_sim.identity.idp_in_memory import ISSUER, NOW, IdpInMemory, decoded, parts_of, verify

DOCS = Path(__file__).parents[4] / "docs" / "simulator.rst"


@pytest.fixture(scope="module")
def idp() -> IdpInMemory:
    return IdpInMemory()


def key_of(idp: IdpInMemory, key_id: str, path: str = "jwks") -> dict[str, str]:
    """The one key of a set that has an id."""
    [found] = [key for key in idp.get(path)["keys"] if key["kid"] == key_id]
    assert isinstance(found, dict)
    return found


def is_signed(idp: IdpInMemory, token: str, key_id: str) -> bool:
    try:
        verify(token, key_of(idp, key_id))
    except InvalidSignature:
        return False
    return True


@pytest.mark.parametrize("algorithm", KIND_OF_ALGORITHM)
def test_the_key_set_verifies_each_algorithm(idp: IdpInMemory, algorithm: str) -> None:
    token = idp.token(alg=algorithm)
    header, _ = parts_of(token)
    assert header == {"alg": algorithm, "kid": f"{KIND_OF_ALGORITHM[algorithm]}-1", "typ": "JWT"}
    verify(token, key_of(idp, header["kid"]))
    others = idp.token(alg=algorithm, claims={"sub": "bob"}).rpartition(".")[0]
    with pytest.raises(InvalidSignature):
        verify(f"{others}.{token.rpartition('.')[2]}", key_of(idp, header["kid"]))


def test_the_key_set_is_public_and_binds_no_algorithm(idp: IdpInMemory) -> None:
    keys = idp.get("jwks")["keys"]
    assert [(key["kty"], key.get("crv")) for key in keys] == [
        ("RSA", None),
        ("EC", "P-256"),
        ("EC", "P-384"),
        ("EC", "P-521"),
        ("OKP", "Ed25519"),
    ]
    assert len(decoded(keys[0]["n"])) == 256
    assert {key["use"] for key in keys} == {"sig"}
    assert not any(key.keys() & {"d", "p", "q", "alg"} for key in keys)


class TestClaims:
    """What a test may say of claims and header."""

    def test_the_usual_ones(self, idp: IdpInMemory) -> None:
        _, claims = parts_of(idp.token())
        usual = {"iss": ISSUER, "sub": "alice", "aud": "mgw", "iat": NOW, "exp": NOW + 3600}
        assert claims == usual
        assert all(type(claims[name]) is int for name in ("iat", "exp"))

    def test_others_are_added_or_replace_them(self, idp: IdpInMemory) -> None:
        wanted = {"sub": "ann@x", "aud": ["a", "b"], "/realm": {"roles": ["r"]}, "exp": True, "n": None}
        _, claims = parts_of(idp.token(claims=wanted))
        assert wanted.items() <= claims.items()

    def test_a_lifetime_may_be_over(self, idp: IdpInMemory) -> None:
        assert parts_of(idp.token(expires_in=-5))[1]["exp"] == NOW - 5

    def test_a_claim_is_left_out(self, idp: IdpInMemory) -> None:
        assert parts_of(idp.token(without=["exp", "sub"]))[1].keys() == {"iss", "aud", "iat"}

    def test_a_payload_is_signed_as_it_stands(self, idp: IdpInMemory) -> None:
        token = idp.token(payload='{"exp": 1.8e9, "exp":1}')
        assert decoded(token.split(".")[1]) == b'{"exp": 1.8e9, "exp":1}'
        assert is_signed(idp, token, "rsa-1")

    def test_the_header_is_what_is_asked_for(self, idp: IdpInMemory) -> None:
        header, _ = parts_of(idp.token(typ="at+jwt", kid="other", header={"x": 1}))
        assert header == {"alg": "RS256", "kid": "other", "typ": "at+jwt", "x": 1}
        assert "typ" not in parts_of(idp.token(typ=None))[0]


class TestFlaws:
    """Each flaw has what its name says."""

    def test_an_unsigned_token(self, idp: IdpInMemory) -> None:
        token = idp.token(flaw="none")
        assert parts_of(token)[0]["alg"] == "none"
        assert token.endswith(".")

    def test_a_missing_signature(self, idp: IdpInMemory) -> None:
        token = idp.token(flaw="no-signature")
        assert parts_of(token)[0]["alg"] == "RS256"
        assert token.endswith(".")

    def test_the_public_key_as_a_secret(self, idp: IdpInMemory) -> None:
        token = idp.token(flaw="hs256-with-public-key")
        jwk = key_of(idp, "rsa-1")
        numbers = RSAPublicNumbers(int.from_bytes(decoded(jwk["e"])), int.from_bytes(decoded(jwk["n"])))
        pem = numbers.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        signed, _, signature = token.rpartition(".")
        assert parts_of(token)[0]["alg"] == "HS256"
        assert decoded(signature) == hmac.digest(pem, signed.encode(), hashlib.sha256)

    @pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
    @pytest.mark.parametrize("flaw", ["bad-signature", "foreign-key", "jwk"])
    def test_a_signature_of_no_key_of_the_set(self, idp: IdpInMemory, flaw: str, algorithm: str) -> None:
        token = idp.token(flaw=flaw, alg=algorithm)
        assert not is_signed(idp, token, f"{KIND_OF_ALGORITHM[algorithm]}-1")

    def test_a_key_that_the_token_brings_along(self, idp: IdpInMemory) -> None:
        token = idp.token(flaw="jwk")
        verify(token, parts_of(token)[0]["jwk"])

    def test_an_address_of_keys_that_the_token_names(self, idp: IdpInMemory) -> None:
        token = idp.token(flaw="jku")
        header, _ = parts_of(token)
        assert header["jku"] == header["x5u"] == f"{ISSUER}/foreign-jwks"
        verify(token, key_of(idp, header["kid"], "foreign-jwks"))
        assert header["kid"] not in {key["kid"] for key in idp.get("jwks")["keys"]}

    def test_a_critical_member(self, idp: IdpInMemory) -> None:
        token = idp.token(flaw="crit")
        assert parts_of(token)[0].items() >= {"crit": ["sim"], "sim": True}.items()
        assert is_signed(idp, token, "rsa-1")

    @pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512"])
    def test_a_signature_in_der(self, idp: IdpInMemory, algorithm: str) -> None:
        numbers = decode_dss_signature(decoded(idp.token(flaw="der", alg=algorithm).rpartition(".")[2]))
        assert len(numbers) == 2

    def test_no_id_of_a_key_and_an_unknown_one(self, idp: IdpInMemory) -> None:
        without, unknown = idp.token(flaw="no-kid"), idp.token(flaw="unknown-kid")
        assert "kid" not in parts_of(without)[0]
        assert parts_of(unknown)[0]["kid"].startswith("unknown-")
        assert parts_of(unknown)[0]["kid"] != parts_of(idp.token(flaw="unknown-kid"))[0]["kid"]
        assert is_signed(idp, without, "rsa-1")
        assert is_signed(idp, unknown, "rsa-1")

    @pytest.mark.parametrize(
        ("flaw", "claim", "value"),
        [
            ("expired", "exp", NOW - 7200),
            ("not-yet-valid", "nbf", NOW + 7200),
            ("wrong-issuer", "iss", "https://another-issuer.example"),
            ("wrong-audience", "aud", "another-audience"),
        ],
    )
    def test_a_claim_is_wrong(self, idp: IdpInMemory, flaw: str, claim: str, value: Any) -> None:
        token = idp.token(flaw=flaw)
        assert parts_of(token)[1][claim] == value
        assert is_signed(idp, token, "rsa-1")

    def test_a_token_that_is_too_long(self, idp: IdpInMemory) -> None:
        token = idp.token(flaw="too-long")
        assert len(token) > 16384
        assert is_signed(idp, token, "rsa-1")

    def test_each_is_documented(self) -> None:
        section = DOCS.read_text().partition("\nIdentity providers\n")[2].partition("\nAmazon\n")[0]
        table = section.partition("Flaw ")[2].partition("\n\n")[0]
        names = re.findall(r"^``([a-z0-9-]+)``(?:, ``([a-z0-9-]+)``)?", table, re.MULTILINE)
        assert {name for pair in names for name in pair if name} == set(FLAWS)


@pytest.mark.parametrize(
    "wanted", [{"alg": "HS256"}, {"flaw": "odd"}, {"claim": {}}, {"claims": 1}, {"expires_in": "1"}], ids=str
)
def test_what_is_not_understood_is_refused(idp: IdpInMemory, wanted: dict[str, object]) -> None:
    status, said = idp.post("token", wanted)
    assert (status, said["error"]) == (400, "invalid_request")


def test_json_that_is_sent_as_a_form_is_told_to_be_sent_as_json() -> None:
    idp = IdpInMemory()
    form = "application/x-www-form-urlencoded"
    answer, _ = idp.ask("POST", f"{idp.root}/token", b' {"claims": {}}', content_type=form)
    assert answer.status == 400
    assert b"send the JSON with Content-Type: application/json" in answer.body
