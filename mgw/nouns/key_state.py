"""What has become of a gateway key: whether it opens the gate, and why not."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from mgw.nouns.errors import Cause, GatewayError, Reason


class KeyState(StrEnum):
    """The state of a key, as commands and metrics name it."""

    ACTIVE = "active"
    EXPIRED = "expired"
    DISABLED = "disabled"
    REVOKED = "revoked"
    """Neither the configuration nor a file has it any more."""
    INVALID = "invalid"
    """Its file cannot be used."""


def key_state(*, is_disabled: bool, expires: float | None, now: float) -> KeyState:
    """Return the state of a key that is configured.

    :param expires: when it expires, in Unix seconds, as ``now``; ``None``: never.
    """
    if is_disabled:
        return KeyState.DISABLED
    return KeyState.EXPIRED if expires is not None and now >= expires else KeyState.ACTIVE


_SENTENCES: Final = MappingProxyType(
    {
        KeyState.EXPIRED: "this gateway key has expired: ask for another one",
        KeyState.DISABLED: "this gateway key is disabled: ask for another one",
        KeyState.REVOKED: "this gateway key has been removed: ask for another one",
    }
)
_OF_TOKENS: Final = MappingProxyType(
    {
        KeyState.EXPIRED: "the token has expired: open another session with a new one",
        KeyState.REVOKED: "tokens of this issuer are no longer accepted: ask for a gateway key",
    }
)


class EndedKeyError(GatewayError):
    """The refusal of a key that was valid once."""

    def __init__(self, state: KeyState) -> None:
        super().__init__(Reason.EDGE_KEY, _SENTENCES[state])
        self.state = state


def revocation(state: KeyState, *, is_token: bool = False) -> GatewayError:
    """Return what ends a request in progress whose key, or token, is valid no more."""
    if is_token:
        return GatewayError(Reason.INVALID_TOKEN, _OF_TOKENS[state]).because(Cause.REVOKED)
    return EndedKeyError(state).because(Cause.REVOKED)
