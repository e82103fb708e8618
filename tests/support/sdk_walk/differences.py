"""What may differ between a request that came directly and the same one through the gateway.

Method, target and body must be the same bytes, and so must every header that is not in :data:`HEADERS`.  The
version prefix of a provider's base address is the one that the SDK dials here, so that no path differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.support.sdk_walk.records import Recorded

_HOP: Final = "describes one connection, not the request (RFC 9110 7.6.1)"
_CREDENTIAL: Final = (
    "the client's key stays here, the provider's own goes on (contract 3.8); checked by itself"
)

HEADERS: Final[Mapping[str, str]] = {
    "host": "names the upstream instead of the gateway",
    "connection": _HOP,
    "keep-alive": _HOP,
    "transfer-encoding": _HOP,
    "content-length": "frames the body, and the bodies are compared",
    "accept-encoding": "reduced to what metering reads (contract 5.6); checked to offer nothing new",
    "authorization": _CREDENTIAL,
    "x-api-key": _CREDENTIAL,
    "x-goog-api-key": _CREDENTIAL,
}
"""Headers that may differ, each with the reason."""

CARRIERS: Final = ("authorization", "x-api-key", "x-goog-api-key")
CLIENT_SECRET: Final = "canary-of-the-client"
"""In every key of a client, and so in nothing that an upstream gets."""


@dataclass(frozen=True)
class Provider:
    """A provider of the gateway under test, and how it must be told who asks."""

    name: str
    carrier: str
    credential: str
    foreign: tuple[str, ...]
    """How headers begin that go to other families only (contract 5.5)."""
    required: tuple[tuple[str, str], ...] = ()
    """Headers that the gateway adds where the client sent none (contract 3.8)."""


def of_calls(
    direct: Sequence[Recorded], through: Mapping[str, Sequence[Recorded]], provider: Provider
) -> Iterator[str]:
    """Yield what differs between a call's requests and those that one provider, and no other, should get."""
    for name, requests in through.items():
        if requests and name != provider.name:
            yield f"{name} got {', '.join(map(str, requests))}, which is {provider.name}'s"
    arrived = through[provider.name]
    if len(arrived) != len(direct):
        yield f"{provider.name} got {list(map(str, arrived))} for {list(map(str, direct))}"
    for sent, came in zip(direct, arrived, strict=False):
        yield from (f"{sent}: {what}" for what in of_requests(sent, came, provider))


def of_requests(sent: Recorded, came: Recorded, provider: Provider) -> Iterator[str]:
    """Yield what differs between two requests."""
    if came.method != sent.method:
        yield f"the method became {came.method}"
    if came.target != sent.target:
        yield f"the target became {came.target}"
    if came.body != sent.body:
        at = _first_difference(sent.body, came.body)
        yield f"the body became {_around(came.body, at)} at byte {at}, and was {_around(sent.body, at)}"
    yield from _of_headers(sent, came, provider)
    yield from _of_credential(came, provider)


def _of_headers(sent: Recorded, came: Recorded, provider: Provider) -> Iterator[str]:
    expected = Counter(pair for pair in _compared(sent) if not pair[0].lower().startswith(provider.foreign))
    expected += Counter(pair for pair in provider.required if sent.header(pair[0]) is None)
    found = Counter(_compared(came))
    for name, value in expected - found:
        yield f"the header {name}: {value} is lost"
    for name, value in found - expected:
        yield f"the header {name}: {value} is new"
    new = _codings(came) - _codings(sent)
    if new:
        yield f"Accept-Encoding offers {', '.join(sorted(new))}, which the client did not"


def _compared(request: Recorded) -> list[tuple[str, str]]:
    return [pair for pair in request.headers if pair[0].lower() not in HEADERS]


def _codings(request: Recorded) -> set[str]:
    offered = (request.header("accept-encoding") or "identity").split(",")
    return {one.partition(";")[0].strip() for one in offered} - {"identity"}


def _of_credential(came: Recorded, provider: Provider) -> Iterator[str]:
    carried = {name.lower(): value for name, value in came.headers if name.lower() in CARRIERS}
    if carried != {provider.carrier: provider.credential}:
        yield f"the credential is not {provider.name}'s own: {carried}"
    texts = (came.target, *(value for _, value in came.headers), came.body.decode("latin-1"))
    if any(CLIENT_SECRET in text for text in texts):
        yield "the client's own key came along"


def _first_difference(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _around(body: bytes, at: int) -> str:
    """Return what stands around the place of a difference."""
    return repr(body[max(0, at - 60) : at + 60])
