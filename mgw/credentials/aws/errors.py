"""AWS's names of the refusals after which a request is signed and sent once more."""

from __future__ import annotations

from typing import Final

EXPIRED: Final = frozenset(
    {"ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId"}
)
"""The keys are not, or no longer, good: others may be."""
SKEWED: Final = frozenset({"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"})
"""The time of a signature is too far from the host's."""
MAYBE_SKEWED: Final = frozenset({"InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure"})
"""A signature is wrong, which its time may be the reason for."""
STATUSES: Final = frozenset({400, 403})
"""The statuses of all of them."""
