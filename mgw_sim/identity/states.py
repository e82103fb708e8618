"""What a test may ask of an identity provider: to be away, slow or wrong."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from mgw_sim.api import Response, UnaryResponse
from mgw_sim.faults import Faults

ROTATE: Final = "rotate"
_GARBAGE: Final = "<!doctype html><title>Sign in</title>"


class WantedState(Struct, frozen=True, forbid_unknown_fields=True):
    """How a provider is to behave; what is not given has its default."""

    state: str = "ok"
    seconds: int | float = 5
    """How long ``slow`` waits."""
    paths: list[str] = []
    """The only routes that the state affects, if any are named."""
    body: str = _GARBAGE
    """What ``garbage`` answers."""
    keep_old: bool = False
    """With ``rotate``: the keys until then stay in the key set."""
    same_kids: bool = False
    """With ``rotate``: the new keys have the old ones' ids."""
    max_age: int | None = None
    """Seconds of ``Cache-Control`` with the key set and the discovery document."""
    jwks: Any = None  # any JSON: a test may want the wrong one
    """Answered in place of the key set, if it is not null."""
    discovery: dict[str, Any] = field(default_factory=dict)
    """Members of the discovery document, in place of the usual ones."""
    expires_in: int | float = 3600
    """The lifetime of exchanged tokens, in seconds."""
    error: str | None = None
    """The error that refuses each exchange."""

    def check(self) -> None:
        """Raise ValueError where the state does not exist."""
        if self.state not in STATES:
            raise ValueError(f"unknown state; expected one of {', '.join(STATES)}")

    def intercept(self, path: str) -> tuple[Response | None, Faults]:
        """Return what is answered in place of the usual, if anything, and what goes wrong on its way."""
        if self.paths and path not in self.paths:
            return None, Faults()
        return STATES[self.state](self)


def _usual(_: WantedState) -> tuple[Response | None, Faults]:
    return None, Faults()


def _away(_: WantedState) -> tuple[Response | None, Faults]:
    return UnaryResponse(b'{"error":"temporarily_unavailable"}', 503), Faults()


def _slow(wanted: WantedState) -> tuple[Response | None, Faults]:
    return None, Faults({"delay": (str(int(wanted.seconds * 1000)),)})


def _drip(_: WantedState) -> tuple[Response | None, Faults]:
    return None, Faults({"chunk-delay": ("1000",)})


def _garbage(wanted: WantedState) -> tuple[Response | None, Faults]:
    return UnaryResponse(wanted.body.encode(), content_type="text/html; charset=utf-8"), Faults()


def _redirect(_: WantedState) -> tuple[Response | None, Faults]:
    return UnaryResponse(b"", 302, headers=(("Location", "/sim/idp/redirected/jwks"),)), Faults()


STATES: Final[Mapping[str, Callable[[WantedState], tuple[Response | None, Faults]]]] = {
    "ok": _usual,
    ROTATE: _usual,
    "empty": _usual,
    "away": _away,
    "closed": lambda _: (None, Faults({"reset-before": ()})),
    "hang": lambda _: (None, Faults({"stall-head": ()})),
    "slow": _slow,
    "drip": _drip,
    "garbage": _garbage,
    "redirect": _redirect,
}
"""Each state with what it makes of an answer.  ``empty`` is only of the key set."""
