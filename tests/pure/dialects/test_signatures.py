"""Signatures that travel through other families' histories."""

from __future__ import annotations

import string
from base64 import b64decode, b64encode, urlsafe_b64encode

import pytest
from google.genai._common import encode_unserializable_types
from google.genai.types import Part
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.canonical.conversation import Signature
from mgw.dialects.signatures import (
    SKIP_VALIDATOR,
    TAG,
    Digest,
    is_altered,
    is_tagged,
    tag_signature,
    untag_signature,
)
from mgw.nouns.vocabulary import Family

FAMILIES = st.sampled_from(Family)
VALUES = (
    st.text()
    | st.text(st.characters(categories=["Cs", "Ll"]))  # json.loads lets lone surrogates in
    | st.text(string.ascii_letters + string.digits + "+/-_=", max_size=9)
    | st.binary(min_size=1).map(lambda data: b64encode(data).decode())
    | st.binary(min_size=1).map(lambda data: urlsafe_b64encode(data).decode())
)
SIGNATURES = st.builds(Signature, FAMILIES, VALUES, st.booleans())


def through_bytes(text: str) -> str:
    """What a client makes of it that reads the field as bytes and writes the URL-safe alphabet."""
    return urlsafe_b64encode(b64decode(text, validate=True)).decode()


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (Signature(Family.ANTHROPIC, "EwIB"), "bWd3c2lnYXJ0EwIB"),
        (Signature(Family.GEMINI, "EwI="), "bWd3c2lnZ3J0EwI="),
        (Signature(Family.OPENAI, ""), "bWd3c2lnb2V0"),
        (Signature(Family.OPENAI, "gAA-_"), "bWd3c2lnb2V0Z0FBLV8="),
        (Signature(Family.ANTHROPIC, "EwIB", redacted=True), "bWd3c2lnYXJ4EwIB"),
    ],
)
def test_a_tagged_signature_is_spelled_as_it_always_was(signature: Signature, text: str) -> None:
    assert tag_signature(signature) == text


@given(signature=SIGNATURES, native=FAMILIES, redacted=st.booleans())
@example(signature=Signature(Family.OPENAI, ""), native=Family.GEMINI, redacted=False)
@example(signature=Signature(Family.OPENAI, "YQ=="), native=Family.GEMINI, redacted=False)
@example(
    signature=Signature(Family.OPENAI, "YR=="), native=Family.GEMINI, redacted=False
)  # not as an encoder writes it
@example(signature=Signature(Family.OPENAI, "é==="), native=Family.GEMINI, redacted=False)
def test_a_tagged_signature_comes_back_as_it_was(
    signature: Signature, native: Family, redacted: bool
) -> None:
    assert untag_signature(tag_signature(signature), native, redacted=redacted) == signature


@given(signature=SIGNATURES)
@example(Signature(Family.GEMINI, "++//"))
def test_it_survives_clients_that_read_it_as_bytes(signature: Signature) -> None:
    text = through_bytes(tag_signature(signature))
    assert is_tagged(text)
    assert untag_signature(text, Family.GEMINI) == signature
    assert untag_signature(text.rstrip("="), Family.GEMINI) == signature


@given(signature=SIGNATURES)
@example(Signature(Family.OPENAI, "YR=="))
def test_it_is_base64_as_an_encoder_writes_it(signature: Signature) -> None:
    text = tag_signature(signature)
    assert b64encode(b64decode(text, validate=True)).decode() == text
    assert text.startswith(TAG)
    assert b64decode(TAG) == b"mgwsig"


@given(signature=SIGNATURES, outer=FAMILIES)
def test_a_gateway_behind_a_gateway_gets_its_own_tag_back(signature: Signature, outer: Family) -> None:
    inner = tag_signature(signature)
    assert untag_signature(tag_signature(Signature(outer, inner)), Family.GEMINI) == Signature(outer, inner)


@given(text=VALUES.filter(lambda value: TAG not in value), native=FAMILIES, redacted=st.booleans())
def test_without_a_tag_it_is_the_native_familys(text: str, native: Family, redacted: bool) -> None:
    assert not is_tagged(text)
    assert untag_signature(text, native, redacted=redacted) == Signature(native, text, redacted)


@pytest.mark.parametrize(
    "damaged",
    [
        TAG,
        TAG + "YXJ",
        TAG + "YXJ0",  # raw, and empty
        TAG + "enp6EwIB",
        TAG + "YXJ0EwIBx",
        TAG + "YXJ0EwI\n",
        TAG + "YXJ0Ew=B",
        TAG + "YXJ0é",
        TAG + "YWV0/w==",  # no UTF-8
        TAG + "YWV0!",
        "EwIB" + TAG + "YXJ0EwIB",
        " " + TAG + "YXJ0EwIB",
        "EwIBEwIBYXJ0" + TAG,
    ],
)
def test_a_damaged_tag_is_nobodys(damaged: str) -> None:
    assert is_tagged(damaged)
    for native in Family:
        assert untag_signature(damaged, native) is None


@pytest.mark.parametrize("text", [SKIP_VALIDATOR, tag_signature(Signature(Family.ANTHROPIC, "no base64, é"))])
def test_googles_sdk_gives_back_what_we_wrote(text: str) -> None:
    part = Part.model_validate({"text": "", "thoughtSignature": text})
    sent = encode_unserializable_types(part.model_dump(exclude_none=True))
    assert sent["thought_signature"] == text


WORDS = st.text() | st.text(st.characters(categories=["Cs", "Ll"]))


@given(signature=SIGNATURES, words=WORDS, other=WORDS)
def test_a_tag_tells_altered_words(signature: Signature, words: str, other: str) -> None:
    text = tag_signature(signature, words)
    for spelled in (text, through_bytes(text), text.rstrip("=")):
        assert untag_signature(spelled, Family.GEMINI) == signature
        assert not is_altered(spelled, words)
        assert is_altered(spelled, other) is (other != words and not signature.redacted)
    assert b64encode(b64decode(text, validate=True)).decode() == text


@given(pieces=st.lists(st.text(max_size=4)))
def test_words_that_come_in_pieces_have_the_same_digest(pieces: list[str]) -> None:
    digest = Digest()
    for piece in pieces:
        digest.add(piece)
    signature = Signature(Family.GEMINI, "EwIB")
    assert tag_signature(signature, digest) == tag_signature(signature, "".join(pieces))


def test_nothing_is_known_of_the_words_beside_a_tag_without_a_digest_or_a_vendors_own_signature() -> None:
    assert not is_altered(tag_signature(Signature(Family.GEMINI, "EwIB")), "any")
    assert not is_altered("EwIB", "any")


def test_a_digest_costs_eight_characters() -> None:
    signature = Signature(Family.GEMINI, "EwIB")
    assert len(tag_signature(signature, "word " * 1000)) == len(tag_signature(signature)) + 8


@pytest.mark.parametrize(
    "damaged",
    [TAG + "Z3Jk", TAG + "Z3JkAAAA", TAG + "Z2VkAAA=", TAG + "Z3JkAAAAAAAA", TAG + "Z3JkAAAAAAA=EwIB"],
)
def test_a_damaged_digest_is_nobodys(damaged: str) -> None:
    assert untag_signature(damaged, Family.GEMINI) is None
    assert is_altered(damaged, "")
