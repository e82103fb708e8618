"""The interface through which the code that sends requests gets credentials."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Sequence
from math import inf
from typing import Any, Final, Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred

from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.wire.headers import RawHeaders


class ClientKey(Struct, frozen=True):
    """The credential that a client brought for the provider; never an edge key.

    ``scheme`` is that of ``Authorization`` as sent (``Bearer``, ``Token``), ``None`` for other carriers.
    """

    value: Secret
    scheme: bytes | None
    family: Family
    """The family of the client's dialect."""
    kind_header: bytes | None = None
    """The header that carried it, in lower case, if that is of one kind of provider: it goes to no other."""


class CallerToken(Struct, frozen=True):
    """The token of an identity provider with which a client was let in; it never goes to a provider itself.

    Some providers' tokens are got in exchange for it.
    """

    value: Secret
    until: float
    """The first moment at which it is no longer valid, in Unix seconds."""
    ends: float = inf
    """The same on a clock that nobody sets."""
    expires: float = inf
    """What the token itself says of its end: without the skew that is allowed."""

    def is_past(self, now: float, monotonic: float) -> bool:
        """Whether it is no longer valid, by either clock: the one of Unix time may be set back."""
        return now >= self.until or monotonic >= self.ends


class HeaderEdits(Protocol):
    """What else a credential asks of the headers that it goes with."""

    @property
    def secrets(self) -> Sequence[Secret]:
        """Credentials among them, which no response may repeat."""
        ...

    def apply(self, headers: RawHeaders) -> RawHeaders:
        """Return the headers of a client's request as they are sent."""
        ...


class SigningClock(Protocol):
    """The clock of a host, as its answers show it."""

    @property
    def correction(self) -> float:
        """Seconds that are added to our time to sign in the host's."""
        ...

    def note(self, date: bytes, sent_at: float, received_at: float) -> None:
        """Learn from an answer.

        :param date: when the host says that it gave it.
        :param sent_at: unix seconds at which the request was signed.
        :param received_at: unix seconds at which the head of the answer came.
        """
        ...


class Signer(Protocol):
    """Signs requests for a credential, whatever kind of provider they go to."""

    @property
    def names(self) -> Collection[bytes]:
        """The lower-case names of the headers that sign a request; no others of these names are sent."""
        ...

    @property
    def own_prefix(self) -> bytes:
        """Headers of a client whose lower-case names begin so are not sent, whatever is forwarded else."""
        ...

    @property
    def clock(self) -> SigningClock:
        """The clock that it signs in."""
        ...

    def sign(
        self, method: bytes, target: bytes, headers: RawHeaders, digest: bytes, now: float
    ) -> RawHeaders:
        """Return the headers that sign a request.

        :param target: path and query as the request line has them.
        :param headers: all that are sent, ``Host`` first, but for ``Content-Length`` and ``Connection``.
        :param digest: the SHA-256 of the body.
        :param now: unix seconds.
        """
        ...

    def signs_otherwise(self, refusal: CredentialRefusal, correction: float) -> bool:
        """Whether a request was refused for its time, and would be signed in another one now.

        :param correction: that of :attr:`clock` as it was signed.
        """
        ...


class Credential(Struct, frozen=True):
    """One header that says who we are, and how an event names it."""

    header: bytes
    """The name of the header that carries the credential; empty where nothing is sent."""
    value: Secret
    key_hash: str
    account: str | None = None
    expires_at: float | None = None
    of_client: bool = False
    """Whether the credential is the client's own, which the client may read in a response."""
    headers: HeaderEdits | None = None
    """The edits that the account's profile makes to all other headers."""
    signer: Signer | None = None
    """Signs each request that is sent with it; ``None``: heads may be kept with it."""
    added: tuple[Secret, ...] = ()
    """What its signer sends besides that no text may repeat, such as the token of a session."""

    @property
    def key(self) -> Secret:
        """The value without its scheme: what no text may repeat."""
        return Secret(self.value.reveal().rpartition(" ")[2])


NO_CREDENTIAL: Final = Credential(b"", Secret(""), "")
"""The credential of a request that is sent without any."""


class CredentialRefusal(Struct, frozen=True):
    """What an upstream answered to a request whose credential it may have refused."""

    status: int
    headers: RawHeaders = []
    model: str | None = None
    """The model that was asked for, by the provider's own name; ``None``: none, or unknown, or the request
    counted tokens, whose refusal says nothing of the limits (contract 8.26)."""
    body: bytes = b""
    """The part of the response's body that had arrived with its head."""
    attempts: int = 1
    """How many upstream requests the client's request has begun since its last retry or fallback."""
    renewed: bool = False
    """Whether one of these requests was refused with 401 before."""


class CredentialProvider(Protocol):
    """A source of credentials for one provider.

    A ``model`` is the provider's own name of the one that is asked for: accounts have limits for each.
    """

    @property
    def signs(self) -> bool:
        """Whether its credentials sign requests, so that bodies are hashed while they are stored."""
        ...

    def ready(self, client_key: ClientKey | None, model: str | None = None) -> Credential | None:
        """Return the credential to begin with if it is at hand, else ``None``; never raises."""
        ...

    def obtain(
        self, client_key: ClientKey | None, model: str | None = None
    ) -> Coroutine[Deferred[Any], Any, Credential]:
        """Return the credential to begin with.

        :raises GatewayError: ``NO_PROVIDER_KEY`` or ``CREDENTIAL_SOURCE``.
        """
        ...

    def refused(
        self, credential: Credential, refusal: CredentialRefusal
    ) -> Coroutine[Deferred[Any], Any, Credential | None]:
        """Return another credential after the upstream refused one, or ``None`` to pass the response on."""
        ...

    def refusable(self, status: int) -> bool:
        """Whether a status is worth asking :meth:`refused` about."""
        ...

    def close(self) -> None:
        """Let go of files, timers and connections."""
        ...
