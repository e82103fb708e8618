"""What a reasoning item holds comes back as it was, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.conversation import Signature
from mgw.dialects.responses.thoughts import (
    UNSIGNED,
    Sealed,
    seal_call_signature,
    seal_text_signature,
    seal_thought,
    unseal,
)
from mgw.dialects.signatures import TagKind
from mgw.nouns.vocabulary import Family

SIGNATURES = st.builds(Signature, st.sampled_from(Family), st.text(max_size=40))


@given(st.text(max_size=40), SIGNATURES)
def test_a_thought_comes_back_with_its_words_and_its_signature(words: str, signature: Signature) -> None:
    assert unseal(seal_thought(words, signature)) == Sealed(TagKind.THOUGHT, signature, words)


@given(SIGNATURES)
def test_a_signature_comes_back_with_what_it_belongs_to(signature: Signature) -> None:
    assert unseal(seal_call_signature(signature)) == Sealed(TagKind.ADJACENT, signature)
    assert unseal(seal_text_signature(signature)) == Sealed(TagKind.PRECEDING, signature)


def test_a_redacted_thought_has_no_words() -> None:
    redacted = Signature(Family.ANTHROPIC, "c2VjcmV0", redacted=True)
    assert unseal(seal_thought("", redacted)) == Sealed(TagKind.REDACTED, redacted)


def test_a_thought_that_nobody_signed_is_of_a_host() -> None:
    assert unseal(seal_thought("Hm.", None)) == Sealed(TagKind.THOUGHT, UNSIGNED, "Hm.")


SEALED = seal_thought("I see.", Signature(Family.ANTHROPIC, "c2ln"))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "gAAAAABpabc",
        SEALED.partition(".")[0],
        SEALED.replace(".", ".A"),
        SEALED + "AAAA",
        SEALED.replace(".", "", 1),
        seal_call_signature(UNSIGNED) + ".SQ==",
    ],
)
def test_what_is_not_the_gateways_or_was_altered_is_nothing(content: str) -> None:
    assert unseal(content) is None
