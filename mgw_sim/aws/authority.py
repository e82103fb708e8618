"""The keys that the simulator knows: those that it was started with, and those that it has issued.

It verifies signatures once it knows a key from outside.  ``x-sim-aws`` (or the word in a model's name) makes
a good signature fail: ``expired`` refuses the first key that asks with this model, ``deny`` every one, and
``skew-600`` sets the simulator's clock ten minutes ahead.
"""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Final

from mgw_sim.api import ApiError
from mgw_sim.aws.errors import AwsError
from mgw_sim.aws.signature import KeyPair, Scope, read_signature, verify
from mgw_sim.faults import Faults
from mgw_sim.recording import RecordedRequest

USUAL_SECONDS: Final = 3600.0
MAX_KEYS: Final = 10_000
"""How many issued keys are remembered; the oldest go first."""
MODEL_SERVICES: Final = frozenset({"bedrock", "bedrock-mantle", "aws-external-anthropic"})
BEDROCK: Final = frozenset({"bedrock"})
STS: Final = frozenset({"sts"})
_REGION: Final = re.compile(r"@([a-z]{2,8}(?:-[a-z]{2,16}){1,3}-[0-9]{1,2})\Z")
_SKEW: Final = re.compile(r"skew-(-?\d{1,8})")


def read_key(text: str) -> KeyPair:
    """Read ``KEYID:SECRET`` or ``KEYID:SECRET:TOKEN``, with ``@REGION`` behind it.  Raises ValueError."""
    region = None
    if (found := _REGION.search(text)) is not None:  # secrets and tokens of AWS have no @
        text, region = text[: found.start()], found[1]
    key_id, secret, token = [*text.split(":", 2), ""][:3] if ":" in text else ("", "", "")
    if not re.fullmatch(r"[\w-]+", key_id) or not secret:
        raise ValueError("expected KEYID:SECRET or KEYID:SECRET:TOKEN, and @REGION behind it if it matters")
    return KeyPair(key_id, secret, token or None, region=region)


@dataclass(slots=True)
class AwsAuthority:
    """Issues keys, and knows which of them are good."""

    now: Callable[[], float]
    fixed: tuple[KeyPair, ...] = ()
    _issued: dict[str, KeyPair] = field(default_factory=dict)
    _expired: dict[str, str] = field(default_factory=dict)
    """The key that ``expired`` refuses, by model."""
    _count: int = 0

    @property
    def verifies(self) -> bool:
        """Whether signatures are verified."""
        return bool(self.fixed)

    def find(self, key_id: str) -> KeyPair | None:
        """The key of an id."""
        return next((key for key in self.fixed if key.key_id == key_id), None) or self._issued.get(key_id)

    def issue(self, seconds: float) -> KeyPair:
        """Return a new key of a session; its life is counted from now."""
        self._count += 1
        key = KeyPair(
            f"ASIASIM{self._count:09d}",
            secrets.token_urlsafe(30),
            f"simulated/{secrets.token_urlsafe(90)}",
            self.now() + seconds,
        )
        self._issued[key.key_id] = key
        if len(self._issued) > MAX_KEYS:
            del self._issued[next(iter(self._issued))]
        return key

    def date(self, faults: Faults) -> tuple[str, str]:
        """The header ``Date`` of a response."""
        return "Date", formatdate(self._clock(faults), usegmt=True)

    def check(
        self, request: RecordedRequest, faults: Faults, model: str, services: frozenset[str]
    ) -> str | None:
        """Return the id of the key that a request is signed with, None where it has no signature.

        Raises ApiError where it is not to be answered.
        """
        key_id = self._key_id(request, faults, services)
        word = faults.text("aws")
        if word == "deny":
            raise AwsError(
                "AccessDeniedException", "You don't have access to the model with the specified model ID."
            )
        if word == "expired" and key_id == self._expired.setdefault(model, key_id or ""):
            raise AwsError("ExpiredTokenException", "The security token included in the request is expired")
        if word is not None and word not in {"deny", "expired"} and not _SKEW.fullmatch(word):
            raise ApiError(400, "sim-aws: expected expired, deny or skew-SECONDS")
        return key_id

    def _key_id(self, request: RecordedRequest, faults: Faults, services: frozenset[str]) -> str | None:
        if self.verifies:
            regions = frozenset({key.region for key in self.fixed if key.region is not None})
            return verify(request, self.find, self._clock(faults), Scope(services, regions)).key_id
        for name, value in request.headers:
            signature = read_signature(value) if name.lower() == "authorization" else None
            if signature is not None:
                return signature.key_id
        return None

    def _clock(self, faults: Faults) -> float:
        skew = _SKEW.fullmatch(faults.text("aws") or "")
        return self.now() + (int(skew[1]) if skew else 0)
