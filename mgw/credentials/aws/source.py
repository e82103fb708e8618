"""The credentials of one provider with ``auth: aws``: keys, made into what signs its requests.

::

    AwsCredentials           one per provider: region, service, the host's clock; follows files
        │ of what the files and the environment say now
        ▼
    RenewedToken             one per source of keys, for all providers and workers: renews them
        │ a role that is assumed
        ▼
    RenewedToken             the keys that it is assumed with, and so on

Profiles stand in files that tools and people change while the gateway runs.  Their state is looked at once a
second, while there are requests; another content leads to another source.  Files that cannot be used change
nothing at first: the source from before stays until its keys have expired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

from twisted.logger import Logger

from mgw.credentials.aws.errors import STATUSES
from mgw.credentials.aws.found_keys import FoundKeys, NoKeys
from mgw.credentials.aws.instance_metadata import SERVICE_NAME
from mgw.credentials.aws.keys import KeySource
from mgw.credentials.aws.signed_keys import KeyGiver, SignedKeys, refuses_keys
from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.credentials.sources import CredentialSources
from mgw.credentials.state import CredentialState
from mgw.credentials.token_request import TokenRequestError
from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.reactor.single_flight import SingleFlight

CHECK_SECONDS: Final = 1.0
"""How long a source is used before its files are checked for changes."""

_log: Final = Logger()


@dataclass(slots=True, eq=False, repr=False)
class AwsCredentials:
    """Gives out credentials that sign.

    :param provider: its name, for messages.
    :param found: where the keys come from; ``find`` says so again.
    :param find: returns that as it is now, the same object where nothing has changed; blocks, and raises
        :class:`ValueError`.
    :param use: returns the source of keys, which ``sources`` releases.
    :param signed: makes credentials of keys.
    """

    signs: ClassVar[bool] = True
    provider: str
    found: FoundKeys
    find: Callable[[FoundKeys], FoundKeys]
    use: Callable[[KeySource | NoKeys], KeyGiver]
    signed: SignedKeys
    sources: CredentialSources
    _keys: KeyGiver = field(init=False)
    _credential: Credential | None = field(default=None, init=False)
    _good_until: float = field(default=float("-inf"), init=False)
    """Until when the credential is at hand, and the files need not be looked at."""
    _check_at: float = field(init=False)
    _problem: str | None = field(default=None, init=False)
    """Why the files cannot be used, if they cannot."""
    _problems: int = field(default=0, init=False)
    """How often the files could not be used, and earlier sources had no keys."""
    _is_closed: bool = field(default=False, init=False)
    _warnings: RateLimitedLog = field(init=False)
    _flight: SingleFlight[None] = field(default_factory=SingleFlight, init=False)

    def __post_init__(self) -> None:
        self._keys = self.use(self.found.source)
        self._warnings = RateLimitedLog(self.sources.clock)
        self._plan_check()
        if self.found.files:
            self.sources.watchers.add(self)

    @property
    def failures(self) -> int:
        """How often no keys could be obtained, or the files could not be used."""
        return self._problems + self._keys.failures

    def ready(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential | None:
        """Return the credential while nothing is to be renewed or looked at."""
        return self._credential if self.sources.monotonic() < self._good_until else None

    async def obtain(
        self,
        client_key: ClientKey | None,
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return a credential that is good.

        :raises TokenRequestError: there is none.
        """
        if self.sources.monotonic() >= self._check_at:
            await self.look()
        try:
            return self._sign_with(await self._keys.obtain(client_key))
        except TokenRequestError as error:
            raise self._explained(error) from None

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        """Return another credential where AWS says that the keys are not, or no longer, good.

        ``None`` where there is none, so that the client gets AWS's own answer.
        """
        if not refuses_keys(refusal):
            return None
        if self.found.files:
            await self.look()
        another = await self._keys.another(credential)
        return None if another is None else self._sign_with(another)

    def refusable(self, status: int) -> bool:
        """Whether a response may say that keys are not good."""
        return status in STATUSES

    def close(self) -> None:
        """Release the source of the keys."""
        self._is_closed = True
        self.sources.watchers.discard(self)
        self.sources.release(self._keys)

    def describe(self, wall: float) -> CredentialState:
        """Say whether there are keys.

        :param wall: unix seconds, now.
        """
        return self._keys.describe(wall)

    async def look(self) -> None:
        """Look at the files, and use the source that they lead to."""
        await self._flight.run(None, self._look)

    async def _look(self) -> None:
        try:
            found = await self.sources.run(partial(self.find, self.found))
        except (ValueError, OSError) as error:
            self._note_problem(str(error))
        else:
            self._problem = None
            if found is not self.found and not self._is_closed:
                self._replace(found)
        self._plan_check()

    def _replace(self, found: FoundKeys) -> None:
        before, self.found = self._keys, found
        self._keys = self.use(found.source)  # the same one if the files say the same in other words
        if self._keys is not before:
            self._problems += before.failures
        self.sources.release(before)
        self._good_until = float("-inf")

    def _plan_check(self) -> None:
        now = self.sources.monotonic()
        self._check_at = now + CHECK_SECONDS if self.found.files else float("inf")

    def _sign_with(self, keys: Credential) -> Credential:
        try:
            credential = self.signed.of(keys)
        except ValueError as error:
            raise TokenRequestError(f"provider {self.provider!r} cannot sign: {error}") from None
        self._credential = credential
        self._good_until = min(self._keys.renew_at, self._check_at)
        return credential

    def _explained(self, error: TokenRequestError) -> TokenRequestError:
        """Return an error with what else an operator has to know."""
        message = error.message
        if self.found.looked_at is not None and message.startswith(SERVICE_NAME):
            message = f"no AWS credentials were found in {self.found.looked_at}, and {message}"
        again = TokenRequestError(message, error.response_status, error.error_code)
        again.detail = error.detail if self._problem is None else f"{error.detail}; {self._problem}"
        return again

    def _note_problem(self, problem: str) -> None:
        self._problem = problem
        self._problems += 1
        if self._warnings.is_due():
            _log.warn(
                "the AWS credentials of provider {provider} stay as they were: {problem}{more}",
                provider=self.provider,
                problem=problem,
                more=_more(self._warnings.take_suppressed()),
            )


def _more(suppressed: int) -> str:
    return f"; {suppressed} more of these since the last warning" if suppressed else ""
