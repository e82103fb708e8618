"""Logins through the dashboard: the entries, and at most one flow at a time for each.

It is what ``mgw auth login`` does with a terminal: begin a login, look how far it is, go on with a code, or
give it up.  Nothing here waits in a thread: the gateway's own client asks the endpoints, and the accounts of
the store write what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import Struct
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from mgw.credentials.provider import CredentialProvider
from mgw.credentials.subscription.accounts import Accounts, Login
from mgw.credentials.subscription.login import missing_for
from mgw.credentials.subscription.source import SubscriptionSource
from mgw.dashboard.login_flow import WAYS, FlowKind, FlowState, LoginFlow, kinds_of
from mgw.nouns.errors import GatewayError, Reason

MAX_FLOWS: Final = 32
"""The most flows; the first that has ended makes room for another, and where none has, no other begins."""
KEPT_SECONDS: Final = 600.0
"""How long the end of a flow can be looked at."""

_MAX_NAMES: Final = 50
"""How many entries a message names."""


class _Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a POST."""

    flow: FlowKind | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry that providers use."""

    accounts: Accounts
    login: Login
    profiles: tuple[str, ...]
    """The profiles by which somebody could log in; one, unless the configuration says two things."""

    @property
    def kinds(self) -> list[FlowKind]:
        return kinds_of(self.login.profile) if len(self.profiles) == 1 else []

    @property
    def state(self) -> str:
        """How the entry is, in a word of the API."""
        found = self.accounts.entry(self.login)
        if found is None:
            return "signed_out" if self.accounts.problem is None else "unknown"
        return "signed_in" if found.is_usable(self.accounts.wall()) else "expired"

    def has_moved(self, flow: LoginFlow) -> bool:
        """Whether a flow began by other rules, or for another store."""
        before, now = flow.login, self.login
        is_same = (before.profile_name, before.profile) == (now.profile_name, now.profile)
        return not is_same or flow.accounts is not self.accounts or len(self.profiles) != 1


@dataclass(slots=True)
class Logins:
    """The logins of one process.

    :param sources: returns the credentials of all providers, as the configuration in use has them.
    """

    sources: Callable[[], Iterable[CredentialProvider]]
    clock: IReactorTime
    _flows: dict[str, LoginFlow] = field(init=False, default_factory=dict)
    """The flows by entry; those that ended first come first among those that have ended."""
    _timers: dict[str, IDelayedCall] = field(init=False, default_factory=dict)
    """The timers that forget flows that have ended."""
    _stopped: bool = field(init=False, default=False)

    def list_entries(self) -> list[dict[str, Any]]:  # Any: JSON
        """Return the entries that somebody can log in to, and which of them have a flow under way."""
        return [self._describe(name, entry) for name, entry in sorted(self._entries().items())]

    def _describe(self, name: str, entry: _Entry) -> dict[str, Any]:  # Any: JSON
        found: dict[str, Any] = {  # Any: JSON
            "entry": name,
            "profile": entry.login.profile_name,
            "flows": [kind.value for kind in entry.kinds],
            "state": entry.state,
        }
        flow = self._flows.get(name)
        if flow is not None and flow.state is FlowState.PENDING:
            found["pending"] = True
        return found

    async def begin(self, name: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:  # Any: JSON
        """Begin a flow, or go on with the one that there is; return the status of the response, and the flow.

        :raises GatewayError: it cannot be.
        """
        wanted = _parse(body)
        status = 200
        if wanted.code is not None:
            flow = self._flow(name)
            flow.give_code(wanted.code)
        else:
            found = self._flows.get(name)
            if found is None or found.state is not FlowState.PENDING:
                found, status = self._start(name, wanted.flow), 201
            flow = found
        await flow.settled()
        return status, flow.describe()

    async def state(self, name: str) -> dict[str, Any]:  # Any: JSON
        """Return the flow of an entry.

        :raises GatewayError: ``UNKNOWN_ROUTE`` where there is none.
        """
        return self._flow(name).describe()

    async def cancel(self, name: str) -> None:
        """Cancel the flow of an entry; forget one that has ended.

        :raises GatewayError: ``UNKNOWN_ROUTE`` where there is none.
        """
        flow = self._flow(name)
        if flow.state is FlowState.PENDING:
            flow.cancel("cancelled")
        else:
            self._forget(name)

    def reloaded(self) -> None:
        """Cancel the flows of entries that are no longer there, or not as they were."""
        entries = self._entries()
        for name, flow in list(self._flows.items()):
            entry = entries.get(name)
            if entry is None or entry.has_moved(flow):
                flow.cancel("canceled: the configuration has changed")

    def stop(self) -> None:
        """Cancel all flows, and begin no more."""
        self._stopped = True
        for flow in list(self._flows.values()):
            flow.cancel("canceled: the gateway is stopping")
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _start(self, name: str, kind: FlowKind | None) -> LoginFlow:
        if self._stopped:
            raise GatewayError(Reason.DRAINING, "the gateway is stopping: no new logins")
        entry = self._entry(name)
        kind = _choose(name, entry, kind)
        self._forget(name)
        self._make_room()
        flow = LoginFlow(kind, entry.login, entry.accounts, self._on_end)
        self._flows[name] = flow
        flow.begin()
        return flow

    def _make_room(self) -> None:
        if len(self._flows) < MAX_FLOWS:
            return
        ended = next((name for name in self._timers), None)
        if ended is None:
            message = f"{MAX_FLOWS} logins are already in progress: finish or cancel one"
            raise GatewayError(Reason.OVERLOADED, message)
        self._forget(ended)

    def _on_end(self, flow: LoginFlow) -> None:
        name = flow.login.name
        if not self._stopped:
            self._timers[name] = self.clock.callLater(KEPT_SECONDS, self._forget, name)

    def _forget(self, name: str) -> None:
        self._flows.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None and timer.active():
            timer.cancel()

    def _flow(self, name: str) -> LoginFlow:
        flow = self._flows.get(name)
        if flow is None:
            self._entry(name)
            raise _not_found(f"no login to {name!r} is in progress: start one with POST")
        return flow

    def _entry(self, name: str) -> _Entry:
        entries = self._entries()
        entry = entries.get(name)
        if entry is None:
            known = ", ".join(sorted(entries)[:_MAX_NAMES]) or "none"
            raise _not_found(f"no provider uses an entry with that name (known: {known})")
        return entry

    def _entries(self) -> dict[str, _Entry]:
        found: dict[str, _Entry] = {}
        for source in self.sources():
            if not isinstance(source, SubscriptionSource):
                continue
            for login in source.logins:
                known = found.get(login.name)
                profiles = () if known is None else known.profiles
                if login.profile_name not in profiles:
                    first = login if known is None else known.login
                    profiles = (*profiles, login.profile_name)
                    found[login.name] = _Entry(source.accounts, first, profiles)
        return found


def _parse(body: Mapping[str, Any]) -> _Wanted:  # Any: JSON
    try:
        return msgspec.convert(body, _Wanted)
    except msgspec.ValidationError:
        message = 'expected {"flow": "device"}, {"flow": "pkce"} or {"code": "code from the browser"}'
        raise GatewayError(Reason.MALFORMED, message) from None


def _choose(name: str, entry: _Entry, kind: FlowKind | None) -> FlowKind:
    """Return the flow to begin.

    :raises GatewayError: ``MALFORMED`` where the profile says too little for it.
    """
    if len(entry.profiles) != 1:
        message = f"providers use {name!r} with several profiles: run mgw auth login {name} --profile PROFILE"
        raise GatewayError(Reason.MALFORMED, message)
    kinds = entry.kinds
    if kind is None and kinds:
        return kinds[0]
    if kind in kinds:
        return kind
    profile, asked = entry.login.profile, WAYS if kind is None else (kind,)
    missing = " or ".join(filter(None, (missing_for(WAYS[one], profile) for one in asked)))
    has = ", ".join(kinds) or "none"
    message = (
        f"profile {entry.login.profile_name!r} does not support this flow (supported: {has}): set {missing}"
    )
    raise GatewayError(Reason.MALFORMED, message, param="flow")


def _not_found(message: str) -> GatewayError:
    return GatewayError(Reason.UNKNOWN_ROUTE, message, code="login_not_found")
