"""What the dashboard sees of the gateway, and what it asks of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from twisted.logger import LogPublisher

from mgw.clients.key_rows import KeyRow
from mgw.clients.limits import RowState
from mgw.config.key_settings import NamedKeySettings
from mgw.dashboard.session_list import SessionRow
from mgw.dashboard.token_access import TokenFinder
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import Offload, run_inline
from mgw.generation import Generation
from mgw.nouns.token_flaw import TokenFlaw
from mgw.reactor.daemon_threads import SerialRunner
from mgw.realtime.sessions import Sessions
from mgw.usage.journal import Sink


def _no_issuers() -> TokenFinder | None:
    return None


def _ignore_token(_: str, __: TokenFlaw) -> None:
    """Nobody counts."""


class OtherWork(Protocol):
    """What is under way in other processes of the service."""

    def refresh(self) -> Awaitable[None]:
        """Ask them; it is ready when they have answered or had their time, and raises nothing."""
        ...

    def requests(self) -> tuple[int, Sequence[dict[str, Any]]]:  # Any: JSON
        """Return how many requests there are, and rows of them, of which the oldest comes first."""
        ...

    def sessions(self) -> Sequence[SessionRow]:
        """Return the open sessions, of which the oldest comes first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayView:
    """What the dashboard sees of the gateway."""

    reactor: Any  # Any: a reactor has no one type
    wall: Callable[[], float]
    """Returns unix seconds."""
    generation: Callable[[], Generation]
    """Returns the one that new requests begin with."""
    rejected: Callable[[str], None]
    """Counts a request whose ``key`` or ``origin`` does not fit."""
    exchanges: Callable[[], Iterable[Exchange]]
    """Returns those that have not ended, of which the oldest comes first."""
    facts: Callable[[], Mapping[str, Any]]  # Any: JSON
    """Returns ``draining``, ``in_flight``, ``sessions`` and ``max_sessions``."""
    sessions: Callable[[], Sessions]
    """Returns those that are open."""
    log: LogPublisher
    """Takes observers of the finished text of the process log, without secrets."""
    add_sink: Callable[[Sink], None]
    """Tells a sink of exchanges, from the use of this configuration on."""
    limits: Callable[[], Awaitable[Sequence[RowState]]]
    """Returns what is used of the rows of limits that last longer than a minute."""
    keys: Callable[[], Sequence[KeyRow]]
    """Returns the gateway keys with names."""
    tokens: Callable[[], TokenFinder | None] = _no_issuers
    """Returns what checks tokens of identity providers; ``None``: there are no issuers."""
    token_rejected: Callable[[str, TokenFlaw], None] = _ignore_token
    """Counts a request with a token that is refused, by the name of the issuer's entry."""
    offload: Offload = run_inline
    """Does the work on large answers."""
    file_keys: Callable[[], Sequence[NamedKeySettings]] = tuple
    """Returns the keys of key files that are in force."""
    query_thread: SerialRunner | None = None
    """Where usage events are read; ``None``: a thread that is made for it."""
    others: OtherWork | None = None
    """Other processes, whose requests and sessions are to be shown as well."""
