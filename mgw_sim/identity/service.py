"""All identity providers of the simulator, by their names: ``/sim/idp/NAME/…``.

A provider begins with the first request that names it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from twisted.internet.interfaces import IReactorThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool

from mgw_sim.api import Response, UnaryResponse
from mgw_sim.faults import Faults
from mgw_sim.recording import RecordedRequest, Recorder, happens, it_did_not_happen
from mgw_sim.tokens import origin_of, token_error

if TYPE_CHECKING:
    from mgw_sim.identity.provider import IdentityProvider

PREFIX: Final = "/sim/idp/"
MAX_PROVIDERS: Final = 100
"""How many are remembered; the oldest go first."""
_PATH: Final = re.compile(r"/sim/idp/([A-Za-z0-9_-]{1,64})/(.+)")
_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    ".well-known/openid-configuration": ("GET",),
    "jwks": ("GET",),
    "foreign-jwks": ("GET",),
    "token": ("POST",),
    "state": ("GET", "POST", "DELETE"),
}
_NOT_SENT_AS_JSON: Final = "to have a token signed, send the JSON with Content-Type: application/json"
T = TypeVar("T")


@dataclass(slots=True)
class IdentityProviders:
    """Answers the requests to all providers.

    :param now: returns unix seconds.
    :param add_token: makes the vendors' routes know an exchanged token, for so many seconds.
    """

    reactor: IReactorTime
    recorder: Recorder
    now: Callable[[], float]
    add_token: Callable[[str, float], None]
    _providers: "dict[str, IdentityProvider]" = field(default_factory=dict)

    async def answer(
        self, recorded: RecordedRequest, raw_path: str, query: Mapping[str, str]
    ) -> tuple[Response, Faults]:
        """Answer one request, and say what is to go wrong on its way."""
        found = _PATH.fullmatch(raw_path)
        if found is None or found[2] not in _METHODS:
            return UnaryResponse(b'{"error":"no such route"}', status=404), Faults()
        name, path = found.groups()
        if recorded.method not in _METHODS[path]:
            allowed = (("Allow", ", ".join(_METHODS[path])),)
            return UnaryResponse(b'{"error":"no such method"}', status=405, headers=allowed), Faults()
        provider = self._provider(name)
        issuer = f"{origin_of(recorded)}{PREFIX}{name}"
        if path == "state":
            return await self._operate(recorded, provider, query), Faults()
        if path == "token" and _is_json(recorded):
            return await provider.sign(bytes(recorded.body), issuer), Faults()
        if path == "token" and recorded.body.lstrip().startswith(b"{"):
            return token_error("invalid_request", 400, _NOT_SENT_AS_JSON), Faults()
        provider.count(recorded, path)
        self.recorder.changed()
        return await provider.answer(recorded, path, issuer)

    async def _operate(
        self, recorded: RecordedRequest, provider: "IdentityProvider", query: Mapping[str, str]
    ) -> Response:
        """Answer a request of a test about the state; ``?path=jwks&count=2`` waits for so many requests."""
        if recorded.method == "POST":
            return await provider.set_state(bytes(recorded.body))
        if recorded.method == "DELETE":
            del self._providers[provider.name]
            return UnaryResponse(b"{}")
        if "path" in query:
            path, count = query["path"], int(query.get("count", "1"))
            seconds = float(query.get("seconds", "10"))
            if not await happens(
                self.recorder, self.reactor, lambda: provider.counts[path] >= count, seconds
            ):
                return it_did_not_happen()
        return await provider.describe()

    def _provider(self, name: str) -> "IdentityProvider":
        from mgw_sim.identity.provider import IdentityProvider  # here, since it takes cryptography

        provider = self._providers.get(name)
        if provider is None:
            while len(self._providers) >= MAX_PROVIDERS:
                del self._providers[next(iter(self._providers))]
            provider = IdentityProvider(name, self.now, self._run, self.add_token)
            self._providers[name] = provider
        return provider

    async def _run(self, work: Callable[[], T]) -> T:
        """Run what takes long: in a thread, unless the reactor is one of a test in memory, which has none."""
        if not IReactorThreads.providedBy(self.reactor):
            return work()
        threads = IReactorThreads(self.reactor)
        return await deferToThreadPool(self.reactor, threads.getThreadPool(), work)


def is_of_identity_provider(path: str) -> bool:
    """Whether a path is an identity provider's."""
    return path.startswith(PREFIX)


def _is_json(recorded: RecordedRequest) -> bool:
    media_type = (recorded.head.value(b"content-type") or b"").partition(b";")[0]
    return media_type.strip().lower() == b"application/json"
