"""Requests that are sent once more because of how they were signed, and how often that was so.

A signature may be refused because the host's clock is another than ours, or because the keys are no longer
good.  Each is mended at most once for a request, before its client has seen anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from msgspec import Struct

from mgw.credentials.provider import Credential, CredentialProvider, CredentialRefusal
from mgw.credentials.signing import Signing

REFUSALS: Final = frozenset({400, 403})
"""The statuses that a signature is refused with."""


class Again(StrEnum):
    """Why a request is sent once more."""

    CLOCK = "clock"
    """It was signed in another time than the host's."""
    EXPIRED = "expired"
    """The keys were no longer good."""
    BETAS = "betas"
    """The host does not know a beta that it named."""


class AnotherTry(Struct, frozen=True):
    """A request is sent once more."""

    credential: Credential
    """What signs it; the same one for another time."""
    reason: Again


@dataclass(slots=True, eq=False, repr=False)
class SignedAgain:
    """How often requests were sent once more, by provider and reason."""

    _counts: Counter[tuple[str, Again]] = field(default_factory=Counter)

    def note(self, provider: str, reason: Again) -> None:
        """Count one more."""
        self._counts[provider, reason] += 1

    def rows(self) -> Iterable[tuple[tuple[str, Again], int]]:
        """Return the counts of what has happened so far."""
        return self._counts.items()


async def another_try(
    credentials: CredentialProvider,
    credential: Credential,
    signing: Signing,
    refusal: CredentialRefusal,
    before: Collection[Again],
) -> AnotherTry | None:
    """Return what to send a refused request with once more; ``None``: the refusal is the client's.

    :param before: the reasons for which the request was sent once more already.
    """
    if Again.CLOCK not in before and signing.signer.signs_otherwise(refusal, signing.correction):
        return AnotherTry(credential, Again.CLOCK)
    if Again.EXPIRED in before or not credentials.refusable(refusal.status):
        return None
    renewed = await credentials.refused(credential, refusal)
    return None if renewed is None else AnotherTry(renewed, Again.EXPIRED)
