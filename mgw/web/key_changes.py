"""What happens to the gate of a server, to what it remembers, and to requests in progress when keys change.

Keys change in three ways: a configuration takes the place of another, files of keys come and go, and time
passes.  A key that is valid no more opens nothing from then on, over whatever connection and with whatever
head.  With ``cut_revoked`` the requests in progress end as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.interfaces import IDelayedCall

from mgw.config.key_settings import NamedKeySettings
from mgw.config.quoting import shown
from mgw.nouns.key_state import KeyState, revocation
from mgw.web.interfaces import OpenRequest
from mgw.web.server import WebServer
from mgw.web.upgrade import UpgradeRequest

LOOK_SECONDS: Final = 1.0
"""How often the time is looked at where keys expire.  The gate itself does so for each request with such a
key, but the clock may be set back before the next one comes."""


def _nobody(_: str) -> None:
    """Tell nobody."""


def _nothing() -> None:
    """Do nothing."""


@dataclass(slots=True, eq=False, repr=False)
class KeyChanges:
    """Applies changes of keys to one server."""

    server: WebServer
    on_expired: Callable[[str], None] = _nobody
    """Called for each key that has expired, with words for it."""
    on_issuer_keys: Callable[[], None] = _nothing
    """Called when tokens are checked anew."""
    _timer: IDelayedCall | None = field(init=False, default=None)

    def use(self, changed: Sequence[NamedKeySettings], gone: Sequence[str]) -> None:
        """Take over what has become of key files."""
        self.server.gate.change(changed, gone)
        self._forget()

    def use_issuer_keys(self) -> None:
        """Check all tokens anew: the keys of an issuer have changed."""
        server = self.server
        if server.gate.tokens is not None:
            server.gate.tokens.forget_all()
            server.generation.memo.forget_heads()
            self.on_issuer_keys()

    def follow(self) -> None:
        """The server uses another configuration, or its first one."""
        self._cut()
        self._wait()

    def stop(self) -> None:
        """Look at the time no more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _forget(self) -> None:
        self.server.generation.memo.forget_heads()  # some may have been let in by a key, or hold a new one
        self._cut()
        self._wait()

    def _wait(self) -> None:
        is_waiting = self._timer is not None and self._timer.active()
        gate = self.server.gate
        has_expiring = gate.keys.has_expiring or (gate.tokens is not None and self._cuts)
        if has_expiring and not is_waiting:
            self._timer = self.server.clock.callLater(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        gate = self.server.gate
        over = gate.keys.expire(self.server.wall())
        for client in over:
            what = "the previous key of" if gate.keys.is_previous(client) else "key"
            self.on_expired(f"{what} {shown(client.name)}")
        if over:
            self._forget()
        else:
            if gate.tokens is not None:
                self._cut()
            self._wait()

    def _cut(self) -> None:
        """End what is in progress with keys that are valid no more, if the operator wants that."""
        if not self._cuts:
            return
        for request in self.server.requests:
            state = self._state_of(request)
            if state is not None and state is not KeyState.ACTIVE:
                request.cut(revocation(state, is_token=request.known.caller.token is not None))

    def _state_of(self, request: OpenRequest) -> KeyState | None:
        """Return what has become of a request's key, or of the token of a session; others go on."""
        server, caller = self.server, request.known.caller
        client, token = caller.client, caller.token
        if client is None:  # the gate was open
            return None
        if token is None:
            return server.gate.keys.state_of(client.digest)
        if not isinstance(request, UpgradeRequest):
            return None
        if token.is_past(server.wall(), server.monotonic()):
            return KeyState.EXPIRED
        entries = server.generation.config.edge_auth.jwt
        return None if any(entry.name == client.issuer for entry in entries) else KeyState.REVOKED

    @property
    def _cuts(self) -> bool:
        return self.server.generation.config.edge_auth.cut_revoked
