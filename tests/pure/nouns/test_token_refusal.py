"""What the refusal of a token says to its client."""

from __future__ import annotations

import pytest

from mgw.nouns.token_flaw import TokenFlaw
from mgw.nouns.token_refusal import TokenRefusedError


@pytest.mark.parametrize("flaw", [flaw for flaw in TokenFlaw if flaw is not TokenFlaw.MALFORMED])
def test_it_says_what_to_do(flaw: TokenFlaw) -> None:
    said = str(TokenRefusedError(flaw, "corp", "what is wrong"))
    wrong, _, advice = said.partition(": ")
    assert (wrong, bool(advice)) == ("what is wrong", True)


def test_a_malformed_token_only_says_how() -> None:
    assert str(TokenRefusedError(TokenFlaw.MALFORMED, "corp", "what is wrong")) == "what is wrong"
