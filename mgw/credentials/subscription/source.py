"""Where the credentials of a provider come from whose accounts are subscriptions: one account, or a pool.

::

    429  ── a cooldown of the account for that model, as long as the provider says ──► another account
    403  ── it has no right to that model: a cooldown of that model for a while     ──► another account
    401  ── its token is refreshed, once; refused again, a cooldown as a whole      ──► the same, then another

Only pools have cooldowns and change accounts; with a single one, a 429 and a 403 are the client's to read.
What names no model leaves the cooldowns of models alone, and so does a count of tokens (contract 8.26).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import ClassVar, Final

from mgw.config.profile import CloakMode
from mgw.credentials.provider import ClientKey, Credential, CredentialProvider, CredentialRefusal
from mgw.credentials.state import AccountState, CredentialState, State
from mgw.credentials.subscription.accounts import Accounts, Login
from mgw.credentials.subscription.headers import ProfileHeaders
from mgw.credentials.subscription.limits import cooldown_seconds, means_no_entitlement
from mgw.credentials.subscription.pool import AccountPool
from mgw.credentials.subscription.store import NEW_SECONDS, StoredCredential
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret, key_hash

REFUSED_COOLDOWN_SECONDS: Final = 600.0
"""The cooldown of an account whose token is refused although it is new; another token ends it."""
RENEWED_SECONDS: Final = 300.0
"""How long a token counts as new for the request that it was got for."""


_BEST_FIRST: Final = (State.READY, State.RESTING, State.EXPIRED)


@dataclass(slots=True, eq=False, repr=False)
class SubscriptionSource:
    """The credentials of one provider.

    :param provider: its name, for messages.
    :param is_pool: whether accounts are in cooldown and change.
    """

    signs: ClassVar[bool] = False
    provider: str
    accounts: Accounts
    logins: Sequence[Login]
    pool: AccountPool
    is_pool: bool
    cloak: CloakMode
    _by_name: dict[str, Login] = field(init=False)
    _credentials: dict[str, tuple[StoredCredential, Credential]] = field(init=False, default_factory=dict)
    """The credential that was made of an entry: the same object as long as the entry is the same."""

    def __post_init__(self) -> None:
        self._by_name = {login.name: login for login in self.logins}
        self.accounts.watch(self.logins)

    @property
    def _most_attempts(self) -> int:
        """More would be a provider that refuses more slowly than accounts are in cooldown."""
        return 4 * len(self._by_name) + 16

    @property
    def has_usable(self) -> bool:
        """Whether any account has a token, or can get one."""
        return any(map(self._is_usable, self._by_name))

    @property
    def usable_accounts(self) -> int:
        """How many accounts have a token, or can get one."""
        return sum(map(self._is_usable, self._by_name))

    @property
    def failures(self) -> int:
        """How often a new token for one of the accounts was asked for in vain."""
        failures = self.accounts.failures
        return sum(failures.get(name, 0) for name in self._by_name)

    def ready(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,
    ) -> Credential | None:
        """Return the credential of the account whose turn it is, if any is awake and has a good token."""
        name = self.pool.pick(self._is_fresh, model)
        return None if name is None else self._credential(name)

    async def obtain(self, client_key: ClientKey | None, model: str | None = None) -> Credential:
        """Return the credential of the account whose turn it is, with a new token where none is good.

        :raises GatewayError: ``NO_ACCOUNT`` where all are in cooldown, with the time of the first;
            ``NO_PROVIDER_KEY`` where nobody has logged in; ``CREDENTIAL_SOURCE`` where no token can be had.
        """
        found = self.ready(client_key, model)
        error: GatewayError | None = None
        tried: set[str] = set()

        def can_try(name: str) -> bool:
            return name not in tried and self._can_refresh(name)

        while found is None:
            name = self.pool.pick(can_try, model)
            if name is None:
                raise self._none_left(model, error)
            tried.add(name)
            try:
                await self.accounts.refresh(self._by_name[name])
            except GatewayError as failed:
                error = failed
            found = self.ready(client_key, model)
        return found

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        """Let the account cool down, or renew its token, and return what to go on with.

        :raises GatewayError: ``NO_ACCOUNT`` where the provider limits the last account that was awake.
        """
        name = credential.account
        if name is None or name not in self._by_name:
            return None
        if refusal.status == 401:
            if refusal.attempts >= self._most_attempts:
                return None
            return await self._on_unauthorized(name, credential, refusal)
        model = refusal.model
        if model is None:
            return None
        limits, may_go_on = self._by_name[name].profile.limits, refusal.attempts < self._most_attempts
        if refusal.status == 403:
            if not means_no_entitlement(limits.no_entitlement, refusal.headers, refusal.body):
                return None
            self.pool.cooldowns.begin(name, model, limits.no_entitlement_rest_seconds)
            return await self._another(model) if may_go_on else None
        self.pool.cooldowns.begin(
            name, model, cooldown_seconds(refusal.headers, limits, self.accounts.wall())
        )
        return await self.obtain(None, model) if may_go_on else None

    def refusable(self, status: int) -> bool:
        """A 401 always is; a limit, or a model that was not bought, where there may be another account."""
        return status == 401 or (self.is_pool and status in (403, 429))

    def describe(self, wall: float) -> CredentialState:
        """Say how each account is; as a whole it is as well as the best of them.

        :param wall: unix seconds, now.
        """
        accounts = tuple(self._describe(login, wall) for login in self.logins)
        states = {account.state for account in accounts}
        best = next((state for state in _BEST_FIRST if state in states), State.MISSING)
        return CredentialState(best, accounts=accounts)

    def _describe(self, login: Login, wall: float) -> AccountState:
        entry = self.accounts.entry(login)
        if entry is None or entry.is_lost:
            return AccountState(login.name, State.SIGNED_OUT)
        rest = self.pool.cooldowns.remaining(login.name, None)
        if rest is not None:
            return AccountState(login.name, State.RESTING, wall + rest, entry.expires_at)
        usable = self.accounts.fresh(login) is not None or self.accounts.can_refresh(login)
        return AccountState(login.name, State.READY if usable else State.EXPIRED, None, entry.expires_at)

    def close(self) -> None:
        """Leave the accounts to others."""
        self.accounts.unwatch(self.logins)

    async def _on_unauthorized(
        self, name: str, credential: Credential, refusal: CredentialRefusal
    ) -> Credential | None:
        login = self._by_name[name]
        current = self.accounts.fresh(login)
        sent = credential.key
        if current is not None and current.access_token != sent:
            return self._credential(name)  # it has another token by now
        newer = await self._renewed(login, sent, refusal)
        if newer is not None or not self.is_pool:
            return newer
        self.pool.cooldowns.refuse(name, sent, REFUSED_COOLDOWN_SECONDS)
        return await self._another(refusal.model)

    async def _renewed(self, login: Login, sent: Secret, refusal: CredentialRefusal) -> Credential | None:
        """Return an account's credential with another token than the one refused, if one can be had."""
        if self._is_new(login.name, sent, refusal):
            return None
        try:
            entry = await self.accounts.refresh(login, refused=sent)
        except GatewayError:
            return None  # the client gets what the provider said, unless there is another account
        if entry.access_token == sent:
            return None
        self.pool.cooldowns.renewed[login.name] = (entry.access_token, self.accounts.clock.seconds())
        return self._credential(login.name)

    def _is_new(self, name: str, token: Secret, refusal: CredentialRefusal) -> bool:
        """Whether a token was got a moment ago because the one before was refused: another would not help."""
        renewed = self.pool.cooldowns.renewed.get(name)
        if renewed is None or renewed[0] != token:
            return False
        age = self.accounts.clock.seconds() - renewed[1]
        return age < (RENEWED_SECONDS if refusal.renewed else NEW_SECONDS)

    async def _another(self, model: str | None) -> Credential | None:
        """Return the credential of another account, with a new token if need be, or ``None``."""
        try:
            return await self.obtain(None, model)
        except GatewayError:
            return None

    def _is_fresh(self, name: str) -> bool:
        entry = self.accounts.fresh(self._by_name[name])
        if entry is None:
            return False
        self.pool.cooldowns.note_token(name, entry.access_token)
        return True

    def _is_usable(self, name: str) -> bool:
        return self._is_fresh(name) or self._can_refresh(name)

    def _can_refresh(self, name: str) -> bool:
        return self.accounts.can_refresh(self._by_name[name])

    def _credential(self, name: str) -> Credential:
        login = self._by_name[name]
        entry = self.accounts.entry(login)
        assert entry is not None, "the caller checked it"
        known = self._credentials.get(name)
        if known is not None and known[0] is entry:
            return known[1]
        credential = Credential(
            b"Authorization",
            Secret(f"Bearer {entry.access_token.reveal()}"),
            key_hash(name),
            account=name,
            expires_at=entry.expires_at,
            headers=ProfileHeaders(login.profile, self.cloak, entry.details),
        )
        self._credentials[name] = (entry, credential)
        return credential

    def _none_left(self, model: str | None, error: GatewayError | None) -> GatewayError:
        """Say why there is no credential."""
        seconds = self.pool.soonest(self._is_usable, model)
        if seconds:
            message = (
                f"all accounts of provider {self.provider!r} have reached their limits for this model; "
                f"the first can be used again in {ceil(seconds)} s"
            )
            return GatewayError(Reason.NO_ACCOUNT, message, retry_after=float(ceil(seconds)))
        if error is not None:
            return error
        names = ", ".join(self._by_name)
        if self.accounts.problem is None and all(self.accounts.entry(login) is None for login in self.logins):
            message = (
                f"provider {self.provider!r} has no usable subscription credential: nobody has logged in to "
                f"{names} yet (mgw auth login)"
            )
            return GatewayError(Reason.NO_PROVIDER_KEY, message)
        message = f"no subscription credential of provider {self.provider!r} ({names}) can be refreshed now"
        return GatewayError(Reason.CREDENTIAL_SOURCE, message, code="credential_source_failed")


def providers_without_account(credentials: Mapping[str, CredentialProvider]) -> frozenset[str]:
    """Return the providers none of whose accounts can be used."""
    return frozenset(
        name
        for name, source in credentials.items()
        if isinstance(source, SubscriptionSource) and not source.has_usable
    )
