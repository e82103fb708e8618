"""The refusals of tokens that an identity provider has signed, and the challenge beside them (RFC 6750 3)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.token_flaw import TokenFlaw

RETRY_SECONDS: Final = 5.0
"""When a token may be tried again whose issuer's keys are not known."""

_ADVICE: Final = MappingProxyType(
    {
        TokenFlaw.KEYS_UNAVAILABLE: "try again in a few seconds",
        TokenFlaw.EXPIRED: "get a new one from its issuer",
        TokenFlaw.NOT_YET_VALID: "check the clocks of the issuer and of this gateway",
        TokenFlaw.AUDIENCE: "ask its issuer for one for this gateway",
        TokenFlaw.ALGORITHM: "ask the operator of this gateway which ones are",
        TokenFlaw.SIGNATURE: "send it unchanged, as its issuer gave it",
        TokenFlaw.UNKNOWN_KEY: "get a new one from its issuer, or try again in a minute",
        TokenFlaw.CLAIMS: "ask the operator of this gateway which claim that is",
        TokenFlaw.NO_RULE: "ask the operator of this gateway for access",
    }
)
_REASONS: Final = MappingProxyType(
    {TokenFlaw.KEYS_UNAVAILABLE: Reason.NO_ISSUER_KEYS, TokenFlaw.NO_RULE: Reason.ACCESS_DENIED}
)
_CODES: Final = MappingProxyType(
    {Reason.INVALID_TOKEN: "invalid_token", Reason.ACCESS_DENIED: "insufficient_scope"}
)


class TokenRefusedError(GatewayError):
    """The refusal of a token of a configured issuer.

    :param issuer: the name of the issuer's entry, for metrics and the log.
    :param what: what is wrong, in words without quotes: no value of the token or of the configuration.
    """

    def __init__(self, flaw: TokenFlaw, issuer: str, what: str) -> None:
        reason = _REASONS.get(flaw, Reason.INVALID_TOKEN)
        retry_after = RETRY_SECONDS if reason is Reason.NO_ISSUER_KEYS else None
        advice = _ADVICE.get(flaw)
        super().__init__(reason, what if advice is None else f"{what}: {advice}", retry_after=retry_after)
        self.flaw = flaw
        self.issuer = issuer
        code = _CODES.get(reason)
        if code is not None:
            self.challenge = f'Bearer realm="mgw", error="{code}", error_description="{what}"'.encode()
