"""The canonical request of SigV4, held to AWS's own test suite (aws-signing-test-suite, form ``header``)."""

from __future__ import annotations

import json
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import Any, Final

import pytest

from mgw.credentials.aws.canonical import (
    canonical_path,
    canonical_query,
    canonical_request,
    encoded_query,
)
from mgw.credentials.aws.signer import signing_key
from mgw.nouns.secret import Secret

VECTORS: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[3] / "support" / "sigv4_vectors.json").read_text(encoding="utf-8")
)
STAMP: Final = b"20150830T123600Z"
SCOPE: Final = (b"20150830", b"us-east-1", b"service")
SECRET: Final = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


def headers_of(vector: dict[str, Any], payload_hash: bytes) -> list[tuple[bytes, bytes]]:
    """The headers that the vector signs."""
    signed = vector["signed"].split(";")
    pairs = [(name.encode(), value.encode()) for name, value in vector["headers"]]
    pairs += [
        (b"X-Amz-Date", STAMP),
        (b"X-Amz-Content-Sha256", payload_hash),
        (b"X-Amz-Security-Token", vector.get("token", "").encode()),
    ]
    return [pair for pair in pairs if pair[0].decode().lower() in signed]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_request_is_signed_as_in_the_test_suite_of_aws(vector: dict[str, Any]) -> None:
    payload_hash = sha256(vector["body"].encode()).hexdigest().encode()
    method, target = vector["method"].encode(), vector["target"].encode()
    found = canonical_request(method, target, headers_of(vector, payload_hash), payload_hash)
    assert found.decode() == vector["canonical"]
    scope = b"/".join((*SCOPE, b"aws4_request"))
    to_sign = b"\n".join((b"AWS4-HMAC-SHA256", STAMP, scope, sha256(found).hexdigest().encode()))
    assert digest(signing_key(SECRET, *SCOPE), to_sign, "sha256").hex() == vector["signature"]


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        (b"", b"/"),
        (b"/", b"/"),
        (b"/model/a:b/invoke", b"/model/a%3Ab/invoke"),
        (b"/model/a%3Ab/invoke", b"/model/a%253Ab/invoke"),
        (b"/model/arn%3Aaws%2Fx", b"/model/arn%253Aaws%252Fx"),
        (b"/a/./b//c/../d/", b"/a/b/d/"),
        (b"/../..", b"/"),
        (b"/a/..", b"/"),
        (b"/a/%2E%2E/b", b"/a/%252E%252E/b"),
        (b"/~-._", b"/~-._"),
    ],
)
def test_a_path_is_encoded_once_more_than_it_was_sent(path: bytes, canonical: bytes) -> None:
    assert canonical_path(path) == canonical


@pytest.mark.parametrize(
    ("query", "canonical"),
    [
        (b"", b""),
        (b"b=1&a=2", b"a=2&b=1"),
        (b"a=2&a=1&a", b"a=&a=1&a=2"),
        (b"Param-3=1&Param=2", b"Param=2&Param-3=1"),
        (b"a=1=2", b"a=1=2"),
        (b"a&&b", b"=&a=&b="),
        (b"a=%2f&a=+", b"a=%2f&a=+"),
    ],
)
def test_the_pairs_of_a_query_are_sorted_as_they_were_sent(query: bytes, canonical: bytes) -> None:
    assert canonical_query(query) == canonical


@pytest.mark.parametrize(
    ("sent", "encoded"),
    [
        (b"limit=20&after=a", b"limit=20&after=a"),
        (b"b=2&a=1&a=0", b"b=2&a=1&a=0"),
        (b"a=x+y", b"a=x%20y"),
        (b"a[]=1&a%5b%5d=2", b"a%5B%5D=1&a%5B%5D=2"),
        (b"a=%2f%7E%2B", b"a=%2F~%2B"),
        (b"a=b=c", b"a=b%3Dc"),
        (b"a==", b"a=%3D"),
        (b"&a&&b=", b"a&b="),
        (b"a=%ff\xe9%zz", b"a=%FF%E9%25zz"),
        (b"", b""),
    ],
)
def test_a_query_is_sent_in_the_encoding_that_hosts_sign(sent: bytes, encoded: bytes) -> None:
    assert encoded_query(sent) == encoded
    assert encoded_query(encoded) == encoded
