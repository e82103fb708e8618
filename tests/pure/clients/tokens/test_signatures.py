"""Signatures and keys of the RFCs' examples, and what a signature must not be."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from mgw.clients.tokens.key_set import parse_key_set
from mgw.clients.tokens.signatures import is_signature
from tests.support.signed_tokens import (
    ALGORITHMS,
    HASHES,
    b64,
    jwk_of,
    key_for,
    keys_of,
    raw_signature,
    signature,
)

VECTORS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "support/token_vectors.json").read_text(encoding="utf-8")
)
SIGNATURES: Final = [pytest.param(one, id=one["source"]) for one in VECTORS["signatures"]]


def cut(vector: dict[str, Any]) -> tuple[bytes, bytes]:
    signed, _, text = vector["token"].rpartition(".")
    return signed.encode(), urlsafe_b64decode(text + "==")


@pytest.mark.parametrize("vector", SIGNATURES)
def test_an_example_of_an_rfc_is_valid_and_with_any_other_byte_it_is_not(vector: dict[str, Any]) -> None:
    [key] = keys_of(vector["key"]).keys
    signed, made = cut(vector)
    algorithm = vector["algorithm"]
    assert key.has_signed(algorithm, signed, made)
    assert not key.has_signed(algorithm, signed + b"A", made)
    for place in (0, len(made) // 2, len(made) - 1):
        other = bytearray(made)
        other[place] ^= 1
        assert not key.has_signed(algorithm, signed, bytes(other))


def test_keys_of_rfc_7517_are_read_and_the_one_for_encryption_is_not() -> None:
    found = parse_key_set(json.dumps(VECTORS["rfc7517_a1"]).encode())
    [key] = found.keys
    assert (key.key_id, set(key.algorithms), found.left_out) == ("2011-04-29", {"RS256"}, ())
    assert b64(key.thumbprint) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"  # RFC 7638 3.1


def test_the_thumbprint_of_rfc_8037() -> None:
    [vector] = [one for one in VECTORS["signatures"] if one["source"] == "RFC 8037 A.4"]
    [key] = keys_of(vector["key"]).keys
    assert b64(key.thumbprint) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"  # RFC 8037 A.3


def test_private_members_are_not_kept() -> None:
    document = json.dumps(VECTORS["rfc7517_a2"]).encode()
    private = [value for key in VECTORS["rfc7517_a2"]["keys"] for name, value in key.items() if name == "d"]
    found = parse_key_set(document)
    assert [key.key_id for key in found.keys] == ["2011-04-29"]
    assert private
    assert not hasattr(found.keys[0].public, "private_numbers")
    assert not any(value in repr((found.keys, found.left_out)) for value in private)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_holds_for_its_algorithm_alone(algorithm: str) -> None:
    [key] = keys_of(jwk_of(key_for(algorithm))).keys
    made = signature(algorithm, key_for(algorithm), b"a.b")
    same = {"EdDSA", "Ed25519"} if algorithm in ("EdDSA", "Ed25519") else {algorithm}
    assert {one for one in ALGORITHMS if is_signature(one, key.public, b"a.b", made)} == same
    assert not is_signature(algorithm, key.public, b"a.c", made)


@pytest.mark.parametrize(("algorithm", "curve"), [("ES256", "ES384"), ("ES384", "ES256"), ("ES512", "ES384")])
def test_an_algorithm_has_its_curve(algorithm: str, curve: str) -> None:
    """A signature with the hash of one and the curve of the other belongs to no algorithm."""
    key = key_for(curve)
    assert isinstance(key, EllipticCurvePrivateKey)
    der = key.sign(b"a.b", ECDSA(HASHES[algorithm[2:]]))
    made = raw_signature(der, (key.key_size + 7) // 8)
    assert not is_signature(algorithm, key.public_key(), b"a.b", made)


def test_a_key_has_signed_only_with_algorithms_that_it_suits() -> None:
    [key] = keys_of(jwk_of(key_for("RS256"), alg="RS256")).keys
    for algorithm in ("RS256", "RS384", "PS256"):
        made = signature(algorithm, key_for("RS256"), b"a.b")
        assert key.has_signed(algorithm, b"a.b", made) is (algorithm == "RS256")
    assert not key.has_signed("none", b"a.b", b"")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("change", ["none", "shorter", "longer", "zero before", "zero within"])
def test_a_signature_of_another_length_is_not_valid(algorithm: str, change: str) -> None:
    [key] = keys_of(jwk_of(key_for(algorithm))).keys
    made = signature(algorithm, key_for(algorithm), b"a.b")
    half = len(made) // 2
    other = {
        "none": b"",
        "shorter": made[:-1],
        "longer": made + b"\0",
        "zero before": b"\0" + made,
        "zero within": made[:half] + b"\0" + made[half:],
    }[change]
    assert not key.has_signed(algorithm, b"a.b", other)


def test_the_bits_of_an_rsa_key_need_not_fill_its_bytes() -> None:
    key = generate_private_key(65537, 2050)
    made = signature("RS256", key, b"a.b")
    assert len(made) == 257
    assert keys_of(jwk_of(key)).keys[0].has_signed("RS256", b"a.b", made)
