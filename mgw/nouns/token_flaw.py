"""What is wrong with a token of an identity provider, as refusals and metrics name it."""

from __future__ import annotations

from enum import StrEnum


class TokenFlaw(StrEnum):
    """The first check that a token does not pass."""

    MALFORMED = "malformed"
    ALGORITHM = "algorithm"
    """It is signed with an algorithm that its issuer's entry does not allow."""
    UNKNOWN_KEY = "unknown_key"
    KEYS_UNAVAILABLE = "keys_unavailable"
    """The issuer's keys are not known: the token may be valid."""
    SIGNATURE = "signature"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    AUDIENCE = "audience"
    CLAIMS = "claims"
    """It does not name its client."""
    NO_RULE = "no_rule"
    """It is valid, but no rule admits it."""
