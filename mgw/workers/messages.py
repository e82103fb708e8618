"""The messages between the supervisor and its workers, as values that msgpack encodes.

A message is told, or asked and answered with another one; :mod:`mgw.workers.channel` does either.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mgw.clients.limits import LimitReached, Limits, Taken, Warnings


class ChannelMessage(Struct, frozen=True, tag=True, array_like=True):
    """Anything that is said."""


class Done(ChannelMessage, frozen=True):
    """The answer where there is nothing to say."""


class Failed(ChannelMessage, frozen=True):
    """The answer where something could not be done; the text says why, and holds no secret."""

    reason: str


class Ping(ChannelMessage, frozen=True):
    """Does your event loop turn?  A channel answers it by itself, with :class:`Done`."""


# From the supervisor to a worker


class Begin(ChannelMessage, frozen=True):
    """Serve requests; answered with :class:`Done` once the worker does, or :class:`Failed`."""

    slot: int
    """Which of the workers it is, counted from 0; whoever replaces a dead one has its number."""
    workers: int
    """How many there are."""
    number: int
    """The number of the configuration."""
    config: bytes
    """The checked settings, pickled: they stay among the processes of one service."""
    operator_socket: str
    """Path of the socket where the supervisor's process answers operators."""


class Reload(ChannelMessage, frozen=True):
    """Use another configuration from now on; answered with :class:`Done` or :class:`Failed`."""

    workers: int
    number: int
    config: bytes


class Drain(ChannelMessage, frozen=True):
    """Take no new requests, end those under way within the time of the configuration, and exit."""

    seconds: float
    """How long that may take; 0: cut off what is under way."""
    is_alone: bool = False
    """Whether the other workers go on, who take all clients that come."""


class KeysChanged(ChannelMessage, frozen=True):
    """Keys of key files are new, other than before, or gone."""

    changed: bytes
    """Their settings, pickled as the configuration is."""
    gone: tuple[str, ...] = ()
    """Names."""


class IssuerKeysChanged(ChannelMessage, frozen=True):
    """The public keys of an issuer of tokens were fetched."""

    source: str
    """Digest of all that decides which keys there are: a worker may have another configuration by now."""
    document: bytes | None
    """The JSON Web Key Set; ``None``: it is as it was."""
    age: float | None
    """How many seconds ago it was fetched; ``None``: no configuration uses the source any more."""


class StateQuestion(ChannelMessage, frozen=True):
    """How busy are you? Answered with :class:`WorkerState`, behind all rows of requests that have ended."""


class WorkerState(ChannelMessage, frozen=True):
    """The answer: numbers of the moment."""

    tables: list[tuple[str, list[tuple[tuple[str, ...], tuple[float, ...]]]]]
    """Rows of metrics by the name of their family: labels and numbers."""
    facts: dict[str, int]
    """How many requests and sessions are under way."""
    requests: list[dict[str, Any]]  # Any: JSON
    """The requests under way, as the dashboard shows them, of which the oldest comes first."""
    sessions: list[dict[str, Any]]  # Any: JSON


# From a worker to the supervisor


class Rows(ChannelMessage, frozen=True):
    """Requests that have ended, in order; :mod:`mgw.workers.rows` writes and reads them."""

    labels: list[tuple[int, tuple[bytes | None, ...]]]
    """Labels that the reader does not have, each with the number that stands for it."""
    requests: bytes
    """A list of them, in msgpack."""


class LogText(ChannelMessage, frozen=True):
    """Something for the process log, from which secrets have been taken."""

    level: str
    time: float
    """Unix seconds."""
    text: str
    logger: str = ""
    """What has said it."""
    message_length: int | None = None
    """Where the traceback begins, if the text has one; see :class:`mgw.ops.logs.RedactingObserver`."""


class AcquirePermit(ChannelMessage, frozen=True):
    """May a request or session begin? Answered with :class:`PermitGranted` or :class:`PermitDenied`."""

    limits: Limits
    """Those that the worker's configuration states: the other process may have another one by now."""
    held: Taken
    permit: int
    """The worker's number for it."""


class PermitGranted(ChannelMessage, frozen=True):
    """It may; the number is that of the question."""

    permit: int


class PermitDenied(ChannelMessage, frozen=True):
    """It may not."""

    reached: LimitReached


class ReleasePermit(ChannelMessage, frozen=True):
    """A request or session that was counted has ended, or nobody waits for the permit any more.

    Told, or where a row may give warnings, asked and answered with :class:`LimitWarnings`.
    """

    permit: int
    taken: Taken


class LimitWarnings(ChannelMessage, frozen=True):
    """What the end of a request has caused."""

    warnings: Warnings


class AddTaken(ChannelMessage, frozen=True):
    """A request has ended that the worker had admitted alone, since it got no answer."""

    limits: Limits
    taken: Taken


class TokenQuestion(ChannelMessage, frozen=True):
    """What token has an identity? Answered with :class:`TokenAnswer`, :class:`TokenFailure`,
    :class:`TokenPending`, or :class:`Failed` where no provider of the configuration has that identity.
    """

    identity: str
    """Digest of all that the worker's configuration says of it."""
    refused: str | None
    """Digest of a token that the provider has refused: not that one."""
    at_once: bool = False
    """Whether requests wait for it, so that a good one is not to be renewed first."""


class TokenAnswer(ChannelMessage, frozen=True):
    """A token that is good for so many seconds; it stays among the processes of one service."""

    token: str
    seconds: float
    further: tuple[str, ...] = ()
    """The other parts of a credential that has several."""

    def __repr__(self) -> str:
        return f"TokenAnswer({self.seconds!r})"


class TokenFailure(ChannelMessage, frozen=True):
    """There is none."""

    message: str
    detail: str


class TokenPending(ChannelMessage, frozen=True):
    """It is being obtained, and takes long: ask again."""


class IssuerKeysQuestion(ChannelMessage, frozen=True):
    """A token names a key that is not known: fetch the keys of its issuer, unless that was done just now.

    With ``first``, there are no keys at all: wait for the first fetch, if that is under way.

    Answered with :class:`IssuerKeysAnswer`, behind what the fetch has brought; with :class:`Failed` where the
    supervisor's configuration has no such source.
    """

    source: str
    first: bool = False


class IssuerKeysAnswer(ChannelMessage, frozen=True):
    """The fetch is done, or goes on, or there was none."""

    seconds: float
    """For how long asking again is of no use."""


class SessionNews(ChannelMessage, frozen=True):
    """A realtime session was opened or closed; its row is that of the dashboard."""

    change: dict[str, Any]  # Any: JSON


# Both ways: what one process learns and all should know


class AccountCooldown(ChannelMessage, frozen=True):
    """A provider limits an account of a store, or refuses it."""

    store: str
    account: str
    model: str | None
    """``None``: for all models."""
    seconds: float


AnyMessage = (
    Done
    | Failed
    | Ping
    | Begin
    | Reload
    | Drain
    | KeysChanged
    | IssuerKeysChanged
    | StateQuestion
    | WorkerState
    | Rows
    | LogText
    | AcquirePermit
    | PermitGranted
    | PermitDenied
    | ReleasePermit
    | LimitWarnings
    | AddTaken
    | TokenQuestion
    | TokenAnswer
    | TokenFailure
    | TokenPending
    | IssuerKeysQuestion
    | IssuerKeysAnswer
    | SessionNews
    | AccountCooldown
)
