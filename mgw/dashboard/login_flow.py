"""One login through the dashboard: the same steps as ``mgw auth login``, without a terminal.

::

    pending ──► complete     its tokens are in the store, and in use
       ├──────► failed       somebody refused, or an endpoint or the store cannot be used
       ├──────► expired      nobody approved it, or pasted a code, in time
       └──────► cancelled    by a user, a reload, or the end of the process

Tokens that have come are nowhere else, so they are written whoever leaves; from then on nobody can cancel.
Codes stand in what :meth:`LoginFlow.describe` returns while somebody needs them, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred, TimeoutError  # noqa: A004  Twisted's own name
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.config.profile import Profile
from mgw.credentials.subscription.accounts import Accounts, Login
from mgw.credentials.subscription.login import (
    AuthorizationRequest,
    DeviceLogin,
    LoginError,
    LoginExpiredError,
    LoginRefusedError,
    Way,
    missing_for,
    pasted_redirect,
)
from mgw.credentials.subscription.store import StoredCredential, StoreError
from mgw.credentials.subscription.token_exchange import DeviceCode, ProfileEndpoints
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from mgw.usage.event import timestamp

CODE_SECONDS: Final = 600.0
"""How long somebody may take to paste a code: vendors do not let codes live longer (RFC 6749 4.1.2)."""

_log: Final = Logger()


class FlowKind(StrEnum):
    """How somebody logs in, as the API calls it."""

    DEVICE = "device"
    PKCE = "pkce"


class FlowState(StrEnum):
    """How far a login is."""

    PENDING = "pending"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


WAYS: Final = {FlowKind.DEVICE: Way.DEVICE, FlowKind.PKCE: Way.PASTE}


def kinds_of(profile: Profile) -> list[FlowKind]:
    """Return the flows for which a profile says enough; the first is the usual one."""
    return [kind for kind, way in WAYS.items() if missing_for(way, profile) is None]


@dataclass(slots=True, eq=False)
class LoginFlow:
    """A login to one entry of the store.

    :param on_end: is called once, when the flow is no longer pending.
    """

    kind: FlowKind
    login: Login
    accounts: Accounts = field(repr=False)
    on_end: Callable[[LoginFlow], None] = field(repr=False)
    state: FlowState = FlowState.PENDING
    message: str = ""
    _device: DeviceCode | None = field(init=False, default=None, repr=False)
    _request: AuthorizationRequest | None = field(init=False, default=None, repr=False)
    _pasted: Deferred[Secret] | None = field(init=False, default=None, repr=False)
    """Fires with the code; there is none unless one is wanted."""
    _expires: float | None = field(init=False, default=None)
    _has_tokens: bool = field(init=False, default=False)
    _work: Deferred[None] | None = field(init=False, default=None, repr=False)
    _waiters: set[Deferred[None]] = field(init=False, default_factory=set, repr=False)

    def begin(self) -> None:
        """Begin; what comes of it is in :attr:`state`."""
        self._work = Deferred.fromCoroutine(self._run()).addErrback(self._on_failure)

    def give_code(self, text: str) -> None:
        """Go on with what somebody pasted: a code, ``code#state``, or the address with both.

        :raises GatewayError: ``MALFORMED``; the login goes on waiting for a code, if it was.
        """
        request, pasted = self._request, self._pasted
        if request is None or pasted is None:
            message = (
                f"the login to {self.login.name!r} does not expect a code: its state is {self.state.value}"
            )
            raise GatewayError(Reason.MALFORMED, message, param="code")
        try:
            code = request.pasted_code(text)
        except LoginRefusedError as error:
            self._pasted = None
            pasted.errback(error)
        except LoginError as error:
            raise GatewayError(Reason.MALFORMED, str(error), param="code") from None
        else:
            self._pasted = None
            pasted.callback(code)

    def cancel(self, message: str) -> None:
        """Give it up, unless it has ended or its tokens have come."""
        if self.state is not FlowState.PENDING or self._has_tokens:
            return
        work = self._work
        self._end(FlowState.CANCELLED, message)
        if work is not None:
            work.cancel()

    async def settled(self) -> None:
        """Return when it waits for somebody, or has ended."""
        while self._is_busy:
            waiter: Deferred[None] = Deferred(self._waiters.discard)
            self._waiters.add(waiter)
            await waiter

    def describe(self) -> dict[str, Any]:  # Any: JSON
        """Return what its user may see."""
        found: dict[str, Any] = {"entry": self.login.name, "flow": self.kind.value, "state": self.state.value}
        if self.message:
            found["message"] = self.message
        device, request = self._device, self._request
        if device is not None:
            found |= {"user_code": device.user_code, "verification_uri": device.page}
            if device.whole_page is not None:
                found["verification_uri_complete"] = device.whole_page
        if request is not None and self._pasted is not None:
            found |= {"authorization_url": request.url, "wants_code": True}
        if self._expires is not None:
            found["expires"] = timestamp(self._expires)
        return found

    @property
    def _is_busy(self) -> bool:
        """Whether the next step is an endpoint's, or the store's."""
        waits_for_somebody = self._device is not None or self._pasted is not None
        return self.state is FlowState.PENDING and (self._has_tokens or not waits_for_somebody)

    async def _run(self) -> None:
        login = self.login
        flow = self._with_device if self.kind is FlowKind.DEVICE else self._with_pasted_code
        try:
            entry = await flow(ProfileEndpoints(login.client, login.profile_name, login.profile))
            self._has_tokens = True
            await self.accounts.keep(login.name, entry)
        except LoginExpiredError as error:
            self._end(FlowState.EXPIRED, str(error))
        except (LoginError, GatewayError, StoreError, OSError) as error:
            self._end(FlowState.FAILED, str(error))
        else:
            self._end(FlowState.COMPLETE, "logged in" + (f" as {entry.account}" if entry.account else ""))

    async def _with_device(self, endpoints: ProfileEndpoints) -> StoredCredential:
        def show(code: DeviceCode) -> None:
            self._device = code
            self._show(code.seconds, "open the page on any device and enter the code")

        accounts = self.accounts
        return await DeviceLogin(endpoints, accounts.clock, accounts.wall, show).run()

    async def _with_pasted_code(self, endpoints: ProfileEndpoints) -> StoredCredential:
        accounts, profile = self.accounts, self.login.profile
        request = self._request = AuthorizationRequest(profile, pasted_redirect(profile))
        pasted = self._pasted = Deferred()
        self._show(CODE_SECONDS, _how_to_paste(profile))
        try:
            code = await pasted.addTimeout(CODE_SECONDS, accounts.clock)
        except TimeoutError:
            raise LoginExpiredError("no code was entered in time") from None
        self.message, self._expires = "exchanging the code for tokens", None
        return await endpoints.log_in(request.grant(code), accounts.wall())

    def _show(self, seconds: float, message: str) -> None:
        """Say what somebody has to do, and for how long there is time."""
        self._expires = self.accounts.wall() + seconds
        self.message = message
        self._wake()

    def _end(self, state: FlowState, message: str) -> None:
        """End it, once, and forget its codes."""
        if self.state is not FlowState.PENDING:
            return
        self.state, self.message = state, message
        self._device = self._request = self._pasted = self._expires = self._work = None
        _log.info("dashboard login to {name} finished: {state}", name=self.login.name, state=state.value)
        self.on_end(self)
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in list(waiters):
            if not waiter.called:  # left while another was being told
                waiter.callback(None)

    def _on_failure(self, failure: Failure) -> None:
        """Log a bug; whoever cancelled has said so already."""
        if failure.check(CancelledError) and self.state is not FlowState.PENDING:
            return
        _log.failure("internal error: the dashboard login to {name} failed", failure, name=self.login.name)
        self._end(FlowState.FAILED, "internal gateway error; see the gateway's log")


def _how_to_paste(profile: Profile) -> str:
    if profile.redirect.pasted_url is not None:
        return (
            "log in on the page, then paste the code that it shows, or the address of the page that shows it"
        )
    return (
        "log in on the page, then paste the address that the browser is sent to; that page does not load, "
        f"because nothing listens at {pasted_redirect(profile)}"
    )
