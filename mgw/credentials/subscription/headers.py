"""The headers of requests with a subscription's account: the profile's, for this account and this client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

from mgw.config.profile import DETAIL, CloakMode, Profile
from mgw.config.secrets import credentials_in
from mgw.nouns.secret import Secret
from mgw.wire.headers import RawHeaders, value_of


@final
class ProfileHeaders:
    """Edits of a request's headers.

    :param details: of the account, for the values that refer to them.
    """

    __slots__ = ("_cloaked", "_merged", "_mode", "_profile", "_removed", "_uncloaked", "secrets")

    def __init__(self, profile: Profile, mode: CloakMode, details: Mapping[str, str]) -> None:
        self._profile = profile
        self._mode = mode
        self._uncloaked = _filled(profile.headers.set, details)
        self._cloaked = {**self._uncloaked, **_filled(profile.cloak.headers, details)}
        self._removed = frozenset(name.encode("latin-1") for name in profile.headers.remove)
        self._merged = {
            name: elements
            for name, values in profile.headers.merge.items()
            if (elements := [found for value in values if (found := _fill(value, details)) is not None])
        }
        merged = {name: ",".join(elements) for name, elements in self._merged.items()}
        several = (self._uncloaked, self._cloaked, merged)
        self.secrets: Sequence[Secret] = [secret for one in several for secret in credentials_in(one)]

    def apply(self, headers: RawHeaders) -> RawHeaders:
        """Return a client's headers as they are sent with this account."""
        agent = value_of(headers, b"user-agent")
        said = None if agent is None else agent.decode("latin-1")
        cloaked = self._profile.cloak.applies(self._mode, said)
        replaced = self._cloaked if cloaked else self._uncloaked
        gone = self._removed | {name.lower().encode("latin-1") for name in replaced}
        merged = [self._merge(name, elements, headers) for name, elements in self._merged.items()]
        gone |= {name.lower() for name, _ in merged}
        kept = [pair for pair in headers if pair[0].lower() not in gone]
        own = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in replaced.items()]
        return [*kept, *own, *merged]

    def _merge(self, name: str, elements: Iterable[str], headers: RawHeaders) -> tuple[bytes, bytes]:
        """Return a list in a header: the profile's elements, and behind them the client's others."""
        raw = name.encode("latin-1")
        sent = [value for key, value in headers if key.lower() == raw.lower()]
        theirs = [piece.strip() for value in sent for piece in value.decode("latin-1").split(",")]
        both = dict.fromkeys([*elements, *filter(None, theirs)])
        return raw, ",".join(both).encode("latin-1")


def _filled(headers: Mapping[str, str], details: Mapping[str, str]) -> dict[str, str]:
    """Return the headers whose details are all known."""
    filled = {name: _fill(value, details) for name, value in headers.items()}
    return {name: value for name, value in filled.items() if value is not None}


def _fill(value: str, details: Mapping[str, str]) -> str | None:
    if any(name not in details for name in DETAIL.findall(value)):
        return None
    return DETAIL.sub(lambda found: details[found[1]], value)
