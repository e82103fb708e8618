"""Take the methods of an SDK one by one, and say what the gateway changes that it may not."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import anthropic
import openai
from google import genai

from tests.support.sdk_walk.arguments import MODEL
from tests.support.sdk_walk.calls import SDKS, Outcome, Sdk, method_of, run
from tests.support.sdk_walk.cases import Case, plain_cases
from tests.support.sdk_walk.differences import Provider, of_calls
from tests.support.sdk_walk.gemini import GEMINI
from tests.support.sdk_walk.methods import PLUMBING, Method, methods
from tests.support.sdk_walk.records import Recorded
from tests.support.sdk_walk.special import ANTHROPIC, OPENAI, Cases
from tests.support.sdk_walk.street import PROVIDERS, Street

SPECIAL: Final[Mapping[str, Mapping[str, Cases]]] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
}

_RESOURCES: Final[tuple[tuple[str, type, type], ...]] = (
    ("openai", openai.OpenAI, cached_property),
    ("anthropic", anthropic.Anthropic, cached_property),
    ("gemini", genai.Client, property),
)
_SETTINGS: Final = frozenset({"vertexai"})


def resources() -> list[str]:
    """Return the resources of all clients, as ``<sdk>.<resource>``, without making a client."""
    return [
        f"{sdk}.{name}"
        for sdk, client, how in _RESOURCES
        for name, value in sorted(inspect.getmembers_static(client))
        if isinstance(value, how) and not name.startswith("_") and name not in PLUMBING.keys() | _SETTINGS
    ]


@dataclass
class Walk:
    """One SDK on the street; what a call sends directly is kept, and compared as often as it is needed."""

    street: Street
    sdk: Sdk
    methods: Mapping[str, Method] = field(init=False)
    _clients: tuple[Any, Any] = field(init=False)  # one of Google's that nobody holds closes itself
    _direct: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._clients = (self.street.direct(self.sdk), self.street.through(self.sdk))
        self.methods = methods(self._clients[0])

    def below(self, resource: str) -> list[str]:
        """Return the methods of a resource and of those in it."""
        return [name for name in self.methods if name.startswith(f"{resource}.")]

    def cases(self, name: str) -> list[Case]:
        """Return the calls of a method."""
        return list(SPECIAL[self.sdk.name].get(name, plain_cases)(self.methods[name]))

    @property
    def provider(self) -> Provider:
        """The provider that must get the requests."""
        return PROVIDERS[self.sdk.provider]

    def direct(self, name: str, case: Case) -> Outcome:
        """Return what a call sends to its upstream."""
        key = (name, case.name)
        if key not in self._direct:
            self._direct[key] = run(self.methods[name], case, self.street.watched())
        return self._direct[key]

    def through(self, name: str, case: Case, model: str = MODEL) -> Outcome:
        """Return what a call through the gateway sends, and to whom."""
        return run(method_of(self._clients[1], name), case, self.street.watched(), model)

    def differences(self, name: str) -> Iterator[str]:
        """Yield what the gateway changes in the calls of a method."""
        for case in self.cases(name):
            direct, through = self.direct(name, case), self.through(name, case)
            yield from self._compared(name, case, direct, through)

    def differences_with_prefix(self, name: str) -> Iterator[str]:
        """Yield what is not as if the model were bare, where the call names it as ``<provider>/<model>``."""
        provider = self.provider
        for case in self.cases(name):
            direct = self.direct(name, case)
            if names_model(direct.requests[self.sdk.provider]):
                through = self.through(name, case, f"{provider.name}/{MODEL}")
                yield from self._compared(name, case, direct, through)

    def _compared(self, name: str, case: Case, direct: Outcome, through: Outcome) -> Iterator[str]:
        where = f"{self.sdk.name}.{name} ({case.name})"
        requests = direct.requests[self.sdk.provider]
        if not requests:
            yield f"{where}: sends nothing ({direct.error!r}): give it arguments, or list it with a reason"
        for what in of_calls(requests, through.requests, self.provider):
            yield f"{where}: {what}"
        if type(direct.error) is not type(through.error):
            yield f"{where}: ended with {through.error!r}, and directly with {direct.error!r}"


def names_model(requests: Sequence[Recorded]) -> bool:
    """Tell whether requests name the model in a path or body; in a query it only filters a list."""
    return any(MODEL in one.path or MODEL.encode() in one.body for one in requests)


def of(sdk: str, street: Street) -> Walk:
    """Return the walk of an SDK."""
    return Walk(street, SDKS[sdk])
