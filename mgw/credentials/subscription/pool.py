"""Which of several accounts a request is sent with: in turn, without those in cooldown.

An account is in cooldown for one model where the provider limits it or does not sell it that model, and as a
whole where its token is refused.  Nothing here waits or sends: it is the state behind a
:class:`~mgw.credentials.subscription.source.SubscriptionSource`, and a clock.

Two promises: no request goes to an account in cooldown while another is usable, and there is none to choose
only while all are in cooldown.  A count of tokens neither begins a cooldown nor respects one of a model
(contract 8.26).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mgw.nouns.secret import Secret

MAX_RESTS: Final = 4096
"""How many cooldowns are remembered, as clients may invent models; of more, the first to end is forgotten."""

_WHOLE: Final = ""
"""The key of a cooldown of the whole account: no model has that name."""


OnCooldown = Callable[[str, str | None, float], None]
"""Told of an account, of a model (``None``: of all), and of the seconds; 0: its cooldown is over."""


@dataclass(slots=True, eq=False, repr=False)
class Cooldowns:
    """Which accounts of a store are in cooldown, and until when.

    What a provider says of an account counts in each pool.

    Several processes may use the accounts.  What this one finds out, it tells (``on_cooldown``); what another
    one found out (:meth:`learn`), it does not tell again.

    :param now: returns seconds that never go back.
    """

    now: Callable[[], float]
    on_cooldown: OnCooldown | None = None
    renewed: dict[str, tuple[Secret, float]] = field(default_factory=dict)
    """The token that was obtained because its predecessor was refused, and when."""
    _refused: dict[str, Secret] = field(default_factory=dict)
    """The token with which an account is in cooldown as a whole."""
    _learned: set[str] = field(default_factory=set)
    """The accounts in ``_refused`` whose token was refused in another process."""
    _until: dict[tuple[str, str], float] = field(default_factory=dict)
    """When each cooldown ends, by account and model."""

    def begin(self, name: str, model: str | None, seconds: float) -> None:
        """Let an account cool down; a longer cooldown that it has already stays.

        :param model: for which; ``None``: for all.
        """
        if self._begin(name, model, seconds) and self.on_cooldown is not None:
            self.on_cooldown(name, model, seconds)

    def refuse(self, name: str, token: Secret, seconds: float) -> None:
        """Let an account cool down as a whole whose token is refused, until it has another one."""
        self._learned.discard(name)
        self._refused[name] = token
        self.begin(name, None, seconds)

    def end(self, name: str) -> None:
        """Use an account again that was in cooldown as a whole."""
        is_own = name not in self._learned
        self._forget_refusal(name)
        if self._until.pop((name, _WHOLE), None) is not None and is_own and self.on_cooldown is not None:
            self.on_cooldown(name, None, 0.0)

    def note_token(self, name: str, token: Secret) -> None:
        """End the cooldown of an account as a whole if it has another token than the one refused."""
        refused = self._refused.get(name)
        if refused is not None and refused != token:
            self.end(name)

    def learn(self, name: str, model: str | None, seconds: float) -> None:
        """Let an account cool down because another process found out that it should.

        A cooldown as a whole that this process began ends when this process sees another token, not before.

        :param model: for which; ``None``: for all.
        :param seconds: 0 where it is to be used again.
        """
        if seconds > 0:
            self._begin(name, model, seconds)
        elif model is not None:
            self._until.pop((name, model), None)
        elif name not in self._refused or name in self._learned:
            self._forget_refusal(name)
            self._until.pop((name, _WHOLE), None)

    def learn_refused(self, name: str, token: Secret) -> None:
        """Note the token of an account that is in cooldown as a whole by what another process found out."""
        if name not in self._refused and self.remaining(name, None) is not None:
            self._refused[name] = token
            self._learned.add(name)

    def remaining(self, name: str, model: str | None) -> float | None:
        """Return the seconds for which an account is still in cooldown; ``None``: it is not."""
        longest = self._seconds_left((name, _WHOLE))
        if model is not None:
            longest = max(longest, self._seconds_left((name, model)))
        return longest if longest > 0 else None

    def counts_by_name(self, names: Sequence[str]) -> dict[str, int]:
        """Return for how many models each account is in cooldown at present, itself included."""
        now, found = self.now(), dict.fromkeys(names, 0)
        for (name, _), until in self._until.items():
            if until > now and name in found:
                found[name] += 1
        return found

    def names_in_cooldown(self) -> set[str]:
        """Return the accounts in cooldown at present, as a whole or for some model."""
        now = self.now()
        return {name for (name, _), until in self._until.items() if until > now}

    def under_way(self) -> list[tuple[str, str | None, float]]:
        """Return each cooldown: the account, the model (``None``: all), and the seconds that are left."""
        now = self.now()
        return [
            (name, None if model == _WHOLE else model, until - now)
            for (name, model), until in self._until.items()
            if until > now
        ]

    def _begin(self, name: str, model: str | None, seconds: float) -> bool:
        """Begin a cooldown or make it longer; return whether there was anything to do."""
        key = (name, _WHOLE if model is None else model)
        until = self.now() + seconds
        if until <= self._until.get(key, 0.0):
            return False
        if key not in self._until and len(self._until) >= MAX_RESTS:
            self._make_room()
        self._until[key] = until
        return True

    def _forget_refusal(self, name: str) -> None:
        self._refused.pop(name, None)
        self._learned.discard(name)

    def _seconds_left(self, key: tuple[str, str]) -> float:
        until = self._until.get(key)
        if until is None:
            return 0.0
        left = until - self.now()
        if left <= 0:
            del self._until[key]
        return left

    def _make_room(self) -> None:
        """Forget the cooldowns that are over, or the one that ends first."""
        now = self.now()
        over = [key for key, until in self._until.items() if until <= now]
        for key in over or [min(self._until, key=self._until.__getitem__)]:
            del self._until[key]


@dataclass(slots=True, eq=False, repr=False)
class AccountPool:
    """The accounts of one provider, in turn.

    :param names: of their entries in the store.
    """

    names: Sequence[str]
    cooldowns: Cooldowns
    _next: int = 0

    def pick(self, usable: Callable[[str], bool], model: str | None) -> str | None:
        """Return the account whose turn it is, or ``None`` where all that are usable are in cooldown.

        :param usable: whether an account has a token to send.
        :param model: which is asked for; ``None``: no certain one, so that cooldowns of models do not count.
        """
        count = len(self.names)
        for step in range(count):
            position = (self._next + step) % count
            name = self.names[position]
            if usable(name) and self.cooldowns.remaining(name, model) is None:
                self._next = (position + 1) % count
                return name
        return None

    def soonest(self, usable: Callable[[str], bool], model: str | None) -> float | None:
        """Return the seconds until the first usable account has rested; ``None``: none is usable."""
        waits = [self.cooldowns.remaining(name, model) or 0.0 for name in self.names if usable(name)]
        return min(waits, default=None)
